"""`--log-file`: the events of a run, appended to a file, one per line, with times in UTC.

Text lines begin with the time. JSON lines have it as `at`, and `event`: began, noted, progress, said, finished or failed.
Messages of providers are logged as observers receive them: adapters have removed keys before.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final, Literal, TextIO

import msgspec

from headway.display.flows.node_changes import NodeChanges
from headway.display.formatting import iso, short
from headway.display.plain import began_lines, noted_line, progress_line
from headway.display.report_json import fields_json
from headway.engine.observer import Observer, View
from headway.errors import HeadwayError, UsageError
from headway.reports.run_progress import progress_fields
from headway.reports.usage import saved_report
from headway.safe_text import escaped, visible
from headway.stores.records import Job, JobEvent, UnknownOutcome

INTERVAL_S: Final = 10.0
#: A text line keeps at most this many characters.
LONGEST: Final = 2_000

Format = Literal["text", "json"]


class LogFile(Observer):
    """An observer that writes to a file. A write that fails does not disturb the run."""

    def __init__(self, path: Path, form: Format = "text", file: TextIO | None = None) -> None:
        """`file` is the open file, where the caller has opened it."""
        self._form = form
        #: The first error of a write; "" if there was none.
        self.write_error = ""
        self._shown_at = time.monotonic()
        self._changes = NodeChanges()
        try:
            # Line buffering: the log of a killed run is complete.
            self._file = file or path.open("a", buffering=1, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise _unwritable(path, error) from None

    def _write(self, event: str, text: str, at_utc: float | None = None, /, **facts: Any) -> None:
        at = iso(time.time() if at_utc is None else at_utc)
        if self._form == "json":
            line = msgspec.json.encode({"at": at, "event": event, **fields_json(facts)}).decode()
        else:
            line = f"{at}  {short(text, LONGEST)}"
        try:
            self._file.write(visible(escaped(line) if self._form == "json" else line) + "\n")
        except OSError as error:
            self.write_error = self.write_error or (error.strerror or str(error)).lower()

    def say(self, text: str) -> None:
        """Write a line."""
        self._write("said", text, text=text.strip())

    def began(self, job: Job, unknown: list[UnknownOutcome]) -> None:
        self._changes.began(job)
        text = "; ".join(began_lines(job, unknown))
        names = [one.custom_id for one in unknown]
        self._write(
            "began",
            text,
            job=job.name,
            total=job.total,
            done=job.good,
            unknown=names,
            saved=saved_report(job),
        )

    def noted(self, event: JobEvent) -> None:
        until = None if event.until_utc is None else iso(event.until_utc)
        self._write(
            "noted", noted_line(event, iso), event.at_utc, what=event.what, lane=event.lane, text=event.text, until=until
        )  # fmt: skip

    def ended(self, indexes: list[int]) -> None:
        """Do nothing: progress lines count units."""

    def moved(self, view: View) -> None:
        if self._form == "text":
            for line in self._changes.lines(view):
                self._write("said", line)
        now = time.monotonic()
        if now - self._shown_at >= INTERVAL_S:
            self._shown_at = now
            self._write("progress", progress_line(view, iso), **progress_fields(view))

    def finished(self, lines: list[str], facts: dict[str, Any]) -> None:
        """Write the summary: its lines, or its JSON."""
        if self._form == "json":
            self._write("finished", "", **facts)
            return
        for line in lines:
            self._write("finished", line)

    def failed(self, error: BaseException) -> None:
        """Write the error that ended the run. Of a bug only the type is logged: its text may contain anything."""
        name = type(error).__name__
        text = str(error) if isinstance(error, HeadwayError) else name
        self._write("failed", f"error: {text}", error=name, text=text)

    def close(self) -> None:
        """Close the file."""
        try:
            self._file.close()
        except OSError as error:
            self.write_error = self.write_error or (error.strerror or str(error)).lower()


def _unwritable(path: Path, error: OSError) -> UsageError:
    why = (error.strerror or str(error)).lower()
    return UsageError(f"--log-file {path} cannot be written: {why}", hint="name another file")
