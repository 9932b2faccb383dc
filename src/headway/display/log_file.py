"""`--log-file`: the events of a run, appended to a file, one per line, with times in UTC and the ids of what they are about.

Messages of providers are logged as observers receive them: adapters have removed keys before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TextIO

import msgspec

from headway.display.flows.node_changes import NodeChanges
from headway.display.formatting import iso
from headway.display.logs.log_line import (
    EVENT_LEVELS,
    NOTED_LEVELS,
    LogForm,
    LogIds,
    LogLevel,
    LogLine,
    is_logged,
)
from headway.display.logs.unit_lines import UnitLines
from headway.display.plain import began_lines, noted_line, progress_line
from headway.engine.observer import Observer, View
from headway.errors import HeadwayError, UsageError
from headway.reports.run_progress import progress_fields
from headway.reports.usage import saved_report
from headway.stores.records import Job, JobEvent, UnknownOutcome
from headway.stores.store import Store

INTERVAL_S: Final = 10.0


class LogStyle(msgspec.Struct, frozen=True):
    """How a log is written: its form, and the least important level that it has."""

    form: LogForm = "text"
    level: LogLevel = "info"


DEFAULT_STYLE: Final = LogStyle()


class LogFile(Observer):
    """An observer that writes to a file. A write that fails does not disturb the run."""

    def __init__(
        self,
        path: Path,
        style: LogStyle = DEFAULT_STYLE,
        file: TextIO | None = None,
        *,
        job: str | None = None,
        open_store: Callable[[], Store] | None = None,
    ) -> None:
        """`file` is the open file, where the caller has opened it. `open_store`: for the lines of units, which are left out without it."""
        self._style, self._job = style, job
        #: The first error of a write; "" if there was none.
        self.write_error = ""
        self._shown_at = time.monotonic()
        self._changes = NodeChanges()
        self._lock = threading.Lock()
        has_units = open_store is not None and is_logged("warning", style.level)
        self._units = UnitLines(open_store, self._append, style.level) if has_units and open_store else None
        try:
            # Line buffering: the log of a killed run is complete.
            self._file = file or path.open("a", buffering=1, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise _unwritable(path, error) from None

    def _write(
        self, event: str, text: str, facts: dict[str, Any], *, level: LogLevel | None = None, **about: Any
    ) -> None:
        """Write an event of this run. `about`: a lane, an instant."""
        at_utc = about.pop("at_utc", None)
        ids = LogIds(self._job, **about)
        self._append(
            LogLine(
                time.time() if at_utc is None else at_utc,
                level or EVENT_LEVELS[event],
                event,
                ids,
                text,
                facts,
            )
        )

    def _append(self, line: LogLine) -> None:
        if not is_logged(line.level, self._style.level):
            return
        text = line.written(self._style.form)
        try:
            with self._lock:
                self._file.write(text + "\n")
        except OSError as error:
            self.write_error = self.write_error or (error.strerror or str(error)).lower()

    def say(self, text: str) -> None:
        """Write a line."""
        self._write("said", text, {"text": text.strip()})

    def began(self, job: Job, unknown: list[UnknownOutcome]) -> None:
        self._job = job.name
        self._changes.began(job)
        facts = {
            "total": job.total,
            "done": job.good,
            "unknown": [one.custom_id for one in unknown],
            "saved": saved_report(job),
        }
        self._write(
            "began", "; ".join(began_lines(job, unknown)), facts, level="warning" if unknown else None
        )
        if self._units is not None:
            self._units.began(job)

    def noted(self, event: JobEvent) -> None:
        until = None if event.until_utc is None else iso(event.until_utc)
        facts = {"what": event.what, "text": event.text, "until": until}
        level = NOTED_LEVELS.get(event.what)
        self._write("noted", noted_line(event, iso), facts, level=level, at_utc=event.at_utc, lane=event.lane)

    def sent(self, indexes: list[int]) -> None:
        if self._units is not None:
            self._units.sent(indexes)

    def ended(self, indexes: list[int]) -> None:
        if self._units is not None:
            self._units.ended(indexes)

    def moved(self, view: View) -> None:
        if self._units is not None:
            self._units.moved(view)
        if self._style.form == "text":
            for line in self._changes.lines(view):
                self._write("said", line, {})
        now = time.monotonic()
        if now - self._shown_at >= INTERVAL_S:
            self._shown_at = now
            self._write("progress", progress_line(view, iso), progress_fields(view))

    def finished(self, lines: list[str], facts: dict[str, Any]) -> None:
        """Write the summary: its lines, or its JSON."""
        level: LogLevel = "info" if facts.get("state") == "complete" else "warning"
        self._end_units()
        if self._style.form == "json":
            self._write("finished", "", facts, level=level)
            return
        for line in lines:
            self._write("finished", line, {}, level=level)

    def failed(self, error: BaseException) -> None:
        """Write the error that ended the run. Of a bug only the type is logged: its text may contain anything."""
        self._end_units()
        name = type(error).__name__
        text = str(error) if isinstance(error, HeadwayError) else name
        self._write("failed", f"error: {text}", {"error": name, "text": text})

    def close(self) -> None:
        """Close the file."""
        self._end_units()
        try:
            self._file.close()
        except OSError as error:
            self.write_error = self.write_error or (error.strerror or str(error)).lower()

    def _end_units(self) -> None:
        """Write what is left of units: the lines after it are the last."""
        if self._units is not None:
            self._units.close()


def _unwritable(path: Path, error: OSError) -> UsageError:
    why = (error.strerror or str(error)).lower()
    return UsageError(f"--log-file {path} cannot be written: {why}", hint="name another file")
