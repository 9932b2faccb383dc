"""`headway doctor` about programs and agent CLIs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.crash.stage import wait_for

from headway.cli.agents.program_checks import version_of

AGENT = '#!/bin/sh\ntest "$1" = --version && echo "2.1.0 (Claude Code)" || exit 1\n'
LOGINS = (
    "ANTHROPIC_API_KEY",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "CLAUDE_CONFIG_DIR",
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "agent").write_text(AGENT)
    (tmp_path / "agent").chmod(0o755)
    configure(tmp_path)
    return tmp_path


def configure(place: Path, more: str = "") -> None:
    text = f'[providers.fixer]\nkind = "claude"\ncommand = ["{place / "agent"}"]\n{more}'
    (place / "headway.toml").write_text(text)


def look(place: Path, *args: str, **variables: str) -> dict[str, tuple[str, str]]:
    environ = {name: value for name, value in os.environ.items() if name not in LOGINS} | variables
    done = subprocess.run(
        [sys.executable, "-m", "headway", "doctor", "--json", *args],
        cwd=place, env=environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert not any(value in done.stdout for value in variables.values()), "values are not shown"
    return {check["name"]: (check["state"], check["text"]) for check in json.loads(done.stdout)["checks"]}


def test_an_agent_has_a_path_a_version_and_its_own_login(place: Path) -> None:
    found = look(place)
    assert found["fixer program"] == ("ok", f"{place / 'agent'}, version 2.1.0 (Claude Code)")
    assert found["fixer login"] == ("ok", "its own login")
    assert found["fixer directory"] == ("ok", str(place))
    assert "fixer key" not in found
    assert look(place, "--offline")["fixer program"] == ("ok", str(place / "agent")), "nothing is started"


def test_variables_that_replace_the_login_are_named(place: Path) -> None:
    assert (
        look(place, CLAUDE_CODE_OAUTH_TOKEN="sk-secret-1")["fixer login"][1]
        == "CLAUDE_CODE_OAUTH_TOKEN is set"
    )
    both = look(place, ANTHROPIC_API_KEY="sk-secret-2", ANTHROPIC_BASE_URL="http://127.0.0.1:9")[
        "fixer login"
    ]
    assert both == ("ok", "ANTHROPIC_API_KEY is set; ANTHROPIC_BASE_URL is set")


def test_a_variable_that_the_agent_does_not_get_is_named(place: Path) -> None:
    configure(place, 'env = ["PATH", "HOME"]\n')
    text = look(place, ANTHROPIC_API_KEY="sk-secret-3")["fixer login"][1]
    assert text.startswith("its own login; it does not see ANTHROPIC_API_KEY")


def test_a_missing_directory_or_program_is_a_problem(place: Path) -> None:
    configure(place, 'directory = "nowhere"\n')
    assert look(place)["fixer directory"] == ("problem", f"{place / 'nowhere'} does not exist")
    (place / "agent").unlink()
    state, text = look(place)["fixer program"]
    assert state == "problem"
    assert "there is no program" in text


def test_a_program_that_does_not_tell_its_version_is_ended(tmp_path: Path) -> None:
    script = f"sleep 600 & echo $! > {tmp_path / 'pid'}; wait"
    assert version_of(("sh", "-c", script), os.environ, 1.0) == ""
    child = Path("/proc") / (tmp_path / "pid").read_text().strip() / "stat"
    wait_for("its end", lambda: not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z")
