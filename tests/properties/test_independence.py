"""A lane's trouble stays in its lane (promises 3 and 4).

Each lane of a run starts the same units in the same order at the same instants, and decides the same about them, as
if it ran alone with the same answers, whatever happens in the others; a global cap that does not bind changes
nothing; and under a cap that does bind a held lane takes none of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from headway.core import commands, events
from headway.core.commands import Command
from headway.core.gates import Gates
from headway.core.model import SUCCESS, Kind, LaneSpec, Settings, Unit

from . import strategies as make
from .budgets import thorough
from .lanebook import require
from .loop import Answer, Loop, Said, Script, loop_of, story_of

HORIZON_S = 3000.0
#: The core calls instants closer than 1e-9 s the same, so another lane's alarm may ring this one's a hair early.
SAME_S = 1e-6
#: More than there are units.
LOOSE_CAP = 1000

answers = st.builds(
    Answer,
    latency_s=make.pick([1.0, 0.25, 3.0, 20.0, 150.0]),
    outcome=st.one_of(
        st.just(SUCCESS),
        make.outcomes(None),
        make.outcomes(Kind.RATE),
        make.outcomes(None, Kind.RATE, Kind.CONCURRENCY, Kind.HOLD, Kind.OVERLOAD, Kind.TRANSIENT),
        make.outcomes(None, *Kind, reporting=True),
    ),
    admitted_s=make.pick([None, 0.125, 3.0]),
)
scripts = st.lists(answers, min_size=1, max_size=10).map(lambda drawn: Script(tuple(drawn)))


def said(keys: Sequence[str]) -> st.SearchStrategy[list[Said]]:
    """What outsiders ask of single lanes."""
    key = make.pick(keys)
    asked = st.one_of(
        st.builds(events.ReopenLane, lane=key),
        st.builds(events.SetLimits, lane=key, limits=make.limits()),
    )
    return st.lists(st.builds(Said, at=make.pick([0.0, 3.0, 60.5, 700.0]), event=asked), max_size=4)


@st.composite
def lanes_and_units(draw: st.DrawFn) -> tuple[list[LaneSpec], list[Unit]]:
    specs = [draw(make.specs(key, shared=False)) for key in "abc"[: draw(make.pick([2, 3]))]]
    drawn = draw(st.lists(st.tuples(make.rows(gated=False), make.pick([6, 2, 15])), min_size=2, max_size=8))
    rows = [row for row, copies in drawn for _ in range(copies)]
    keys = [spec.key for spec in specs]
    return specs, [make.unit_of(row, index, keys, Gates()) for index, row in enumerate(rows)]


def same(one: Sequence[tuple[float, Command]], other: Sequence[tuple[float, Command]]) -> bool:
    """Equal but for a hair's breadth of time."""
    return len(one) == len(other) and all(map(_alike, one, other))


def _alike(one: tuple[float, Command], other: tuple[float, Command]) -> bool:
    if abs(one[0] - other[0]) > SAME_S:
        return False
    match one[1], other[1]:
        case commands.Start() as left, commands.Start() as right:
            return left == right
        case commands.Requeue() as left, commands.Requeue() as right:
            return left.unit == right.unit and abs(left.not_before - right.not_before) <= SAME_S
        case commands.Finish() as left, commands.Finish() as right:
            return (left.unit, left.status, left.code) == (right.unit, right.status, right.code)
        case commands.Notice() as left, commands.Notice() as right:
            return left.what == right.what
        case left, right:
            return type(left) is type(right)


def judge(loop: Loop, alone: Loop, lane: str) -> None:
    """Raise unless this lane did the same in both runs."""
    together, apart = story_of(loop, lane), story_of(alone, lane)
    differ = next((pair for pair in zip(together, apart, strict=False) if not _alike(*pair)), None)
    text = f"lane {lane}: {len(together)} decisions, alone {len(apart)}; first difference {differ}"
    require(same(together, apart), "independence", text)


def lanes_are_independent(
    run: tuple[list[LaneSpec], list[Unit]], script: Script, asked: list[Said], cap: int
) -> None:
    specs, units = run
    settings = Settings(concurrency=cap, max_hold_s=1000.0)
    loop = loop_of(specs, units, script, settings)
    loop.say(asked)
    loop.run(HORIZON_S)
    for spec in specs:
        alone = loop_of(
            [spec], [unit for unit in units if unit.lane == spec.key], script, Settings(max_hold_s=1000.0)
        )
        alone.say([one for one in asked if getattr(one.event, "lane", "") == spec.key])
        judge(loop, alone.run(HORIZON_S), spec.key)


independence = given(
    run=lanes_and_units(), script=scripts, asked=said(["a", "b"]), cap=make.pick([0, LOOSE_CAP])
)
test_lanes_are_independent = thorough(150)(independence(lanes_are_independent))


@thorough(60)
@given(run=lanes_and_units(), script=scripts, cap=make.pick([1, 2, 4]))
def test_a_held_lane_takes_nothing_of_a_binding_cap(
    run: tuple[list[LaneSpec], list[Unit]], script: Script, cap: int
) -> None:
    """All lanes but one are held for the whole run; that one does what it would do with the cap for itself."""
    specs, units = run
    settings = Settings(concurrency=cap)
    loop = loop_of(specs, units, script, settings)
    for spec in specs[1:]:
        loop.scheduler.lanes[spec.key].hold.extend(HORIZON_S * 2.0, "from an earlier run")
    alone = loop_of(specs[:1], [unit for unit in units if unit.lane == specs[0].key], script, settings)
    judge(loop.run(HORIZON_S), alone.run(HORIZON_S), specs[0].key)
