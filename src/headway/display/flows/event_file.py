"""`--events FILE`: the events of a flow's run as lines of JSON, appended while it runs.

Every event is in the file once, however often the job was killed and resumed. The file itself says how far it goes: when a run
begins, the lines of its job are read, a torn last line is cut off, and what the records have beyond them is added. Lines of other
jobs stay as they are. While the job runs, a thread reads what was committed, and appends it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from headway.display.formatting import iso
from headway.engine.observer import Display, View
from headway.errors import HeadwayError, UsageError
from headway.reports.flows.run_events import UNIT, EventMarks, RunEvent, RunEventReader
from headway.safe_text import escaped
from headway.stores.records import Job, JobEvent, UnknownOutcome
from headway.stores.store import Store

#: How every line begins.
_BEGINNING: Final = b'{"utc":"'


class _EventId(msgspec.Struct, gc=False):
    """What identifies an event, of its `data`."""

    id: int = 0
    attempt: int = 0


class _WrittenEvent(msgspec.Struct, gc=False):
    """The part of a line that says which event it is."""

    utc: str
    type: str
    job: str
    unit: str | None
    data: _EventId


_decode: Final = msgspec.json.Decoder(_WrittenEvent).decode


class EventFile(Display):
    """An observer that appends to a file. A write that fails ends the writing, and does not disturb the run: the next run adds
    what is missing.
    """

    def __init__(self, path: Path, open_store: Callable[[], Store], job: Job) -> None:
        self._path, self._open_store, self._job = path, open_store, job
        #: Why events are missing; "" if none are.
        self.write_error = ""
        self._file = _opened(path)
        self._lock = threading.Lock()
        self._started: set[int] = set()
        self._ended: set[int] = set()
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        try:
            with open_store() as store:
                self._reader = RunEventReader(store, job, _marks_in(self._file, path, store, job))
                self._append(self._reader.missed())
            self._marks = self._reader.marks
        except BaseException:
            os.close(self._file)
            raise

    def say(self, text: str) -> None:
        """Do nothing: a line for people is no event."""

    def began(self, job: Job, unknown: list[UnknownOutcome]) -> None:
        self._thread = threading.Thread(target=self._write_on, name="headway-events", daemon=True)
        self._thread.start()

    def noted(self, event: JobEvent) -> None:
        """Events of lanes are not events of the flow."""

    def sent(self, indexes: list[int]) -> None:
        with self._lock:
            self._started.update(indexes)

    def ended(self, indexes: list[int]) -> None:
        with self._lock:
            self._ended.update(indexes)

    def moved(self, view: View) -> None:
        self._wake.set()

    def close(self) -> None:
        """Append what is left, and close the file. A second call does nothing."""
        if self._closing:
            return
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        os.close(self._file)

    def _write_on(self) -> None:
        """In the thread: append what was committed, each time that the view moves."""
        try:
            with self._open_store() as store:
                reader = RunEventReader(store, self._job, self._marks)
                while True:
                    self._wake.wait()
                    self._wake.clear()
                    is_last = self._closing
                    with self._lock:
                        started, ended = self._started, self._ended
                        self._started, self._ended = set(), set()
                    self._append(reader.news(started, ended))
                    if is_last:
                        return
        except HeadwayError as error:
            self.write_error = self.write_error or error.message

    def _append(self, pages: Iterable[list[RunEvent]]) -> None:
        if self.write_error:
            return
        try:
            for page in pages:
                _write(self._file, b"".join(map(line_of, page)))
        except OSError as error:
            self.write_error = (error.strerror or str(error)).lower()


def line_of(event: RunEvent) -> bytes:
    """An event as a line of JSON."""
    fields = {
        "utc": iso(event.utc),
        "type": event.type,
        "job": event.job,
        "node": event.node or None,
        "unit": event.unit or None,
        "data": event.data,
    }
    return escaped(msgspec.json.encode(fields).decode()).encode() + b"\n"


def must_be_events(path: Path) -> None:
    """Raise UsageError if a file has other contents, or cannot be a file of events. Nothing is changed."""
    try:
        if path.is_dir():
            raise UsageError(f"--events {path} is a directory", hint="name a file")
        if not path.is_file():
            return  # It does not exist yet, or is a pipe.
        with path.open("rb") as file:
            _check_beginning(file.read(len(_BEGINNING)), path)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"--events {path} cannot be written: {why}", hint="name another file") from None


def _check_beginning(start: bytes, path: Path) -> None:
    if not start.startswith(_BEGINNING[: len(start)]):
        raise UsageError(f"--events {path} has other contents", hint="name another file")


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _opened(path: Path) -> int:
    """The file, for appending. A regular file has one writer at a time."""
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"--events {path} cannot be written: {why}", hint="name another file") from None
    try:
        if stat.S_ISREG(os.fstat(file).st_mode):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise UsageError(
            f"--events {path} is being written by another run", hint="name another file"
        ) from None
    except OSError:
        return file  # A file system without locks.
    return file


def _marks_in(file: int, path: Path, store: Store, job: Job) -> EventMarks:
    """Which events of the job the file has. Cuts off a torn last line."""
    if not stat.S_ISREG(os.fstat(file).st_mode):
        return EventMarks()
    marks = EventMarks()
    last: dict[str, _WrittenEvent] = {}
    with open(file, "rb", closefd=False) as lines:
        for number, line in enumerate(lines):
            if number == 0:
                _check_beginning(line[: len(_BEGINNING)], path)
            if not line.endswith(b"\n"):
                os.ftruncate(file, lines.tell() - len(line))
            elif (known := _decoded(line)) is not None and known.job == job.name:
                _note(marks, last, known)
    return marks if _are_of(store, job, marks, last) else EventMarks()


def _decoded(line: bytes) -> _WrittenEvent | None:
    try:
        return _decode(line)
    except msgspec.DecodeError:
        return None  # The line was changed by hand.


def _note(marks: EventMarks, last: dict[str, _WrittenEvent], line: _WrittenEvent) -> None:
    """Add an event to those that are known."""
    number = line.data.id
    if not line.type.startswith(UNIT):
        marks.event, last["event"] = max(marks.event, number), line
        return
    key = (line.unit or "", line.data.attempt)
    if line.type == "unit.started":
        marks.started.add(key)
    elif number:
        marks.attempt, last["attempt"] = max(marks.attempt, number), line
        marks.started.discard(key)
    else:
        marks.note_end(datetime.fromisoformat(line.utc).timestamp(), key[0])


def _are_of(store: Store, job: Job, marks: EventMarks, last: dict[str, _WrittenEvent]) -> bool:
    """Whether the lines are of this job, and not of one of the same name in another database."""
    if "event" in last:
        found = store.node_events(job.id, last["event"].data.id - 1, 1)
        if not found or (found[0].type, iso(found[0].at_utc)) != (last["event"].type, last["event"].utc):
            return False
    if "attempt" in last:
        attempts = store.history(job.id, last["attempt"].data.id - 1, 1)
        if not attempts or attempts[0].custom_id != last["attempt"].unit:
            return False
    return True
