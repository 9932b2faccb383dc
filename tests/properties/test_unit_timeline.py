"""Whatever the records say: the pieces of a unit's life touch, begin and end with it, and none is empty."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headway.reports.unit_timeline import Obstacle, TimelinePiece, UnitLife, timeline

INSTANTS = st.floats(0.0, 100.0, allow_nan=False)
SPANS = st.tuples(INSTANTS, INSTANTS)
STATES = st.sampled_from(["held", "waiting", "backing_off"])
OBSTACLES = st.builds(
    lambda state, span, why: Obstacle(state, min(span), max(span), why),
    STATES,
    SPANS,
    st.sampled_from(["", "a", "b"]),
)
LIVES = st.builds(
    lambda span, flights, obstacles, answered: UnitLife(
        span[0], span[1], [(n, *flight) for n, flight in enumerate(sorted(flights), 1)], obstacles, answered
    ),
    SPANS,
    st.lists(SPANS, max_size=6),
    st.lists(OBSTACLES, max_size=8),
    st.none() | INSTANTS,
)


def strongest(life: UnitLife, at: float) -> str:
    """What kept the unit at this instant, the first obstacle first."""
    return next((one.state for one in life.obstacles if one.from_utc <= at <= one.until_utc), "queued")


@given(LIVES)
def test_every_second_of_a_life_has_one_name(life: UnitLife) -> None:
    pieces = timeline(life)
    end = max(life.created_utc, life.end_utc)
    assert sum(piece.until_utc - piece.from_utc for piece in pieces) == end - life.created_utc or pieces
    if end == life.created_utc:
        assert pieces == []
        return
    assert (pieces[0].from_utc, pieces[-1].until_utc) == (life.created_utc, end)
    assert all(earlier.until_utc == later.from_utc for earlier, later in pairwise(pieces))
    assert all(piece.from_utc < piece.until_utc for piece in pieces)


@given(LIVES)
def test_what_kept_a_unit_is_the_strongest_reason_at_that_time(life: UnitLife) -> None:
    for piece in timeline(life):
        if piece.state not in ("in_flight", "writing"):
            middle = (piece.from_utc + piece.until_utc) / 2.0
            assert piece.state == strongest(life, middle)


def test_a_life_of_two_attempts() -> None:
    held, backoff = (
        Obstacle("held", 0.0, 2.0, "the job had not begun"),
        Obstacle("backing_off", 5.0, 6.0, "rate: slow down"),
    )
    life = UnitLife(0.0, 9.0, [(1, 3.0, 5.0), (2, 7.0, 8.5)], [held, backoff], answered_utc=8.5)
    assert timeline(life) == [
        TimelinePiece("held", 0.0, 2.0, 0, "the job had not begun"),
        TimelinePiece("queued", 2.0, 3.0, 0, ""),
        TimelinePiece("in_flight", 3.0, 5.0, 1, ""),
        TimelinePiece("backing_off", 5.0, 6.0, 1, "rate: slow down"),
        TimelinePiece("queued", 6.0, 7.0, 1, ""),
        TimelinePiece("in_flight", 7.0, 8.5, 2, ""),
        TimelinePiece("writing", 8.5, 9.0, 2, ""),
    ]
