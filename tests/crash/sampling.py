"""How much of the crash suite a test run has: every point in `make crash`, a sample in `make test`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

#: `make crash` sets it.
EVERY_POINT: Final = "HEADWAY_CRASH_KILLS" in os.environ
SIDES: Final = ("before", "after")
ALL_SIDES: Final = ("before", "between", "after")

Point = TypeVar("Point")


def share(points: Sequence[Point], side: str, sides: tuple[str, ...] = SIDES) -> Sequence[Point]:
    """The points of one side: all of them; or a share, so that both sides together have each second point once."""
    return points if EVERY_POINT else points[2 * sides.index(side) :: 2 * len(sides)] or points[:1]


def some(points: Sequence[Point], first: int = 0) -> Sequence[Point]:
    """All points, or every second one from the first or second on."""
    return points if EVERY_POINT else points[first::2]
