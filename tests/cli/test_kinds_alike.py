"""What `kind = "python"`, `kind = "command"` and agent CLIs have in common: preflight, failure logs, exit codes, sources of limits.

Each kind runs the same shell script: the Python worker starts it and exits as it does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_run_python import Workspace, _headway

KINDS = ("python", "command", "claude")
Make = Callable[..., Workspace]

DONE = (
    '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"through","session_id":"S"}'
)
#: Fails as `act` says at its first run; `log` has a line for each run.
SCRIPT = """#!/bin/sh
cat > /dev/null
echo run >> log
if [ ! -e met ]; then
    touch met
    {act}
fi
{success}
"""
WORK = """
import os, subprocess

def work(payload):
    code = subprocess.call(["./agent"], stdin=subprocess.DEVNULL)
    if code:
        os._exit(code)
    return "through"
"""


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes a workspace of one kind with a script that fails once."""
    kind = request.param
    workspace = Workspace(tmp_path)

    def configured(act: str, more: str = "", units: int = 1, workers: int = 3) -> Workspace:
        success = f"echo '{DONE}'" if kind == "claude" else "echo through" if kind == "command" else ":"
        (tmp_path / "agent").write_text(SCRIPT.replace("{act}", act).replace("{success}", success))
        (tmp_path / "agent").chmod(0o755)
        workspace.write(WORK)
        program = 'target = "deeds:work"' if kind == "python" else f'command = ["{tmp_path}/agent"]'
        codes = "limit_exit_codes = [77]" if kind == "python" else 'exit_codes = {77 = "hold"}'
        (tmp_path / "headway.toml").write_text(
            f'[providers.work]\nkind = "{kind}"\n{program}\n{codes}\nworkers = {workers}\n{more}\n'
            '[providers.work.retry]\ndefault_wait = "1s"\nhold_margin = "0s"\nbase = "10ms"\n'
        )
        workspace.rows(*({"id": f"u{n}", "prompt": "x"} for n in range(units)))
        return workspace

    return configured


def attempts_of(workspace: Workspace, unit: str = "u0") -> list[dict[str, Any]]:
    job = json.loads(_headway(workspace, "jobs", "--json"))[0]["job"]
    attempts: list[dict[str, Any]] = json.loads(_headway(workspace, "show", job, unit, "--json"))["attempts"]
    return attempts


EVENT = '{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"API Error: Request rejected (429)"}'
LOG = '{"exit_code": 1, "stdout": "", "stderr": "Claude usage limit reached"}'
SOURCES = {
    "exit code": "exit 77",
    "stdout": f"echo '{EVENT}'; exit 1",
    "stderr": "echo 'Error: 429 Too Many Requests' >&2; exit 1",
    "logs/1.json": f"mkdir -p logs; echo '{LOG}' > logs/1.json; exit 1",
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_limit_is_found_in_the_same_places(make: Make, source: str) -> None:
    workspace = make(SOURCES[source], 'failure_logs = "logs/*.json"')
    code, err = workspace.run()
    assert code == 0, err
    assert workspace.log() == ["run", "run"]
    first, second = attempts_of(workspace)
    assert (first["outcome"], second["outcome"]) == ("throttled", "succeeded")
    assert first["rate_limit"]["source"] == source


def test_the_first_unit_runs_ahead_and_meets_the_limit_alone(make: Make) -> None:
    workspace = make(f"{SOURCES['stderr']}", 'preflight = "canary"', units=6)
    code, err = workspace.run()
    assert code == 0, err
    assert workspace.log() == ["run"] * 7, "one refusal, then six units"


def test_without_a_preflight_all_start_at_once(make: Make, tmp_path: Path) -> None:
    """The same script without a preflight: the first unit waits until all three have started, and is refused."""
    act = f"rm met; until [ $(wc -l < log) -ge 3 ]; do sleep 0.02; done; touch met; {SOURCES['exit code']}"
    workspace = make(act, 'preflight = "none"', units=3)
    code, err = workspace.run("--shared-directory")  # Agents would not start side by side otherwise.
    assert code == 0, err
    assert len(workspace.log()) >= 4


@pytest.mark.parametrize("refuses", [True, False])
def test_a_preflight_command_runs_before_any_unit(make: Make, tmp_path: Path, refuses: bool) -> None:
    ping = tmp_path / "ping"
    refusal = "echo 'Error: 429 Too Many Requests' >&2; exit 1" if refuses else "exit 0"
    ping.write_text(f"#!/bin/sh\necho ping >> log\n[ -e open ] && exit 0\ntouch open\n{refusal}\n")
    ping.chmod(0o755)
    workspace = make(":", f'preflight = "command"\npreflight_command = ["{ping}"]', units=3)
    code, err = workspace.run()
    assert code == 0, err
    assert workspace.log() == ["ping"] * (2 if refuses else 1) + ["run"] * 3


def test_a_missing_preflight_command_is_an_error_before_anything_runs(make: Make) -> None:
    workspace = make(":", 'preflight = "command"\npreflight_command = ["no-such-program"]')
    code, err = workspace.run()
    assert code == 2
    assert "preflight_command: there is no program 'no-such-program'" in err
    assert workspace.log() == []


@pytest.mark.parametrize(("act", "kind"), [("exit 3", "transient"), ("kill -9 $$", "crash")])
def test_failures_that_are_no_limit_are_tried_again(make: Make, act: str, kind: str) -> None:
    workspace = make(act)
    code, err = workspace.run()
    assert code == 0, err
    first, second = attempts_of(workspace)
    assert (first["outcome"], second["outcome"]) == ("failed", "succeeded")
    # A Python worker that exits has died.
    assert first["kind"] in (kind, "crash")
