"""Units of an earlier run that wait until the job's growth returns them: one byte a unit.

A job that decides itself how many of its units run at a time (`RunSpec.grow_hands_out`) has more of them waiting after a crash or a failure than
may run. No cursor brings these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from headway.stores.store import Store
from headway.stores.write_batch import GrownUnits

#: A unit comes by its cursor, waits to be returned, or has been returned: then no cursor brings it.
_BY_CURSOR: Final = 0
_WAITS: Final = 1
_RETURNED: Final = 2


class HeldUnits:
    """Which units wait. Belongs to the thread that reads the store."""

    def __init__(self, marks: bytearray) -> None:
        self._marks = marks

    @classmethod
    def of(cls, store: Store, job: int, grown: GrownUnits) -> HeldUnits | None:
        """All units that wait except those that growth has just returned; None if these are all."""
        waiting = sum(unit.source is None for _, unit in grown.added)
        if sum(store.pending(job).values()) <= waiting:
            return None
        marks = bytearray((_WAITS,)) * (store.last_index(job) + 1)
        for index in (*grown.known, *(index for index, _ in grown.added)):
            marks[index] = _BY_CURSOR
        return cls(marks)

    def comes_by_cursor(self, index: int) -> bool:
        """Whether a cursor may bring a unit to be run."""
        return index >= len(self._marks) or self._marks[index] == _BY_CURSOR

    def take(self, index: int) -> bool:
        """Take a unit out, to be run or cancelled; returns whether it waited."""
        waited = index < len(self._marks) and self._marks[index] == _WAITS
        if waited:
            self._marks[index] = _RETURNED
        return waited

    def take_all(self, indexes: Iterable[int]) -> Sequence[int]:
        """Take units out; returns those that waited."""
        return [index for index in indexes if self.take(index)]
