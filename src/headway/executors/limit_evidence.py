"""Decides from everything that a unit left behind whether it met a rate limit.

Sources in this order; the first that reports a limit counts: the result, the exception, the exit code, the structured events
on standard output, standard error, the log files. Plain text on standard output is never read: it may be a model's answer.
`providers.limits.limit_detection` reads results, exceptions and texts.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.core.model import Kind, Outcome
from headway.core.retry import believed
from headway.executors.evidence.log_files import (
    NO_MARKS,
    LogMarker,
    Marks,
    is_regular,
    open_regular,
    unread_from,
)
from headway.executors.work_result import WorkResult
from headway.providers.adapter import RateLimit
from headway.providers.limits import agent_events
from headway.providers.limits.hints import Facts
from headway.providers.limits.limit_detection import LOG_TAIL, as_bytes, limit_in_result, local_zone
from headway.providers.limits.limit_text import LIMIT_KINDS, limit_in_output, limit_in_statement

#: File systems have coarser clocks than `time.time`.
_COARSE_S: Final = 0.05
#: Only the newest logs are read, and the end of each.
MOST_LOGS: Final = 20
#: The keys under which a log's JSON document has a program's output.
_STDOUT: Final = ("stdout", "output")
_STDERR: Final = ("stderr", "error", "error_message", "message")
#: Output files that are logs by their names. Others may hold a model's answer, and are read as JSON only.
_LOG_NAMES: Final = (".log", ".err", ".stderr")


class LimitEvidence(msgspec.Struct, frozen=True):
    """What a failed unit left besides its exception. `files` are the output files that it reported."""

    exit_codes: tuple[int, ...] = ()
    stdout: bytes = b""
    stderr: bytes = b""
    files: tuple[str, ...] = ()
    #: 0: it was never started, so no log is read.
    began_utc: float = 0.0
    #: The lengths of the logs when it began.
    marks: Marks = NO_MARKS


class LimitDetector(msgspec.Struct, frozen=True):
    """Finds limits in exit codes, output and logs. `logs` is a pattern of log files below `root`.

    `backs_off`: if the work itself reported a limit without a wait, the lane backs off. Otherwise the lane waits for
    `default_wait`, as for every limit that is found elsewhere.

    `begin` is called before an attempt. What it returns goes to `read`, or into the evidence for `judge`.
    """

    exit_codes: tuple[int, ...] = ()
    logs: str = ""
    root: str = "."
    backs_off: bool = False
    marker: LogMarker = msgspec.field(default_factory=LogMarker)

    @property
    def looks(self) -> bool:
        """Whether exit codes or logs are configured."""
        return bool(self.exit_codes or self.logs)

    async def begin(self) -> Marks:
        """Marks of the logs now, before an attempt."""
        return await asyncio.to_thread(self.marker.marks, self.root, self.logs) if self.logs else NO_MARKS

    def read(self, result: WorkResult, marks: Marks = NO_MARKS) -> WorkResult:
        """The result of a unit, changed to a rate limit if it met one."""
        codes = (
            result.exit_codes if result.death is None or result.death.code is None else (result.death.code,)
        )
        evidence = LimitEvidence(codes, result.stdout, result.stderr, began_utc=result.began_utc, marks=marks)
        outcome, limit = self.judge(result.outcome, evidence)
        if limit is None:
            return result
        return msgspec.structs.replace(result, outcome=outcome, rate_limit=result.rate_limit or limit)

    def judge(self, outcome: Outcome, evidence: LimitEvidence) -> tuple[Outcome, RateLimit | None]:
        """The outcome, and the limit that was met, if any. `outcome` comes from the result or the exception."""
        if outcome.kind is None:
            return outcome, None
        if outcome.kind in LIMIT_KINDS:
            outcome = outcome if self.backs_off else _held(outcome)
            return outcome, rate_limit_of("exception", outcome)
        for source, facts in self._sources(evidence):
            if facts is not None:
                outcome = _held(Outcome(facts.kind, outcome.usage, facts.hint, facts.message))
                return outcome, rate_limit_of(source, outcome)
        return outcome, None

    def _sources(self, evidence: LimitEvidence) -> Iterator[tuple[str, Facts | None]]:
        """Every source of evidence in order, with the limit that it reports."""
        for code in set(evidence.exit_codes) & set(self.exit_codes):
            yield (
                "exit code",
                Facts(Kind.HOLD, message=f"exit code {code} says that a rate limit was reached"),
            )
        now_utc, zone = time.time(), local_zone()
        yield "stdout", limit_in_output(evidence.stdout, b"", now_utc, zone)
        yield "stderr", limit_in_output(b"", evidence.stderr, now_utc, zone)
        if not evidence.began_utc:
            return
        if self.logs:
            for path in self._fresh(Path(self.root).glob(self.logs), evidence.began_utc):
                yield os.path.relpath(path, self.root), _in_log(path, evidence.marks)
        for path in self._fresh(map(Path, evidence.files), evidence.began_utc):
            yield str(path), _in_log(path, evidence.marks, plain=path.name.endswith(_LOG_NAMES))

    @staticmethod
    def _fresh(paths: Iterable[Path], since_utc: float) -> list[Path]:
        """Files that changed since the unit started, the newest first."""
        dated = []
        for path in paths:
            try:
                status = path.stat()
            except (OSError, ValueError):
                continue
            if is_regular(status) and status.st_mtime >= since_utc - _COARSE_S:
                dated.append((status.st_mtime, path))
        return [path for _, path in sorted(dated, reverse=True)[:MOST_LOGS]]


def in_preflight(stdout: bytes, stderr: bytes, exit_code: int | None) -> Facts | None:
    """The limit that a preflight command reports.

    After exit code 0 its standard error counts only if nothing else was printed, and its standard output only if that is
    a refusal and nothing else: some agent CLIs print refusals there.
    """
    now_utc, zone = time.time(), local_zone()
    facts = limit_in_output(stdout, b"", now_utc, zone)
    if facts is not None or (exit_code == 0 and agent_events.read(stdout).ok):
        return facts
    answer, remarks = (each.decode("utf-8", errors="replace").strip() for each in (stdout, stderr))
    if exit_code != 0 or not answer:
        facts = limit_in_output(b"", stderr, now_utc, zone)
    else:
        facts = limit_in_statement(remarks.rpartition("\n")[2], now_utc, zone)
    return facts or limit_in_statement(answer, now_utc, zone)


def _in_log(path: Path, marks: Marks, *, plain: bool = True) -> Facts | None:
    """The limit that a log reports: agent events, a JSON document with a program's output, or (`plain`) text."""
    try:
        with open_regular(path) as file:
            begin = unread_from(file, marks)
            file.seek(max(begin, file.seek(0, os.SEEK_END) - LOG_TAIL))
            text = file.read(LOG_TAIL)
    except OSError:
        return None
    now_utc, zone = time.time(), local_zone()
    facts = limit_in_output(text, b"", now_utc, zone)
    if facts is not None:
        return facts
    try:
        document: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        is_events = text.lstrip().startswith(b"{")
        return limit_in_output(b"", text, now_utc, zone) if plain and not is_events else None
    if not isinstance(document, dict):
        return None
    return limit_in_result(document) or _in_document(document, plain=plain)


def _in_document(document: dict[str, Any], *, plain: bool) -> Facts | None:
    now_utc, zone = time.time(), local_zone()
    for names, to_output in ((_STDOUT, True), (_STDERR if plain else _STDERR[:1], False)):
        for name in names:
            value = document.get(name)
            if isinstance(value, str):
                streams = (as_bytes(value), b"") if to_output else (b"", as_bytes(value))
                facts = limit_in_output(*streams, now_utc, zone)
                if facts is not None:
                    return facts
    return None


def rate_limit_of(source: str, outcome: Outcome) -> RateLimit:
    """The record of a limit that was met."""
    wait_s = None if outcome.hint is None else outcome.hint.retry_after_s
    return RateLimit(source, wait_s, outcome.message, time.time())


def _held(outcome: Outcome) -> Outcome:
    """A limit without a wait holds the lane for the default wait; only lanes of servers back off."""
    outcome = believed(outcome)
    no_wait = outcome.hint is None or outcome.hint.retry_after_s is None
    if outcome.kind is Kind.RATE and no_wait:
        return msgspec.structs.replace(outcome, kind=Kind.HOLD)
    return outcome
