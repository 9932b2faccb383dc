"""The real Codex against the fake provider."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Final

import pytest
from tests.agents_real.conftest import Beds
from tests.agents_real.room import Bed
from tests.agents_real.test_claude import HANGS_ONCE, instant
from tests.crash.sampling import some
from tests.crash.stage import wait_for

EDIT: Final = "please edit the file"
#: The name of its shell differs between versions and models: the first that it offers is called.
SHELLS: Final = [
    {"contains": EDIT, "name": "exec_command", "arguments": {"cmd": "echo edited > note.txt"}},
    {"contains": EDIT, "name": "shell_command", "arguments": {"command": "echo edited > note.txt"}},
]


def test_it_edits_a_file_and_everything_is_recorded(bed: Beds) -> None:
    one = bed(tools=SHELLS)
    one.codex()
    assert one.run(EDIT) == 0, one.err
    assert (one.work / "note.txt").read_text() == "edited\n"
    unit = one.answer()["headway"]
    assert unit["text"].startswith("echo: ")
    assert unit["usage"]["input_tokens"] > 0
    details = one.show()["notes"]["1"]
    assert [call["name"] for message in details["messages"] for call in message.get("tool_calls", ())] == [
        "shell"
    ]
    assert details["session_id"]
    assert one.fake.stats()["received"] == 2


@pytest.mark.parametrize("provider", ["fake", "openai"])
def test_a_429_is_asked_once_and_then_waited_for(bed: Beds, provider: str) -> None:
    one = bed(faults=[{"kind": "429", "at": 0}])
    one.codex()
    if provider == "openai":  # The built-in one, with a key.
        config = f'model = "gpt-5-codex"\nopenai_base_url = "{one.fake.url}/v1"\n'
        (one.home / ".codex" / "config.toml").write_text(config)
        login = '{"OPENAI_API_KEY": "sk-0123456789abcdef", "auth_mode": "apikey"}'
        (one.home / ".codex" / "auth.json").write_text(login)
    assert one.run("hello") == 0, one.err
    first, second = one.attempts()
    assert (first["kind"], second["outcome"]) == ("hold", "succeeded")
    assert one.fake.stats()["received"] == 2


def test_a_persistent_429_asks_once_for_each_attempt(bed: Beds) -> None:
    one = bed(faults=[{"kind": "429"}])
    one.codex()
    toml = one.root / "headway.toml"
    toml.write_text(toml.read_text() + "max_throttles = 1\n")
    assert one.run("hello") == 1, one.err
    attempts = one.attempts()
    assert len(attempts) == one.fake.stats()["received"] == 2
    assert {(attempt["outcome"], attempt["kind"]) for attempt in attempts} == {("throttled", "hold")}
    first, second = attempts
    assert instant(second["started_utc"]) - instant(first["finished_utc"]) >= 2.0, (
        "default_wait and hold_margin"
    )


@pytest.mark.parametrize(
    ("fault", "kind"),
    some([("quota", "quota"), ("401", "auth"), ("subscription", "hold"), ("529", "overload")]),
)
def test_refusals_have_their_kinds(bed: Beds, fault: str, kind: str) -> None:
    one = bed(faults=[{"kind": fault}])
    one.codex()
    flags: tuple[str, ...] = ("--max-attempts", "1", "--max-hold", "1m")
    assert one.run("hello", flags=flags) == (4 if fault == "subscription" else 1), one.err
    attempts = one.attempts()
    assert [attempt["kind"] for attempt in attempts] == [kind], attempts
    assert one.fake.stats()["received"] == 1
    if fault == "subscription":  # Five hours, to the minute: that is all that Codex prints.
        assert attempts[0]["rate_limit"]["retry_after_s"] == pytest.approx(5 * 3600, abs=120)
        lane: dict[str, Any] = one.json("lanes")[0]
        assert [window["name"] for window in lane["learned"]["windows"]] == ["usage"]


def test_a_hang_ends_at_the_deadline_and_the_session_is_resumed(bed: Beds) -> None:
    one = bed(tools=SHELLS, faults=[HANGS_ONCE])
    one.codex()
    started = one.start(EDIT, flags=("--timeout", "8s"))
    wait_for("the second turn", lambda: one.fake.hangs(2), 60.0)
    hanging = {pid for pid in one.processes() if b"--json" in command_line(pid)}
    assert hanging, "codex is running"
    assert one.finish(started) == 0, one.err
    first, second = one.attempts()
    assert (first["outcome"], first["kind"], second["outcome"]) == ("timed_out", "timeout", "succeeded")
    assert not hanging & set(one.processes())
    is_one_conversation(one)
    notes = one.show()["notes"]
    assert notes["1"]["session_id"] == notes["2"]["session_id"]
    stats = one.fake.stats()
    assert (stats["received"], stats["faulted"]) == (4, {"hang": 1}), (
        "one request for each turn, and no retry"
    )


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def is_one_conversation(one: Bed) -> None:
    sessions = list((one.home / ".codex" / "sessions").rglob("*.jsonl"))
    assert len(sessions) == 1, "one session, not two halves"
    said = sessions[0].read_text()
    assert EDIT in said
    assert "You were interrupted" in said


@pytest.mark.parametrize("victim", ["cli", "engine"])
def test_a_kill_in_mid_turn_resumes_the_session(bed: Beds, victim: str) -> None:
    one = bed(tools=SHELLS, faults=[HANGS_ONCE])
    one.codex()
    started = one.start(EDIT)
    wait_for("the second turn", lambda: one.fake.hangs(2), 60.0)
    wait_for("the record of the first turn", one.has_record_of_tool_call)
    if victim == "cli":
        for pid in one.processes():
            if b"codex" in command_line(pid) and pid != started.pid:
                os.kill(pid, signal.SIGKILL)
        assert one.finish(started) == 0, one.err
    else:
        os.kill(started.pid, signal.SIGKILL)
        one.finish(started)
        wait_for("no orphan", lambda: not one.processes())
        assert one.finish(one.spawn("resume", "--progress", "none")) == 0, one.err
    is_one_conversation(one)
