"""The requests of a job's next units, read ahead by the reader's thread.

A unit is sent once its intent is durable and its request is here. Requests are read when the intent is recorded, so both
are usually ready before the lane lets the unit start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from headway.engine.recorder import Recorder
from headway.providers.adapter import Request
from headway.stores.store import Store

#: (index, path, body, id)
_Row = tuple[int, str, bytes, str]


class RequestsAhead:
    """Requests by unit. `other_request` returns the request of a unit that does not send its own. `arrived` is called with
    units whose requests have just been read. `with_ids`: requests have the ids of their units.
    """

    def __init__(
        self,
        recorder: Recorder,
        other_request: Callable[[int], Request | None],
        arrived: Callable[[Iterable[int]], None],
        *,
        with_ids: bool = False,
    ) -> None:
        self._recorder, self._other_request, self._arrived = recorder, other_request, arrived
        self._with_ids = with_ids
        #: None: it is being read, or will be.
        self._requests: dict[int, Request | None] = {}
        #: Units whose requests the next `read` reads.
        self._missing: list[int] = []

    def want(self, indexes: Iterable[int]) -> None:
        """The requests of these units are needed soon. Another request may replace a unit's own: then nothing is read."""
        requests = self._requests
        for index in indexes:
            if index not in requests:
                other = requests[index] = self._other_request(index)
                if other is None:
                    self._missing.append(index)

    def read(self) -> None:
        """Read the requests that are wanted and missing, all at once: waking the reader's thread costs as much as reading ten."""
        if self._missing:
            missing, self._missing = self._missing, []
            self._recorder.read(partial(_requests, self._recorder.job, missing, self._with_ids), self._keep)

    def _keep(self, rows: list[_Row]) -> None:
        for index, path, body, unit_id in rows:
            if index in self._requests:  # Otherwise it was dropped meanwhile.
                self._requests[index] = Request(path, body, unit_id=unit_id)
        self._arrived(row[0] for row in rows)

    def take_or_want(self, index: int) -> Request | None:
        """The same as `want` and then `take`."""
        request = self.take(index)
        if request is None:
            self.want((index,))
            request = self.take(index)
        return request

    def take(self, index: int) -> Request | None:
        """The request of a unit that is sent now; None: it is not here yet."""
        request = self._requests.get(index)
        if request is not None:
            del self._requests[index]
        return request

    def drop(self, indexes: Iterable[int]) -> None:
        """These units are not sent for now."""
        for index in indexes:
            self._requests.pop(index, None)


def _requests(job: int, indexes: list[int], with_ids: bool, store: Store) -> list[_Row]:
    ids = store.lists.ids(job, indexes) if with_ids else {}
    return [(index, path, body, ids.get(index, "")) for index, path, body in store.requests(job, indexes)]
