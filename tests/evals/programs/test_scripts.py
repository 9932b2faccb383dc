"""`exec:`: programs that get the prompt, their options and the context as arguments."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.evals.programs.running_code import SECRET, details, error, value
from tests.evals.programs.running_providers import opened, provider_of

from headway.core.model import Kind
from headway.errors import ConfigError, UsageError


def script(folder: Path, body: str) -> str:
    """A Python script in the folder; it has `prompt`, `options` and `context`."""
    (folder / "s.py").write_text(
        "import json, os, sys, time\n"
        "prompt, options, context = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])\n" + body,
        encoding="utf-8",
    )
    return f"exec:{sys.executable} s.py"


async def test_a_script_gets_prompt_options_and_context_as_arguments_and_the_prompt_on_standard_input(
    tmp_path: Path,
) -> None:
    source = "print(json.dumps([prompt, sys.stdin.read(), options, context['vars'], os.getcwd()]))"
    async with opened(script(tmp_path, source), tmp_path, {"a": 1}) as provider:
        output = value(await provider.ask("What's 1+1? 😀\n", vars={"b": [2]}))
    prompt = "What's 1+1? 😀\n"
    assert json.loads(output) == [
        prompt,
        prompt,
        {"config": {"basePath": str(tmp_path), "a": 1}},
        {"b": [2]},
        str(tmp_path),
    ]


async def test_output_is_trimmed_and_has_no_colours(tmp_path: Path) -> None:
    async with opened(script(tmp_path, "print('\\n \\x1b[31mred\\x1b[0m \\n')"), tmp_path) as provider:
        assert value(await provider.ask("x")) == "red"


async def test_the_command_is_split_as_in_a_shell_but_no_shell_runs_it(tmp_path: Path) -> None:
    (tmp_path / "a b.sh").write_text('#!/bin/sh\necho "$1|$2"\n')
    (tmp_path / "a b.sh").chmod(0o755)
    async with opened("exec: './a b.sh' '$HOME;ls'", tmp_path) as provider:
        assert value(await provider.ask("$(id)")) == "$HOME;ls|$(id)"


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("sys.exit('it broke')", Kind.INVALID, "it broke"),
        ("sys.stderr.write('only a warning')", Kind.INVALID, "only a warning"),
        ("sys.exit(75)", Kind.HOLD, "code 75"),
        ("os.kill(os.getpid(), 9)", Kind.CRASH, "SIGKILL"),
        ("sys.exit('Error: 429 Too Many Requests, retry after 20 seconds')", Kind.RATE, "429"),
    ],
)
async def test_a_failure_has_its_kind_and_its_words(tmp_path: Path, body: str, kind: Kind, said: str) -> None:
    async with opened(script(tmp_path, body), tmp_path) as provider:
        assert said in error(await provider.ask("x"), kind)


async def test_words_on_standard_error_beside_an_output_do_no_harm(tmp_path: Path) -> None:
    async with opened(script(tmp_path, "sys.stderr.write('warning')\nprint('out')"), tmp_path) as provider:
        answer = await provider.ask("x")
    assert value(answer) == "out"
    assert details(answer)["stderr"] == "warning"


async def test_a_script_that_hangs_is_killed_and_the_next_one_runs(tmp_path: Path) -> None:
    async with opened(
        script(tmp_path, "time.sleep(1000 if prompt == 'slow' else 0)\nprint(1)"), tmp_path
    ) as provider:
        assert "1 s" in error(await provider.ask("slow", timeout_s=1.0), Kind.TIMEOUT)
        assert value(await provider.ask("quick")) == "1"


async def test_a_script_that_prints_without_end_is_bounded(tmp_path: Path) -> None:
    async with opened(script(tmp_path, "sys.stdout.write('x' * 70_000_000)"), tmp_path) as provider:
        assert "max_answer_bytes" in error(await provider.ask("x"))


async def test_a_prompt_that_no_argument_can_hold_is_an_error_of_its_cell(tmp_path: Path) -> None:
    async with opened(script(tmp_path, "print(1)"), tmp_path) as provider:
        assert "its arguments are too long" in error(await provider.ask("x" * 3_000_000))
        assert "null character" in error(await provider.ask("a\0b"))
        assert value(await provider.ask("x")) == "1"


async def test_secrets_are_blotted_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE", SECRET)
    source = "print('<' + options['config']['key'] + '>')\nsys.stderr.write(os.environ['MY_SERVICE'])"
    async with opened(script(tmp_path, source), tmp_path, {"key": "{{env.MY_SERVICE}}"}) as provider:
        answer = await provider.ask("x")
    assert value(answer) == "<***>"
    assert SECRET.encode() not in answer.note


@pytest.mark.parametrize(
    ("provider_id", "said"), [("exec:", "a command is missing"), ("exec: 'open", "no closing quotation")]
)
def test_a_command_that_cannot_be_read(tmp_path: Path, provider_id: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        provider_of(provider_id, tmp_path)


async def test_a_program_that_is_missing_is_an_error_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no program 'no-such-program'"):
        async with opened("exec: no-such-program --flag", tmp_path):
            pytest.fail("it was built")
