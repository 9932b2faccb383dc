"""Where a limit is found in what a worker left behind, and where none is."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from pathlib import Path

import pytest

from headway.core.model import Hint, Kind, Outcome
from headway.executors.evidence import log_files
from headway.executors.evidence.log_files import LogMarker, open_regular
from headway.executors.limit_evidence import LimitDetector, LimitEvidence
from headway.executors.work_result import Death, WorkResult

CRASH = Outcome(Kind.CRASH, message="its worker died")
SAID = "You've hit your limit · resets 4pm (America/Los_Angeles)"


def result(stdout: str = "", stderr: str = "", code: int = -9, outcome: Outcome = CRASH) -> WorkResult:
    return WorkResult(
        "crash", outcome=outcome, death=Death(code), stdout=stdout.encode(), stderr=stderr.encode(), began_utc=time.time()
    )  # fmt: skip


def test_a_crash_without_output_is_a_crash() -> None:
    assert LimitDetector(exit_codes=(75,)).read(result()).outcome == CRASH


def test_a_success_is_never_searched_for_a_limit() -> None:
    fine = WorkResult("value", b"1", stderr=SAID.encode())
    assert LimitDetector().read(fine) is fine


def test_the_reset_time_is_read_from_standard_error() -> None:
    found = LimitDetector().read(result(stderr=f"starting\n{SAID}\n"))
    assert found.outcome.kind is Kind.HOLD
    assert found.outcome.hint is not None
    assert found.outcome.hint.retry_after_s is not None
    assert 0 < found.outcome.hint.retry_after_s <= 90_000  # Once a year a day has 25 hours there.
    assert found.rate_limit is not None
    assert (found.rate_limit.source, found.end) == ("stderr", "crash")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("quota exceeded", Kind.HOLD),
        ("RuntimeError: API quota exhausted for today", Kind.HOLD),
        ("Quota exceeded for quota metric 'requests' and limit 'requests per minute'", Kind.HOLD),
        ("weekly usage limit: upgrade to continue", Kind.HOLD),
        ("ERROR agent: hit your limit", Kind.HOLD),
        ("Error: rate limit", Kind.HOLD),
        ("the request was rate-limited", Kind.HOLD),
        ("your limit resets 4pm (America/Los_Angeles)", Kind.RATE),
        ("quota exceeded, retry in 7s", Kind.RATE),
        ("You exceeded your current quota, please check your plan and billing details", Kind.QUOTA),
        ("overloaded", Kind.OVERLOAD),
        ("anthropic: the model is overloaded.", Kind.OVERLOAD),
        ("HTTP 429", Kind.HOLD),
        # The line says what limit it is, if it is one.
        ("OSError: [Errno 122] Disk quota exceeded: 'out.bin'", Kind.CRASH),
        ("storage quota exceeded", Kind.CRASH),
        ("RecursionError: maximum recursion depth exceeded", Kind.CRASH),
        ("time limit exceeded", Kind.CRASH),
        ("the rate limiter is ready", Kind.CRASH),
        ('File "agent.py", line 429, in run', Kind.CRASH),
        ("quota: 15 of 100 used", Kind.CRASH),
        ("compiling overloaded methods", Kind.CRASH),
    ],
)
def test_plain_text_on_standard_error_is_read(text: str, kind: Kind) -> None:
    found = LimitDetector().read(result(stderr=f"Traceback (most recent call last):\n  File\n{text}\n"))
    assert found.outcome.kind is kind
    assert (found.rate_limit is not None) == (kind is not Kind.CRASH)


@pytest.mark.parametrize(
    "stdout", ["quota exceeded", SAID, f"The model says: {SAID}", json.dumps({"type": "assistant", "text": SAID}), json.dumps({"type": "result", "is_error": False, "result": SAID})]
)  # fmt: skip
def test_a_models_answer_is_not_a_limit(stdout: str) -> None:
    assert LimitDetector().read(result(stdout=stdout)).outcome == CRASH


def test_structured_output_comes_before_standard_error() -> None:
    event = {"type": "result", "is_error": True, "result": SAID}
    found = LimitDetector().read(result(stdout=json.dumps(event), stderr="Rate limit exceeded"))
    assert found.rate_limit is not None
    assert found.rate_limit.source == "stdout"


def test_an_exit_code_comes_first_and_holds_for_the_default_wait() -> None:
    found = LimitDetector(exit_codes=(2,)).read(result(stderr=SAID, code=2))
    assert found.rate_limit is not None
    assert (found.rate_limit.source, found.outcome.kind, found.outcome.hint) == (
        "exit code",
        Kind.HOLD,
        Hint(),
    )


def test_a_limit_without_an_end_is_a_hold() -> None:
    found = LimitDetector().read(result(outcome=Outcome(Kind.RATE, message="slower")))
    assert found.outcome.kind is Kind.HOLD
    soon = Outcome(Kind.RATE, hint=Hint(retry_after_s=5.0))
    assert LimitDetector().read(result(outcome=soon)).outcome == soon


def _log(folder: Path, name: str, text: str, age_s: float = 0.0) -> None:
    path = folder / ".failed" / name / "agent" / "result.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    changed = time.time() - age_s
    os.utime(path, (changed, changed))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"exit_code": -1, "stdout": "", "stderr": SAID}),
        json.dumps(
            {"stdout": json.dumps({"type": "result", "is_error": True, "result": SAID}), "stderr": ""}
        ),
        json.dumps({"type": "result", "is_error": True, "result": SAID}),
        f"{json.dumps({'type': 'system'})}\n{json.dumps({'type': 'result', 'is_error': True, 'result': SAID})}\n",
        f"2026-01-10 agent failed\n{SAID}\n",
    ],
    ids=["the seed's", "events in it", "a document", "events", "plain"],
)
def test_logs_are_read_in_every_form(tmp_path: Path, text: str) -> None:
    began = result()  # First: a log that is older than its unit does not count.
    _log(tmp_path, "7", text)
    found = LimitDetector(logs=".failed/*/agent/result.json", root=str(tmp_path)).read(began)
    assert found.outcome.kind is Kind.HOLD
    assert found.rate_limit is not None
    assert found.rate_limit.source == ".failed/7/agent/result.json"


def test_old_logs_and_answers_in_logs_do_not_count(tmp_path: Path) -> None:
    _log(tmp_path, "1", json.dumps({"stdout": "", "stderr": SAID}), age_s=60.0)
    _log(tmp_path, "2", json.dumps({"stdout": SAID, "stderr": ""}))
    _log(tmp_path, "3", "{ broken " + SAID)
    assert (
        LimitDetector(logs=".failed/*/agent/result.json", root=str(tmp_path)).read(result()).outcome == CRASH
    )


def _make(path: Path, kind: str) -> socket.socket | None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        server = socket.socket(socket.AF_UNIX)
        server.bind(os.path.relpath(path))  # The address of a socket is at most 108 bytes long.
        return server
    return None


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["pipe", "device", "socket"])
def test_only_regular_files_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Opening a pipe waits for a writer, and a device may have no end."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "special.log"
    server = _make(path, kind)
    try:
        with pytest.raises(OSError, match=r"special\.log"):
            open_regular(path)
        evidence = LimitEvidence(files=(str(path),), began_utc=1.0)
        assert LimitDetector(logs="*.log", root=str(tmp_path)).judge(CRASH, evidence) == (CRASH, None)
    finally:
        if server is not None:
            server.close()


def test_a_link_to_a_log_is_followed(tmp_path: Path) -> None:
    (tmp_path / "today.txt").write_text(SAID)
    (tmp_path / "latest.log").symlink_to(tmp_path / "today.txt")
    found = LimitDetector(logs="*.log", root=str(tmp_path)).read(result())
    assert found.outcome.kind is Kind.HOLD


# -- logs that are appended to --------------------------------------------------------------------------------------


class AgentLog:
    """A log that had an old refusal when the attempt began."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "agent.log"
        self.path.write_text(OLD)
        self.detector = LimitDetector(logs="agent.log*", root=str(folder))
        self.marks = asyncio.run(self.detector.begin())
        self.began = result()

    def append(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def kind(self) -> Kind | None:
        return self.detector.read(self.began, self.marks).outcome.kind


OLD = "".join(f"{n}: started\n" for n in range(200)) + SAID + "\n"


@pytest.fixture
def log(tmp_path: Path) -> AgentLog:
    return AgentLog(tmp_path)


def test_a_log_that_was_not_written_since_does_not_count(log: AgentLog) -> None:
    assert log.kind() is Kind.CRASH


def test_only_what_was_appended_since_counts(log: AgentLog) -> None:
    log.append("exit 1: no such row\n")
    assert log.kind() is Kind.CRASH
    log.append(f"{SAID}\n")
    assert log.kind() is Kind.HOLD


def test_appended_events_count(log: AgentLog) -> None:
    log.append(json.dumps({"type": "result", "is_error": True, "result": SAID}) + "\n")
    assert log.kind() is Kind.HOLD


@pytest.mark.parametrize(
    "text", [f"{SAID}\n", f"{SAID}\n" + "x" * len(OLD), "x" * (len(OLD) - len(SAID) - 1) + f"\n{SAID}", OLD]
)
def test_a_rewritten_log_counts_as_a_whole(log: AgentLog, text: str) -> None:
    """Rewritten shorter, longer, equally long, and with the same content."""
    later = time.time() + 1.0
    log.path.write_text(text)
    os.utime(log.path, (later, later))
    assert log.kind() is Kind.HOLD


def test_a_rotated_log_counts_from_its_mark(log: AgentLog) -> None:
    log.append("exit 1: no such row\n")
    log.path.rename(log.path.with_name("agent.log.1"))
    log.path.write_text("exit 1: no such row\n")
    assert log.kind() is Kind.CRASH
    log.append(f"{SAID}\n")
    assert log.kind() is Kind.HOLD


def test_the_last_lines_before_a_rotation_count(log: AgentLog) -> None:
    log.append(f"{SAID}\n")
    log.path.rename(log.path.with_name("agent.log.1"))
    log.path.write_text("exit 1: no such row\n")
    assert log.kind() is Kind.HOLD


def test_a_truncated_and_refilled_log_counts(log: AgentLog) -> None:
    os.truncate(log.path, 0)
    log.append(f"{SAID}\n")
    assert log.kind() is Kind.HOLD


def test_a_new_log_counts(log: AgentLog) -> None:
    log.path.with_name("agent.log.new").write_text(f"{SAID}\n")
    assert log.kind() is Kind.HOLD


def test_a_pipe_among_the_logs_is_not_opened(log: AgentLog) -> None:
    os.mkfifo(log.path.with_name("agent.log.pipe"))
    log.marks = asyncio.run(log.detector.begin())
    assert log.kind() is Kind.CRASH


async def test_a_slow_scan_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow scan is repeated after a pause, a fast one for every attempt."""
    looks: list[str] = []

    def look(root: str, _: str) -> log_files.Marks:
        looks.append(root)
        return log_files.NO_MARKS

    spent = iter([0.0, 0.001, 0.0, 1.0])
    monkeypatch.setattr(time, "thread_time", lambda: next(spent))
    monkeypatch.setattr(log_files, "_marks_below", look)
    detector = LimitDetector(logs="*.log", root=str(tmp_path))
    for _ in range(5):
        await detector.begin()
    assert len(looks) == 2


@pytest.mark.timeout(20)
def test_a_log_that_becomes_a_pipe_during_the_scan_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "a.log")
    monkeypatch.setattr(Path, "is_file", lambda _: True)  # As a moment ago.
    assert LogMarker().marks(str(tmp_path), "*.log") == {}
