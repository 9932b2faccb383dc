"""The intent to send, on record before anything is sent.

So that no fsync stands between a permit and its socket, intents are recorded ahead: of every lane as many of the next
units as its pace will start within a quarter of a second. Their requests are read meanwhile, by the reader's thread, and
wait here. A unit is sent once both are done. After a crash what was recorded counts as perhaps sent.

Nothing here commits or sends: the engine hands batches over, and tells what has become durable.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from heapq import nsmallest
from typing import Final

from headway.core.scheduler import Scheduler
from headway.core.unit_states import Status
from headway.engine.flights import Desk
from headway.engine.recording import due_soon
from headway.engine.store_reader import StoreReader
from headway.providers.adapter import Request
from headway.stores.store import Store
from headway.stores.writer import Writer

#: Intents are recorded ahead for at the most so many units of a lane.
MOST_AHEAD: Final = 512

#: (index, path, body)
_Row = tuple[int, str, bytes]


class Intents:
    """Of one run: on record, on their way there, called off."""

    def __init__(
        self,
        job: int,
        reader: StoreReader,
        writer: Writer,
        desks: Mapping[str, Desk],
        known: Callable[[int], Request | None],
        arrived: Callable[[Iterable[int]], None],
    ) -> None:
        """`known` gives the request of a unit that does not send its own. `arrived` is called when requests have been read: units
        that wait for theirs may be ready."""
        self._job, self._reader, self._writer = job, reader, writer
        self._desks, self._known, self._arrived = desks, known, arrived
        #: Units whose intent is on its way to the disk.
        self._underway: set[int] = set()

    def ready(self, index: int, desk: Desk) -> Request | None:
        """What a unit may send now; None: its intent is not on record yet or its request not read, and it must wait."""
        if index not in desk.ahead:
            self._prepare([index], desk)
        request = desk.ahead[index]
        if request is None or index in self._underway:
            return None
        del desk.ahead[index]
        return request

    def durable(self, indexes: Iterable[int]) -> None:
        """The intents of these units are committed."""
        self._underway.difference_update(indexes)

    def look_ahead(self, scheduler: Scheduler, now: float, waiting: Container[int]) -> None:
        """Record the intent to send for what each lane is about to start. Units that are `waiting` have started already."""
        if scheduler.mode != "run" or scheduler.paused:
            return
        for key, lane in scheduler.lanes.items():
            desk = self._desks[key]
            wanted = min(MOST_AHEAD, due_soon(lane, now)) if lane.queue.ready else 0
            if desk.orders != lane.queue.orders:
                desk.orders = lane.queue.orders
                self.call_off(waiting, [desk])  # Others are next.
            if 2 * len(desk.ahead) >= wanted:
                continue
            entries = (item[3] for item in nsmallest(wanted, lane.queue.ready))
            indexes = [
                entry.unit.index
                for entry in entries
                if entry.unit.index not in desk.ahead
                and entry.status is Status.PENDING
                and not entry.unit.late
            ]
            self._prepare(indexes, desk)

    def call_off(self, waiting: Container[int], desks: Iterable[Desk] | None = None) -> None:
        """Nothing will start for a while (in these lanes, or in all): what was recorded ahead is pending again, and a crash
        would not name it. Those that are `waiting` have started already.
        """
        for desk in self._desks.values() if desks is None else desks:
            for index in [index for index in desk.ahead if index not in waiting]:
                self.release(index, desk)

    def release(self, index: int, desk: Desk) -> None:
        """A unit is not sent after all."""
        self.forget(index, desk)
        self._writer.batch.release(index)

    def forget(self, index: int, desk: Desk) -> None:
        """A unit has ended without being sent."""
        desk.ahead.pop(index, None)
        self._underway.discard(index)

    def _prepare(self, indexes: list[int], desk: Desk) -> None:
        """Record the intents, and read the requests that are not known."""
        for index in indexes:
            desk.ahead[index] = self._known(index)
            self._underway.add(index)
            self._writer.batch.intend(index, desk.id)
        unread = [index for index in indexes if desk.ahead[index] is None]
        if unread:
            self._reader.read(partial(_requests, self._job, unread), partial(self._read, desk))

    def _read(self, desk: Desk, rows: list[_Row]) -> None:
        for index, path, body in rows:
            if index in desk.ahead:  # It may have been called off meanwhile.
                desk.ahead[index] = Request(path, body)
        self._arrived(row[0] for row in rows)


def _requests(job: int, indexes: list[int], store: Store) -> list[_Row]:
    return store.requests(job, indexes)
