"""How near to its limit each lane was in the last minute: kept by displays from the views that they are shown.

A column covers a few seconds. Its height is the mean share of the binding limit that the lane used; a lane without a known limit is
measured against its own fastest column.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec
from rich.console import Console

from headway.core.lanes.learning.rate_finder import LEARNED
from headway.core.snapshot import LaneView
from headway.engine.observer import View

#: Seconds that a column covers, and how many columns are kept: one minute.
COLUMN_S: Final = 3.0
MOST_COLUMNS: Final = 20
#: Eight heights, from almost nothing to the whole limit; and the same for terminals that have no such characters.
BLOCKS: Final = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS: Final = "_.:-=+*#"


class _UseColumn(msgspec.Struct):
    """What was seen of a lane in a few seconds."""

    number: int
    seen: int = 0
    share: float = 0.0
    with_share: int = 0
    rate: float = 0.0
    refused: int = 0


class UseMark(msgspec.Struct, frozen=True):
    """One column as it is drawn: the height from 0 (nothing was seen) to 8, and whether requests were refused then."""

    height: int
    refused: bool = False


class LimitUseHistory:
    """The last columns of every lane."""

    def __init__(self) -> None:
        self._lanes: dict[str, deque[_UseColumn]] = {}
        self._refused: dict[str, int] = {}
        self._last = 0

    def note(self, view: View) -> None:
        """Add what a view shows. The columns of lanes that are gone are forgotten."""
        self._last = number = int(view.updated_utc // COLUMN_S)
        names = {lane.key for lane in view.snapshot.lanes}
        for gone in self._lanes.keys() - names:
            del self._lanes[gone]
        for lane in view.snapshot.lanes:
            columns = self._lanes.setdefault(lane.key, deque(maxlen=MOST_COLUMNS))
            if not columns or columns[-1].number != number:
                columns.append(_UseColumn(number))
            self._add(columns[-1], lane)

    def _add(self, column: _UseColumn, lane: LaneView) -> None:
        column.seen += 1
        column.rate += lane.rate_per_s
        if is_measured(lane):
            column.share += lane.used_of_binding
            column.with_share += 1
        before = self._refused.get(lane.key, lane.refused)
        column.refused += max(0, lane.refused - before)
        self._refused[lane.key] = lane.refused

    def marks(self, lane: str, most: int) -> list[UseMark]:
        """The last `most` columns of a lane, the latest last."""
        columns = {one.number: one for one in self._lanes.get(lane, ())}
        fastest = max((one.rate / one.seen for one in columns.values()), default=0.0)
        numbers = range(self._last - most + 1, self._last + 1)
        return [_mark(columns.get(number), fastest) for number in numbers]


def _mark(column: _UseColumn | None, fastest: float) -> UseMark:
    if column is None:
        return UseMark(0)
    if column.with_share:
        share = column.share / column.with_share
    else:
        share = column.rate / column.seen / fastest if fastest else 0.0
    height = max(1, min(len(BLOCKS), round(share * len(BLOCKS)))) if share > 0.0 else 0
    return UseMark(height, column.refused > 0)


def is_measured(lane: LaneView) -> bool:
    """Whether it has a limit to show. A pace is not learned before the provider has answered."""
    return bool(lane.binding) and (lane.binding != LEARNED or bool(lane.succeeded or lane.refused))


def drawn(marks: Sequence[UseMark], *, blocks: bool) -> str:
    """The columns as text of as many characters. `blocks`: the terminal has block characters."""
    heights = " " + (BLOCKS if blocks else ASCII_BLOCKS)
    return "".join(heights[mark.height] for mark in marks)


def has_blocks(console: Console) -> bool:
    """Whether the terminal has characters beyond ASCII."""
    return console.encoding.lower().startswith("utf")
