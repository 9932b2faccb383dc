"""The intent to send, on record before anything is sent.

So that no fsync stands between a permit and its socket, intents are recorded ahead: of every lane as many of the next
units as its pace will start within a quarter of a second. Their requests are read with them, and wait here. After a crash
those count as perhaps sent, too.

Nothing here commits or sends: the engine hands batches over, and tells what has become durable.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from heapq import nsmallest
from typing import Final

from headway.core.scheduler import Scheduler
from headway.core.status import Status
from headway.engine.flights import Desk
from headway.engine.recording import due_soon
from headway.engine.repairs import Repairs
from headway.providers.base import Request
from headway.stores.base import Store
from headway.stores.writer import Writer

#: Intents are recorded ahead for at the most so many units of a lane.
MOST_AHEAD: Final = 512


class Intents:
    """Of one run: on record, on their way there, called off."""

    def __init__(
        self, job: int, store: Store, writer: Writer, desks: Mapping[str, Desk], repairs: Repairs
    ) -> None:
        self._job, self._store, self._writer = job, store, writer
        self._desks, self._repairs = desks, repairs
        #: Units whose intent is on its way to the disk.
        self._underway: set[int] = set()

    def ready(self, index: int, desk: Desk) -> Request | None:
        """What a unit may send at once; None: its intent is only now being recorded, and it must wait for that."""
        request = desk.ahead.pop(index, None)
        if index not in self._underway:
            if request is not None:
                return request
            self._intend(index, desk)
        elif request is not None:
            desk.ahead[index] = request
        return None

    def request(self, index: int, desk: Desk) -> Request:
        """What a unit sends that has waited for its intent."""
        return (
            desk.ahead.pop(index, None)
            or self._repairs.requests.get(index)
            or Request(*self._store.request(self._job, index))
        )

    def durable(self, indexes: Iterable[int]) -> None:
        """The intents of these units are committed."""
        self._underway.difference_update(indexes)

    def look_ahead(self, scheduler: Scheduler, now: float) -> None:
        """Record the intent to send for what each lane is about to start."""
        if scheduler.mode != "run" or scheduler.paused:
            return
        for key, lane in scheduler.lanes.items():
            desk = self._desks[key]
            wanted = min(MOST_AHEAD, due_soon(lane, now)) if lane.queue.ready else 0
            if 2 * len(desk.ahead) >= wanted:
                continue
            entries = (item[3] for item in nsmallest(wanted, lane.queue.ready))
            indexes = [
                entry.unit.index
                for entry in entries
                if entry.unit.index not in desk.ahead and entry.status is Status.PENDING
            ]
            for index, path, body in self._store.requests(self._job, indexes):
                desk.ahead[index] = self._repairs.requests.get(index) or Request(path, body)
                self._intend(index, desk)

    def call_off(self, waiting: Container[int], desks: Iterable[Desk] | None = None) -> None:
        """Nothing will start for a while (in these lanes, or in all): what was recorded ahead is pending again, and a crash
        would not name it. Those that are `waiting` have started already.
        """
        for desk in self._desks.values() if desks is None else desks:
            for index in [index for index in desk.ahead if index not in waiting]:
                del desk.ahead[index]
                self.release(index)

    def release(self, index: int) -> None:
        """A unit is not sent after all."""
        self._underway.discard(index)
        self._writer.batch.release(index)

    def forget(self, index: int, desk: Desk) -> None:
        """A unit has ended without being sent."""
        desk.ahead.pop(index, None)
        self._underway.discard(index)

    def _intend(self, index: int, desk: Desk) -> None:
        self._underway.add(index)
        self._writer.batch.intend(index, desk.id)
