"""The states of a unit and every move between them, in one table.

A move that is not in `MOVES` is an error: that is the whole check. `docs/reference/states.md` is drawn
from this table by `python tools/draw_states.py`, and a test keeps it current.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Status(StrEnum):
    """Where a unit stands."""

    PENDING = "pending"
    ASSIGNED = "assigned"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CACHED = "cached"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    __hash__ = str.__hash__


class Move(StrEnum):
    """What can happen to a unit."""

    ASSIGN = "assign"
    RUN = "run"
    SUCCEED = "succeed"
    RETRY = "retry"
    RELEASE = "release"
    FAIL = "fail"
    TIME_OUT = "time_out"
    HIT_CACHE = "hit_cache"
    SKIP = "skip"
    CANCEL = "cancel"
    RESUME = "resume"

    __hash__ = str.__hash__


_S, _M = Status, Move

MOVES: Final[dict[tuple[Status, Move], Status]] = {
    # A permit was taken and the intent to send recorded; then the attempt is on its way.
    (_S.PENDING, _M.ASSIGN): _S.ASSIGNED,
    (_S.ASSIGNED, _M.RUN): _S.RUNNING,
    # Ends of an attempt.
    (_S.RUNNING, _M.SUCCEED): _S.SUCCEEDED,
    (_S.RUNNING, _M.RETRY): _S.PENDING,
    (_S.RUNNING, _M.FAIL): _S.FAILED,
    (_S.RUNNING, _M.TIME_OUT): _S.TIMED_OUT,
    (_S.RUNNING, _M.CANCEL): _S.CANCELLED,
    # The lane stopped, or the run did, before the attempt was on its way or while it was.
    (_S.ASSIGNED, _M.RELEASE): _S.PENDING,
    (_S.RUNNING, _M.RELEASE): _S.PENDING,
    (_S.ASSIGNED, _M.CANCEL): _S.CANCELLED,
    # Ends without an attempt.
    (_S.PENDING, _M.HIT_CACHE): _S.CACHED,
    (_S.PENDING, _M.SKIP): _S.SKIPPED,
    (_S.PENDING, _M.FAIL): _S.FAILED,
    (_S.PENDING, _M.TIME_OUT): _S.TIMED_OUT,
    (_S.PENDING, _M.CANCEL): _S.CANCELLED,
    # A later run: what succeeded stays, everything else is runnable again.
    (_S.PENDING, _M.RESUME): _S.PENDING,
    (_S.ASSIGNED, _M.RESUME): _S.PENDING,
    (_S.RUNNING, _M.RESUME): _S.PENDING,
    (_S.FAILED, _M.RESUME): _S.PENDING,
    (_S.TIMED_OUT, _M.RESUME): _S.PENDING,
    (_S.SKIPPED, _M.RESUME): _S.PENDING,
    (_S.CANCELLED, _M.RESUME): _S.PENDING,
    (_S.SUCCEEDED, _M.RESUME): _S.SUCCEEDED,
    (_S.CACHED, _M.RESUME): _S.CACHED,
}

#: Nothing more happens to a unit here until a later run resumes it.
ENDED: Final = frozenset(
    {_S.SUCCEEDED, _S.FAILED, _S.TIMED_OUT, _S.CACHED, _S.SKIPPED, _S.CANCELLED},
)

#: Ends that another unit may build on.
GOOD: Final = frozenset({_S.SUCCEEDED, _S.CACHED})


def after(status: Status, move: Move) -> Status:
    """The status that `move` leads to; an impossible move is a bug and says so."""
    try:
        return MOVES[status, move]
    except KeyError:
        raise AssertionError(f"a {status} unit cannot {move}") from None
