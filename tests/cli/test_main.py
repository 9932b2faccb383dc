"""The `headway` command as a user types it: help, version, and how errors look."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import click
import pytest

import headway
from headway.cli import COMMANDS, main
from headway.errors import ConfigError, HeadwayError


@pytest.fixture(autouse=True)
def _no_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWAY_DEBUG", raising=False)


def add_command(
    monkeypatch: pytest.MonkeyPatch, name: str, raises: BaseException | None, code: int = 0
) -> None:
    """A command that exists for one test: it raises, or returns an exit code."""

    @click.command(name)
    @click.option("--size", type=int)
    def command(size: int | None) -> int:
        if raises is not None:
            raise raises
        return code

    module = ModuleType(f"fake_{name}")
    module.command = command  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(COMMANDS, name, (f"{module.__name__}:command", f"Do {name}."))


def python(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_lists_every_command(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Usage: headway ")
    for name, (_, line) in COMMANDS.items():
        assert name in out
        assert line.split()[0] in out


def test_no_arguments_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("Usage: headway ")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"headway {headway.__version__}\n"


def test_module_runs_as_the_command() -> None:
    done = python("-m", "headway", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"headway {headway.__version__}\n", "")


def test_help_loads_no_command_and_none_of_their_packages() -> None:
    code = (
        "import sys; from headway.cli import COMMANDS, main; main(['--help']);"
        "modules = {where.partition(':')[0] for where, _ in COMMANDS.values()};"
        "print(sorted(({'rich', 'msgspec', 'yaml', 'asyncio'} | modules) & set(sys.modules)))"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_command_loads_when_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    add_command(monkeypatch, "fine", raises=None, code=3)
    assert main(["fine"]) == 3


def test_a_command_has_its_own_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_command(monkeypatch, "fine", raises=None)
    assert main(["fine", "--help"]) == 0
    assert "--size" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "hint"),
    [("simlate", "did you mean 'simulate'?"), ("xyzzy", "'headway --help' lists the commands")],
)
def test_unknown_command_names_the_nearest(typed: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([typed]) == 2
    assert capsys.readouterr().err == f"headway: there is no command '{typed}' — {hint}\n"


def test_misused_option_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_command(monkeypatch, "fine", raises=None)
    assert main(["fine", "--size", "big"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("headway: Invalid value for '--size'")
    assert err.endswith("— see 'headway fine --help'\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (HeadwayError("the disk is full"), "the disk is full", 1),
        (
            ConfigError("unknown key 'rmp'", hint="did you mean 'rpm'?"),
            "unknown key 'rmp' — did you mean 'rpm'?",
            2,
        ),
        (HeadwayError("first\n  second"), "first second", 1),
    ],
)
def test_error_is_one_line_with_its_exit_code(
    error: HeadwayError,
    line: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    add_command(monkeypatch, "boom", raises=error)
    assert main(["boom"]) == code
    assert capsys.readouterr().err == f"headway: {line}\n"


@pytest.mark.parametrize("by_env", [False, True])
def test_verbose_adds_the_traceback(
    by_env: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_command(monkeypatch, "boom", raises=ConfigError("no such file"))
    if by_env:
        monkeypatch.setenv("HEADWAY_DEBUG", "1")
    assert main(["boom"] if by_env else ["-v", "boom"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("Traceback (most recent call last):")
    assert err.endswith("headway: no such file\n")


def test_interrupt_exits_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    add_command(monkeypatch, "slow", raises=KeyboardInterrupt())
    assert main(["slow"]) == 130
    assert capsys.readouterr().err.strip() == "headway: interrupted"


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    add_command(monkeypatch, "boom", raises=ZeroDivisionError("a bug"))
    with pytest.raises(ZeroDivisionError):
        main(["boom"])
