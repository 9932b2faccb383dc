"""In which order the units of a lane start: that of the input, or the longest first.

The order matters at the end of a run only. A long unit that starts last keeps everything waiting while the lane is otherwise
done; one that starts earlier takes its time beside the others. So `auto` keeps the order of the input, in which the output file
grows and the first answers are those of the first rows, until what is left of the lane takes no longer than `AHEAD` times its
longest unit. From then on the longest unit of all that are left starts next, wherever in the input it is. A short job is ordered
from its first unit, a long one in its last minutes, when durations are known well and few units are left to choose among.

`auto` does nothing before enough units have ended, in this run or in an earlier one, nor where no unit is expected to take
longer than the others. Once it has begun to order, it goes on. `longest` begins at once, by sizes alone if need be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headway.core.lanes.estimate import ENOUGH
from headway.core.lanes.queueing.unit_lengths import NOTHING_KNOWN, Size, UnitLengths, unit_size
from headway.core.model import OrderName, Unit

#: The rest of a lane is ordered once it takes no longer than so many times its longest unit. Twice would do if the pace of a lane
#: were exactly known.
AHEAD: Final = 4.0
#: The longest unit takes at least so many times the mean, or the order does not matter.
DIFFERS: Final = 1.5


class UnitOrder:
    """The order of one lane: the one in force, and what is known of the units that are not in memory."""

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
        #: None: the lane keeps the order of the input, whatever units take.
        self.lengths = None if chosen == "input" else UnitLengths()
        self.longest_first = chosen == "longest"
        #: Whether the first of the longest units are being fetched; nothing else starts meanwhile.
        self.choosing = False
        #: The units in memory are ordered by this.
        self.table = NOTHING_KNOWN
        #: Whether what is known has changed so much that the units in memory are to be put in order anew. That is the case whenever
        #: twice as many units have ended: each says much at first, and little later.
        self.due = False
        self._look_at = ENOUGH
        #: How many units the source has, and which of them may be the longest; what that one is expected to take.
        self.left = 0
        self._largest: Sequence[Unit] = ()
        self.longest_s = 0.0

    def learn(self, unit: Unit, took_s: float) -> None:
        """A unit has succeeded after so long."""
        lengths = self.lengths
        if lengths is not None:
            lengths.learn(unit.family, unit_size(unit), took_s)
            if lengths.count >= self._look_at:
                self._look_at = 2 * lengths.count
                self.due = True

    def recall(self, family: str, size: Size, took_s: float) -> None:
        """A unit of an earlier run took so long."""
        if self.lengths is not None:
            self.lengths.learn(family, size, took_s)
            self.due = True

    def renew(self) -> None:
        """Go by what is known now."""
        self.due = False
        if self.lengths is not None:
            self.table = self.lengths.table()
            self._find_longest()

    def fetched(self, left: int, largest: Sequence[Unit]) -> None:
        """Units came, and the source has so many more. These may be the longest of them."""
        self.left, self.choosing = left, False
        if largest is not self._largest:
            self._largest = largest
            self._find_longest()

    def _find_longest(self) -> None:
        self.longest_s = max(map(self.table.of, self._largest), default=0.0)

    @property
    def undecided(self) -> bool:
        """Whether the order of the input may still give way to the other."""
        return not self.longest_first and self.lengths is not None and self.lengths.known

    def decide(self, rest_s: float | None) -> bool:
        """Begin with the longest if that is due, as what is left takes so long (None: not known); returns whether it is so."""
        if rest_s is None or rest_s > AHEAD * self.longest_s or self.longest_s < DIFFERS * self.table.mean_s:
            return False
        self.longest_first = True
        return True
