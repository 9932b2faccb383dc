"""The order in which the units of a lane start: that of the input, or the longest first.

The order matters only at the end of a run. A long unit that starts last delays the end while the lane is otherwise done; one
that starts earlier runs beside the others. So `auto` keeps the order of the input, in which the output file
grows and the first answers are those of the first rows, until the rest of the lane takes no longer than `AHEAD` times its
longest unit. From then on the longest remaining unit starts next, wherever in the input it is. A short job is ordered
from its first unit, a long one in its last minutes, when durations are well known and few units remain.

`auto` does nothing before enough units have ended, in this run or an earlier one, nor if no unit is expected to take
longer than the others. Once it has begun to order, it continues. `longest` begins at once, by sizes alone if necessary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headway.core.lanes.estimate import ENOUGH
from headway.core.lanes.queueing.unit_lengths import NOTHING_KNOWN, Size, UnitLengths, unit_size
from headway.core.model import OrderName, Unit

#: The rest of a lane is ordered once it takes no longer than so many times its longest unit. 2 would be enough if the pace of a
#: lane were known exactly.
AHEAD: Final = 4.0
#: The order matters only if the longest unit takes at least so many times the mean.
DIFFERS: Final = 1.5


class UnitOrder:
    """The order of one lane, and what is known of its units that are not in memory."""

    __slots__ = (
        "_largest",
        "_look_at",
        "choosing",
        "due",
        "left",
        "lengths",
        "longest_first",
        "longest_s",
        "table",
    )

    def __init__(self, chosen: OrderName) -> None:
        #: None: the lane keeps the order of the input.
        self.lengths = None if chosen == "input" else UnitLengths()
        self.longest_first = chosen == "longest"
        #: Whether the first of the longest units are being fetched; nothing else starts meanwhile.
        self.choosing = False
        #: The units in memory are ordered by this.
        self.table = NOTHING_KNOWN
        #: Whether the units in memory must be ordered again. That is so whenever twice as many units have ended as before: each says
        #: much at first, and little later.
        self.due = False
        self._look_at = ENOUGH
        #: How many units the source still has, which of them may be the longest, and how long that one is expected to take.
        self.left = 0
        self._largest: Sequence[Unit] = ()
        self.longest_s = 0.0

    def learn(self, unit: Unit, took_s: float) -> None:
        """A unit took this long and succeeded."""
        lengths = self.lengths
        if lengths is not None and lengths.learn(unit.family, unit_size(unit), took_s) >= self._look_at:
            self._look_at = 2 * lengths.count
            self.due = True

    def recall(self, family: str, size: Size, took_s: float) -> None:
        """A unit of an earlier run took this long."""
        if self.lengths is not None:
            self.lengths.learn(family, size, took_s)
            self.due = True

    def renew(self) -> None:
        """Use what is known now."""
        self.due = False
        if self.lengths is not None:
            self.table = self.lengths.table()
            self._find_longest()

    def fetched(self, left: int, largest: Sequence[Unit]) -> None:
        """Units have arrived, and the source has `left` more; `largest` are those that may be the longest."""
        self.left, self.choosing = left, False
        if largest is not self._largest:
            self._largest = largest
            self._find_longest()

    def _find_longest(self) -> None:
        self.longest_s = max(map(self.table.of, self._largest), default=0.0)

    @property
    def undecided(self) -> bool:
        """Whether `auto` may still change to the longest first."""
        return not self.longest_first and self.lengths is not None and self.lengths.known

    def decide(self, rest_s: float | None) -> bool:
        """Change to the longest first if the rest of the lane takes little enough (None: unknown). Returns whether it does."""
        if rest_s is None or rest_s > AHEAD * self.longest_s or self.longest_s < DIFFERS * self.table.mean_s:
            return False
        self.longest_first = True
        return True
