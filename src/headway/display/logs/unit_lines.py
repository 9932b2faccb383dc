"""The lines of a log about single units, made by a thread from what was committed.

At the level `debug` that is every start, refusal, retry and end; otherwise only units that ended without success. At the level
`error` there are none, and no thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from headway.core.unit_states import GOOD
from headway.display.formatting import duration, money
from headway.display.logs.log_line import EVENT_LEVELS, LogIds, LogLevel, LogLine, is_logged
from headway.engine.observer import View
from headway.errors import HeadwayError
from headway.reports.flows.run_events import UNIT, EventMarks, RunEvent, RunEventReader
from headway.stores.records import Job, UnitResult
from headway.stores.store import Store

FAILED: Final = UNIT + "failed"
#: Units whose states are read at once.
_PAGE: Final = 5_000


class UnitLines:
    """Writes the lines of a run's units. The run tells what moved; the thread has a store of its own."""

    def __init__(
        self, open_store: Callable[[], Store], write: Callable[[LogLine], None], level: LogLevel
    ) -> None:
        self._open_store, self._write = open_store, write
        self._every = is_logged("debug", level)
        self._marks = EventMarks()
        if self._every:  # What is recorded before the run is no news.
            with open_store() as store:
                self._marks = EventMarks(event=store.last_node_event(), attempt=store.last_attempt())
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._started: set[int] = set()
        self._ended: set[int] = set()
        self._unsuccessful = 0
        self._closing = False
        self._thread: threading.Thread | None = None

    def began(self, job: Job) -> None:
        """A run begins: what earlier runs did is no news."""
        self._unsuccessful = job.ended - job.good
        self._thread = threading.Thread(target=self._run, args=(job,), name="headway-log", daemon=True)
        self._thread.start()

    def sent(self, indexes: list[int]) -> None:
        """Attempts at these units have begun."""
        if self._every:
            with self._lock:
                self._started.update(indexes)

    def ended(self, indexes: list[int]) -> None:
        """These units have ended."""
        with self._lock:
            self._ended.update(indexes)

    def moved(self, view: View) -> None:
        """Write what is new. If no unit has ended without success, there is nothing to look for."""
        unsuccessful = view.ended - view.counts["succeeded"] - view.counts["cached"]
        if not self._every and unsuccessful == self._unsuccessful:
            with self._lock:
                self._ended.clear()
            return
        self._unsuccessful = unsuccessful
        self._wake.set()

    def close(self) -> None:
        """Write what is left. A second call does nothing."""
        if self._thread is not None and not self._closing:
            self._closing = True
            self._wake.set()
            self._thread.join()

    def _run(self, job: Job) -> None:
        try:
            with self._open_store() as store:
                reader = RunEventReader(store, job, self._marks) if self._every else None
                while True:
                    self._wake.wait()
                    self._wake.clear()
                    is_last = self._closing
                    with self._lock:
                        started, self._started = self._started, set()
                        ended, self._ended = self._ended, set()
                    lines = (
                        _failed_lines(store, job, ended)
                        if reader is None
                        else _all_lines(reader, started, ended)
                    )
                    for line in lines:
                        self._write(line)
                    if is_last:
                        return
        except HeadwayError:
            return  # The database is gone, and the run with it: its own error says so.


def _all_lines(reader: RunEventReader, started: set[int], ended: set[int]) -> Iterator[LogLine]:
    for page in reader.news(started, ended):
        yield from (_line(event) for event in page if event.type.startswith(UNIT))


def _line(event: RunEvent) -> LogLine:
    data = dict(event.data)
    data.pop("id", None)
    lane, attempt = data.pop("lane", None), data.pop("attempt", None)
    ids = LogIds(event.job, event.unit, lane, attempt)
    return LogLine(event.utc, EVENT_LEVELS[event.type], event.type, ids, _text(event.type, data), data)


def _text(what: str, data: dict[str, Any]) -> str:
    """ "retrying: rate: too fast, after 0.4 s, $0.0010"."""
    reason = ": ".join(str(data[name]) for name in ("kind", "message") if data.get(name))
    facts = [
        f"after {duration(data['took_s'])}" if "took_s" in data else "",
        money(data["cost_usd"]) if data.get("cost_usd") else "",
    ]
    name = what.removeprefix(UNIT)
    return ", ".join(part for part in (f"{name}: {reason}" if reason else name, *facts) if part)


def _failed_lines(store: Store, job: Job, ended: Iterable[int]) -> Iterator[LogLine]:
    indexes = sorted(ended)
    for first in range(0, len(indexes), _PAGE):
        states = store.states(job.id, indexes[first : first + _PAGE])
        for index, status in states.items():
            if status not in GOOD:
                yield from (_failed_line(job, unit) for unit in store.results(job.id, index - 1, 1))


def _failed_line(job: Job, unit: UnitResult) -> LogLine:
    data: dict[str, Any] = {"kind": unit.code, "message": unit.message or "", "status": unit.status}
    data = {name: value for name, value in data.items() if value}
    ids = LogIds(job.name, unit.custom_id, unit.lane, unit.attempts or None)
    return LogLine(unit.finished_utc or 0.0, EVENT_LEVELS[FAILED], FAILED, ids, _text(FAILED, data), data)
