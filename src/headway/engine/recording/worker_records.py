"""The records of worker processes: each has a row from its start to its end, and every attempt names the process that ran it.

The changes of a process within one batch are one statement. So a program of a few milliseconds costs one row.
"""

from __future__ import annotations

import time

from headway.engine.recorder import Recorder
from headway.stores.records import WorkerRecord, WorkerState


class WorkerProcesses:
    """The worker processes of one run (`providers.attempt_log.WorkerWatcher`). Only the loop of the run uses it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._living: dict[int, WorkerRecord] = {}
        self._closed = False

    def started(self, pid: int, name: str) -> None:
        """A process has started."""
        self._living[pid] = record = WorkerRecord(name, pid, time.time())
        self._set(record, WorkerState("idle"))

    def ended(self, pid: int, *, failed: bool) -> None:
        """A process has ended. `failed`: it was killed, or died."""
        record = self._living.pop(pid, None)
        if record is not None:
            self._set(record, WorkerState("failed" if failed else "terminated", time.time(), record.index))

    def busy(self, pid: int, index: int) -> WorkerRecord | None:
        """A process runs a unit now; returns its record."""
        record = self._living.get(pid)
        if record is not None:
            record.index = index
            self._set(record, WorkerState("busy", None, index))
        return record

    def idle(self, record: WorkerRecord) -> None:
        """The process has done its unit. It may have ended since."""
        if self._living.get(record.pid) is record:
            record.index = None
            self._set(record, WorkerState("idle"))

    def close(self) -> None:
        """The run is over: what still lives is recorded with the end of the run."""
        self._closed = True

    def _set(self, record: WorkerRecord, state: WorkerState) -> None:
        if not self._closed:
            self._recorder.batch.processes[record] = state
            self._recorder.commit_later()
