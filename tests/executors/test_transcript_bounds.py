"""A program that prints without end fills neither the memory nor the disk, and the record says what was left out."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from pathlib import Path

import pytest
from tests.executors.test_transcripts import RESULT, agent, lines_of, say

from headway.executors.commands import output_lines, transcript
from headway.executors.commands.transcript import Transcript
from headway.providers.attempt_log import AgentProgress, EarlierSession
from headway.providers.scrubber import Scrubber


class Log:
    """The lines of an attempt."""

    def __init__(self) -> None:
        self.lines: list[tuple[bytes, list[dict[str, object]]]] = []

    def runs_in(self, pid: int) -> None:
        """Not looked at."""

    async def earlier_session(self) -> EarlierSession | None:
        return None

    def line(self, line: bytes, messages: bytes) -> Awaitable[None] | None:
        self.lines.append((line, json.loads(messages)))
        return None

    async def record(self, details: bytes) -> None:
        """Not looked at."""

    def progress(self, progress: AgentProgress) -> None:
        """Not looked at."""


def test_above_the_ceiling_the_last_lines_are_recorded_and_the_gap_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transcript, "MOST", 1_000)
    monkeypatch.setattr(transcript, "LAST", 100)
    log = Log()
    lines = Transcript(log)
    for number in range(10_000):
        lines.add(b"%010d" % number, [])
    lines.finish()
    printed = [int(line) for line, _ in log.lines if line]
    assert printed == [*range(100), *range(9_990, 10_000)]
    [(_, [remark])] = [row for row in log.lines if not row[0]]
    assert remark == {
        "role": "headway",
        "content": "9,890 lines (98,900 bytes) left out: an attempt records 1,000 bytes of output, and 100,000 lines",
    }
    assert [line for line, _ in log.lines].index(b"") == 100, "where they were"


def test_below_the_ceiling_nothing_is_left_out() -> None:
    log = Log()
    lines = Transcript(log)
    lines.add(b"one", [{"role": "assistant", "content": "1"}])
    lines.finish()
    assert log.lines == [(b"one", [{"role": "assistant", "content": "1"}])]


def test_a_line_that_is_too_long_is_cut_and_says_so(tmp_path: Path) -> None:
    most = output_lines.LONGEST_LINE
    stage = agent(tmp_path, f"head -c {most + 1_000_000} /dev/zero | tr '\\0' x; echo\n{say(RESULT)}")
    assert stage.run("run", "in.jsonl", "-q").returncode == 0
    long, result = lines_of(stage)
    assert long.line == b"x" * most
    [remark] = long.messages
    assert remark["content"] == f"a line was cut after {most:,} bytes: 1,000,000 bytes left out"
    assert result.line.decode() == RESULT


def test_an_agent_that_prints_without_end_stays_within_bounds(tmp_path: Path) -> None:
    noise = 'yes \'{"type":"noise"}\' | head -c 4000000'  # 230,000 lines
    stage = agent(tmp_path, f"{noise}\necho\n{say(RESULT)}")
    assert stage.run("run", "in.jsonl", "-q").returncode == 0
    [(count, last)] = stage.query("SELECT count(*), max(id) FROM transcripts")
    assert (
        transcript.MOST_LINES < count < transcript.MOST_LINES + transcript.LAST / len('{"type":"noise"}') + 3
    )
    [(line,)] = stage.query("SELECT line FROM transcripts WHERE id = ?", last)
    assert line.decode() == RESULT, "the last event is kept"
    [(note,)] = stage.query("SELECT messages FROM transcripts WHERE length(line) = 0")
    assert "left out" in note


@pytest.mark.parametrize("length", [4, 30, 20_000])
def test_a_line_that_was_cut_inside_of_a_secret_shows_nothing_of_it(length: int) -> None:
    secret = "sk-secret-0123456789abcdef"
    log = Log()
    lines = Transcript(log, Scrubber([secret]))
    for shown in range(1, len(secret) + 1):
        lines.add_cut(length * b"x" + secret[:shown].encode(), [])
    assert not [line for line, _ in log.lines if b"sk" in line]
    assert all(line.startswith(length * b"x") for line, _ in log.lines)
