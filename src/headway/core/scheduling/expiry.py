"""Reports the units that had not started at the deadline, by index: those in memory and those that were never fetched.

The source is read a page at a time, so that a job of any size is reported in parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from headway.core.lanes.queueing.queue import Entry
from headway.core.unit_states import Status


class Expiry:
    """The units that had not started at the deadline and are not reported yet."""

    __slots__ = ("_entries", "fetching", "over")

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = [(entry.unit.index, entry) for entry in entries]
        heapify(self._entries)
        #: Whether a page of the source is being read.
        self.fetching = False
        #: Whether the source has been read to its end.
        self.over = False

    def page(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        """The next units of the source are here, by index; an empty page is the last. Gives those that can be reported:
        what is left has a higher index than the page."""
        self.fetching = False
        self.over = not entries
        for entry in entries:
            heappush(self._entries, (entry.unit.index, entry))
        last = entries[-1].unit.index if entries else None
        while self._entries and (last is None or self._entries[0][0] <= last):
            entry = heappop(self._entries)[1]
            if entry.status is Status.PENDING:
                yield entry
