"""`python:f.py`, `file://f.py` and `file://f.js`: functions that are providers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.evals.programs.running_code import SECRET, error, needs_node, value
from tests.evals.programs.running_providers import opened, provider_of

from headway.core.model import Kind, Usage
from headway.errors import ConfigError, UsageError
from headway.evals.programs.program_requests import program_version

SAYS = """
def call_api(prompt, options, context):
    return {
        "output": [prompt, options["config"], context["vars"]],
        "tokenUsage": {"total": 12, "prompt": 10, "completion": 2, "cached": 4},
        "cost": 0.5,
        "metadata": {"a": 1},
    }

async def other(prompt, options, context):
    return {"output": "other " + prompt}
"""


def function(folder: Path, body: str) -> str:
    (folder / "p.py").write_text(f"def call_api(prompt, options, context):\n    {body}\n", encoding="utf-8")
    return "python:p.py"


async def test_a_function_gets_prompt_options_and_context_and_reports_its_usage(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(SAYS)
    async with opened("python:p.py", tmp_path, {"temperature": 0.5}) as provider:
        answer = await provider.ask("Grüße", vars={"a": 1})
    assert value(answer) == ["Grüße", {"basePath": str(tmp_path), "temperature": 0.5}, {"a": 1}]
    assert answer.outcome.usage == Usage(10.0, 2.0, 4.0, 0.5)
    assert json.loads(answer.body)["metadata"] == {"a": 1}


@pytest.mark.parametrize("provider_id", ["python:p.py:other", "file://p.py:other", "file://./p.py:other"])
async def test_another_function_may_be_named(tmp_path: Path, provider_id: str) -> None:
    (tmp_path / "p.py").write_text(SAYS)
    async with opened(provider_id, tmp_path) as provider:
        assert value(await provider.ask("one")) == "other one"


async def test_a_key_reaches_the_function_and_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SERVICE", SECRET)
    config = {"apiKey": "{{env.MY_SERVICE}}"}
    async with opened(function(tmp_path, 'return {"output": options["config"]["apiKey"][:8] + options["config"]["apiKey"][8:]}'), tmp_path, config) as provider:  # fmt: skip
        assert value(await provider.ask("x")) == "***"
    assert SECRET not in repr(provider.provider)


async def test_an_error_that_a_function_reports_is_a_failure(tmp_path: Path) -> None:
    async with opened(function(tmp_path, 'return {"error": "no such model"}'), tmp_path) as provider:
        assert error(await provider.ask("x")) == "no such model"


async def test_a_rate_limit_that_a_function_reports_is_no_result(tmp_path: Path) -> None:
    text = "Error 429: rate limit exceeded, retry after 20 seconds"
    async with opened(function(tmp_path, f'return {{"error": "{text}"}}'), tmp_path) as provider:
        answer = await provider.ask("x")
    assert answer.outcome.kind is Kind.RATE
    assert answer.outcome.hint is not None
    assert answer.outcome.hint.retry_after_s == 20.0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('return "text"', 'it returned a text; expected an object with "output" or "error"'),
        ("return None", "it returned nothing"),
        ('return {"outputs": 1}', "an object with 'outputs'"),
        ("raise ValueError(prompt)", "p.py, line 2: ValueError: boom"),
    ],
)
async def test_an_unusable_answer_is_named(tmp_path: Path, body: str, said: str) -> None:
    async with opened(function(tmp_path, body), tmp_path) as provider:
        assert said in error(await provider.ask("boom"))


async def test_a_timeout_of_the_file_ends_a_call(tmp_path: Path) -> None:
    source = 'import time; time.sleep(0 if prompt == "quick" else 1000); return {"output": 1}'
    async with opened(function(tmp_path, source), tmp_path, {"timeout": 1500, "workers": 1}) as provider:
        assert value(await provider.ask("quick")) == 1
        assert "1.5 s" in error(await provider.ask("slow"), Kind.TIMEOUT)
        assert value(await provider.ask("quick")) == 1


async def test_impossible_usage_is_not_believed(tmp_path: Path) -> None:
    body = 'return {"output": 1, "tokenUsage": {"prompt": -5, "completion": float("inf")}, "cost": "free"}'
    async with opened(function(tmp_path, body), tmp_path) as provider:
        answer = await provider.ask("x")
    assert answer.outcome.usage in (None, Usage())


@needs_node
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.cjs", "module.exports = async (prompt, context, options) => ({ output: prompt + context.vars.a + options.config.b })"),
        ("p.mjs", "export default class { constructor(o) { this.o = o } id() { return 'p' } async callApi(prompt, context) { return { output: prompt + context.vars.a + this.o.config.b } } }"),
    ],
)  # fmt: skip
async def test_a_javascript_provider_is_a_function_or_a_class(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    async with opened(f"file://{name}", tmp_path, {"b": 2}) as provider:
        assert value(await provider.ask("p", vars={"a": 1})) == "p12"


def test_a_changed_file_or_setting_is_another_version(tmp_path: Path) -> None:
    provider_id = function(tmp_path, "return 1")
    versions = {program_version(provider_of(provider_id, tmp_path, config)) for config in ({}, {"a": 1})}
    function(tmp_path, "return 100")
    versions.add(program_version(provider_of(provider_id, tmp_path)))
    assert len(versions) == 3
    assert program_version(provider_of(provider_id, tmp_path)) in versions


@pytest.mark.parametrize(
    ("provider_id", "config", "said"),
    [
        ("python:nope.py", {}, "there is no file"),
        ("file://nope.txt", {}, "is Python (.py) or JavaScript (.js)"),
        ("python:p.py", {"pythonExecutable": "python3.9"}, "config.pythonExecutable is not supported"),
        ("python:p.py", {"workers": "many"}, "config.workers must be a number"),
        ("python:p.py", {"timeout": -1}, "config.timeout must be a number of milliseconds"),
    ],
)
def test_what_cannot_be_honoured_is_an_error(
    tmp_path: Path, provider_id: str, config: dict[str, Any], said: str
) -> None:
    (tmp_path / "p.py").write_text(SAYS)
    with pytest.raises(UsageError) as raised:
        provider_of(provider_id, tmp_path, config)
    assert said in raised.value.message


async def test_without_node_a_javascript_provider_is_not_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.js").write_text("module.exports = () => ({ output: 1 })")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="there is no program 'node'"):
        async with opened("file://p.js", tmp_path):
            pytest.fail("it was built")
