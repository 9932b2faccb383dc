"""The real Claude Code against the fake provider: what it does, what it is refused, and what is recorded of it."""

from __future__ import annotations

import json
import os
import signal
import time
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest
from tests.agents_real.conftest import Beds
from tests.agents_real.room import Bed
from tests.crash.stage import wait_for

EDIT: Final = "please edit the file"
#: The second request, once: the turn after the edit.
HANGS_ONCE: Final = {"kind": "hang", "every": 2, "at": 0}


def writes(folder: Path) -> dict[str, Any]:
    path = str(folder / "work" / "note.txt")
    return {"contains": EDIT, "name": "Write", "arguments": {"file_path": path, "content": "edited\n"}}


def instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def session_of(bed: Bed) -> str:
    return str(bed.answer()["response"]["body"]["session_id"])


def conversation(bed: Bed) -> list[dict[str, Any]]:
    """Claude's own record of the session: one file for each session of a directory."""
    files = list((bed.home / ".claude" / "projects").glob("*/*.jsonl"))
    assert [file.stem for file in files] == [session_of(bed)], "one session, not two halves"
    return [json.loads(line) for line in files[0].read_text().splitlines()]


def test_it_edits_a_file_and_everything_is_recorded(bed: Beds, tmp_path: Path) -> None:
    one = bed(tools=[writes(tmp_path)])
    one.claude()
    assert one.run(EDIT) == 0, one.err
    assert (one.work / "note.txt").read_text() == "edited\n"
    unit = one.answer()["headway"]
    assert unit["text"].startswith("echo: File created")
    assert unit["usage"]["input_tokens"] > 0
    assert unit["cost_usd"] > 0.0
    details = one.show()["notes"]["1"]
    calls = [call["name"] for message in details["messages"] for call in message.get("tool_calls", ())]
    assert calls == ["Write"]
    assert session_of(one) == details["session_id"]
    assert one.fake.stats()["received"] == 2, "one request for each turn, and no retry"


def test_a_429_is_waited_for_and_the_session_goes_on(bed: Beds) -> None:
    one = bed(faults=[{"kind": "429", "at": 0}])
    one.claude()
    assert one.run("hello") == 0, one.err
    first, second = one.attempts()
    assert (first["outcome"], first["kind"], second["outcome"]) == ("throttled", "hold", "succeeded")
    waited_s = instant(second["started_utc"]) - instant(first["finished_utc"])
    assert waited_s >= 1.95, "default_wait and hold_margin; times on record are of two clocks"
    assert one.fake.stats()["received"] == 2
    assert any("hello" in json.dumps(event) for event in conversation(one))


def test_a_persistent_429_asks_once_for_each_attempt(bed: Beds) -> None:
    one = bed(faults=[{"kind": "429"}])
    one.claude()
    toml = one.root / "headway.toml"
    toml.write_text(toml.read_text() + "max_throttles = 2\n")
    assert one.run("hello") == 1, one.err
    attempts = one.attempts()
    assert len(attempts) == one.fake.stats()["received"] >= 2
    assert {attempt["kind"] for attempt in attempts} == {"hold"}


def test_a_used_up_window_closes_the_account_until_its_reset(bed: Beds) -> None:
    one = bed(faults=[{"kind": "subscription", "at": 0, "resets": 6}])
    one.claude(subscription=True)
    assert one.run("hello", "hello again") == 0, one.err
    refused = [attempt for unit in ("u0", "u1") for attempt in one.attempts(unit) if attempt["kind"]]
    assert {attempt["kind"] for attempt in refused} == {"hold"}
    ends = [
        attempt["rate_limit"]["detected_utc"] + attempt["rate_limit"]["retry_after_s"] for attempt in refused
    ]
    starts = [instant(one.attempts(unit)[-1]["started_utc"]) for unit in ("u0", "u1")]
    assert min(starts) >= max(ends) + 1.0 - 0.1, "the reset and hold_margin"
    stats = one.fake.stats()
    assert stats["received"] == len(refused) + 2
    lanes = one.json("lanes")
    window = next(window for window in lanes[0]["learned"]["windows"] if window["name"] == "five_hour")
    assert window["used"] == 1.0


def test_a_process_that_starts_later_keeps_to_the_recorded_hold(bed: Beds) -> None:
    one = bed(faults=[{"kind": "subscription", "at": 0, "resets": 3600}])
    one.claude(subscription=True)
    assert one.run("hello", flags=("--max-hold", "1m")) == 4, one.err
    assert one.fake.stats()["received"] == 1
    text = (one.root / "headway.toml").read_text()
    other = text.replace("providers.agent", "providers.other").replace(
        "directory", 'model = "sonnet"\ndirectory'
    )
    (one.root / "headway.toml").write_text(text + other + '[run]\nprovider = "other"\n')
    assert one.run("another job", flags=("--max-hold", "1m")) == 4, one.err
    assert one.fake.stats()["received"] == 1, (
        "the same login is the same account, whatever the provider's name and model"
    )
    held = {lane["lane"]: lane["learned"]["held_until_utc"] for lane in one.json("lanes")}
    assert set(held) == {"agent/default", "other/sonnet"}
    assert None not in held.values()


def test_the_use_of_windows_is_shown(bed: Beds) -> None:
    one = bed(accounts={"default": {"windows": {"five_hour": 0.91, "seven_day": 0.3}}})
    one.claude(subscription=True)
    assert one.run("hello") == 0, one.err
    windows = {window["name"]: window for window in one.json("lanes")[0]["seen"]["windows"]}
    assert windows["five_hour"]["used"] == pytest.approx(0.91)
    assert windows["five_hour"]["status"] == "allowed_warning"
    assert instant(windows["seven_day"]["resets_utc"]) > time.time() + 86_400
    one.finish(one.spawn("lanes"))
    assert "window of five hours: 91% used, resets" in one.out


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [("quota", "quota", "Credit balance is too low"), ("401", "auth", "API key"), ("529", "overload", "529")],
)
def test_refusals_have_their_kinds(bed: Beds, fault: str, kind: str, words: str) -> None:
    one = bed(faults=[{"kind": fault}])
    one.claude()
    flags = ("--max-attempts", "2") if fault == "529" else ()
    assert one.run("hello", flags=flags) == 1, one.err
    attempts = one.attempts()
    assert {attempt["kind"] for attempt in attempts} == {kind}, attempts
    assert words in attempts[0]["message"]
    assert one.fake.stats()["received"] == len(attempts) == (2 if fault == "529" else 1)


def test_a_hang_ends_at_the_deadline_and_the_session_is_resumed(bed: Beds, tmp_path: Path) -> None:
    one = bed(tools=[writes(tmp_path)], faults=[HANGS_ONCE])
    one.claude()
    assert one.run(EDIT, flags=("--timeout", "6s")) == 0, one.err
    first, second = one.attempts()
    assert (first["outcome"], first["kind"], second["outcome"]) == ("timed_out", "timeout", "succeeded")
    said = json.dumps(conversation(one))
    assert said.count(EDIT) >= 1
    assert "You were interrupted" in said


def has_own_record_of_tool_call(bed: Bed) -> bool:
    """Whether Claude has written the tool call to its session, some time after it printed it: only then can the session be resumed."""
    files = (bed.home / ".claude" / "projects").glob("*/*.jsonl")
    return any('"tool_use"' in file.read_text() for file in files)


def cli_of(bed: Bed) -> int:
    """The process of the CLI, once its turn hangs at the provider."""
    wait_for("the second turn", lambda: bed.fake.hangs(2), 60.0)
    wait_for("the record of the first turn", bed.has_record_of_tool_call)
    wait_for("Claude's own record of it", lambda: has_own_record_of_tool_call(bed))
    for pid in bed.processes():
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"stream-json" in line and b"claude" in line.split(b"\0")[0]:
            return pid
    raise AssertionError("claude is not running")


@pytest.mark.parametrize("victim", ["cli", "engine"])
def test_a_kill_in_mid_turn_loses_nothing(bed: Beds, tmp_path: Path, victim: str) -> None:
    one = bed(tools=[writes(tmp_path)], faults=[HANGS_ONCE])
    one.claude()
    started = one.start(EDIT)
    pid = cli_of(one)
    os.kill(pid if victim == "cli" else started.pid, signal.SIGKILL)
    if victim == "cli":
        assert one.finish(started) == 0, one.err
        assert one.attempts()[0]["kind"] == "crash"
    else:
        one.finish(started)
        wait_for("no orphan", lambda: not one.processes())
        assert one.finish(one.spawn("resume", "--progress", "none")) == 0, one.err
    assert (one.work / "note.txt").read_text() == "edited\n"
    assert one.answer()["headway"]["cost_usd"] > 0.0
    assert "You were interrupted" in json.dumps(conversation(one))
