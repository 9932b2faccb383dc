"""Which lanes have a row of their own: those in trouble first, then the busiest, and what the others have in common.

The order depends only on what moves slowly (whether a lane is in trouble, how much it has started), so that rows do not change
their places from one picture to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from headway.core.reasons import WaitCode
from headway.core.snapshot import LaneView

#: Waits that somebody may want to do something about.
_TROUBLE: Final = frozenset({WaitCode.HOLD, WaitCode.BREAKER, WaitCode.PROBE, WaitCode.BUDGET})
STOPPED, HELD, AT_WORK, DONE = range(4)


def is_busy(lane: LaneView) -> bool:
    """Whether it has units to do."""
    return bool(lane.in_flight or lane.remaining)


def rank(lane: LaneView) -> int:
    """`STOPPED`, `HELD` (and other trouble), `AT_WORK` or `DONE`."""
    if not is_busy(lane):
        return DONE
    if lane.wait is None:
        return AT_WORK
    if lane.wait.code is WaitCode.STOPPED:
        return STOPPED
    return HELD if lane.wait.code in _TROUBLE else AT_WORK


def chosen_lanes(
    lanes: Sequence[LaneView], names: Mapping[str, str], room: int
) -> tuple[list[LaneView], list[LaneView]]:
    """The lanes that have a row, at most `room` with the row of the others, and the others. All rows are in the order of trouble, work
    and name.
    """
    if len(lanes) <= room:
        shown = set(range(len(lanes)))
    else:
        first = sorted(
            range(len(lanes)), key=lambda n: (rank(lanes[n]), -lanes[n].started, names[lanes[n].key])
        )
        shown = set(first[: max(0, room - 1)])

    def place(lane: LaneView) -> tuple[int, str]:
        return rank(lane), names[lane.key]

    own = sorted((lanes[n] for n in shown), key=place)
    return own, [lane for n, lane in enumerate(lanes) if n not in shown]


def rest_text(lanes: Sequence[LaneView]) -> str:
    """What lanes without a row do: "3 at work, 1 held, 2 done"."""
    counts = [0, 0, 0, 0]
    for lane in lanes:
        counts[rank(lane)] += 1
    words = ("stopped", "held", "at work", "done")
    return ", ".join(f"{count:,} {word}" for count, word in zip(counts, words, strict=True) if count)
