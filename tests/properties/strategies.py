"""What Hypothesis makes runs from: lanes, units, settings, answers. Values are few and telling, not many and random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st

from headway.core.gates import Gates
from headway.core.lanes.job_share import Grant
from headway.core.lanes.learning.rate_finder import Pace
from headway.core.model import (
    DAY_S,
    MINUTE_S,
    Counting,
    Dimension,
    Estimate,
    Hint,
    Kind,
    LaneBudget,
    LaneLimits,
    LaneSpec,
    LimitReport,
    Outcome,
    RetryPolicy,
    Settings,
    Unit,
    Usage,
)

pick = st.sampled_from


def grants() -> st.SearchStrategy[Grant]:
    """All of a lane, or a part of it; a search of one's own, or another job's pace so far."""
    rates = st.tuples(*[pick([0.05, 1.0, 40.0])] * 4)
    pace = st.builds(
        Pace, rates, pick([0, 1, 2, 3]), depth_s=pick([1.0, 60.0]), evidence_s=pick([0.0, 5.0, 150.0])
    )
    return st.builds(
        Grant, pick([1.0, 0.75, 0.25, 0.02]), st.booleans(), st.none() | pace, places=pick([None, None, 1, 3])
    )


def limits(burst_s: Sequence[float | None] = (None, 0.0, 0.5, 5.0, 60.0)) -> st.SearchStrategy[LaneLimits]:
    """Nothing known, one limit, or several at once; of every dimension."""
    some = st.builds(
        LaneLimits,
        rpm=pick([None, 0, 6, 60, 600, 6000]),
        tpm=pick([None, None, 0, 1000, 6000, 60_000]),
        input_tpm=pick([None, None, 600, 6000]),
        output_tpm=pick([None, None, 600, 6000]),
        rpd=pick([None, None, 4, 50]),
        tpd=pick([None, None, 3000, 100_000]),
        max_concurrency=pick([None, None, 1, 2, 4]),
        min_gap_s=pick([0.0, 0.0, 0.5, 5.0, 90.0]),
        burst_s=pick(burst_s),
    )
    window = st.builds(LaneLimits, max_concurrency=pick([1, 2, 3, 8]))
    pace = st.builds(LaneLimits, rpm=pick([6, 60, 600]), burst_s=pick(burst_s))
    return st.one_of(st.just(LaneLimits(burst_s=burst_s[0])), window, pace, some)


retries = st.builds(
    RetryPolicy,
    max_attempts=pick([5, 1, 2, 3]),
    max_throttles=pick([50, 0, 1, 3]),
    base_s=pick([1.0, 0.0, 5.0]),
    cap_s=pick([60.0, 0.0, 3.0]),
    jitter=pick([0.2, 0.0, 1.0]),
    hold_margin_s=pick([2.0, 0.0]),
)
countings = st.builds(
    Counting, reserve_max_output=st.booleans(), settle_output=st.booleans(), cached_free=st.booleans()
)
estimates = st.builds(
    Estimate,
    input_tokens=pick([10.0, 0.0, 100.0, 900.0]),
    output_tokens=pick([0.0, 20.0, 500.0]),
    max_output_tokens=pick([0.0, 0.0, 100.0, 800.0]),
    cost_usd=pick([0.01, 0.0, 0.2, 1.0]),
)
usages = st.builds(
    Usage,
    input_tokens=pick([10.0, 0.0, 100.0, 2000.0]),
    output_tokens=pick([20.0, 0.0, 3000.0]),
    cached_input_tokens=pick([0.0, 0.0, 5.0, 100.0]),
    cost_usd=pick([0.01, 0.0, 0.3]),
)


#: A budget that several lanes may name; some of it was spent in an earlier run.
SHARED = LaneBudget("shared", 1.5, 0.25)


def lane_budgets(key: str, *, shared: bool) -> st.SearchStrategy[tuple[LaneBudget, ...]]:
    """Mostly none; one that the lane has to itself, one that others have too, or both."""
    own = LaneBudget(f"own {key}", 0.5)
    return pick([(), (), (), (own,), *([(SHARED,), (own, SHARED)] if shared else [])])


def specs(key: str, *, shared: bool = True) -> st.SearchStrategy[LaneSpec]:
    return st.builds(
        LaneSpec,
        key=st.just(key),
        limits=limits(),
        retry=retries,
        counting=countings,
        order=pick(("auto", "input", "longest")),
        lane_budgets=lane_budgets(key, shared=shared),
    )


@dataclass(frozen=True)
class Row:
    """A line of input before it is a unit: where it goes, what it is like, what it reads and writes."""

    lane: int
    estimate: Estimate
    priority: int
    expected_s: float
    conversation: str | None
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    serial: bool
    #: Whether its request is made from the answers of the units that it waits for.
    late: bool = False
    #: Units of one group run one at a time.
    exclusive: int = 0


def rows(*, serial: bool = False, gated: bool = True, grouped: bool = False) -> st.SearchStrategy[Row]:
    registers = pick([(), (), (), (), ("r",), ("r", "s")]) if gated else st.just(())
    return st.builds(
        Row,
        lane=st.integers(0, 3),
        estimate=estimates,
        priority=pick([0, 0, 0, 5, -1]),
        exclusive=pick([0, 0, 0, 0, 1, 1, 2]) if grouped else st.just(0),
        expected_s=pick([0.0, 1.0, 9.0]),
        conversation=pick([None, None, None, "c", "d", "e"]) if gated else st.none(),
        reads=registers,
        writes=registers,
        serial=pick([False, False, False, False, True]) if serial else st.just(False),
        late=st.booleans() if gated else st.just(False),
    )


def unit_of(row: Row, index: int, keys: Sequence[str], gates: Gates) -> Unit:
    """Number a row and resolve what it waits for, as ingest does."""
    after = gates.waits(index, conversation=row.conversation, reads=row.reads, writes=row.writes).indices
    return Unit(
        index=index,
        lane=keys[row.lane % len(keys)],
        estimate=row.estimate,
        priority=row.priority,
        expected_s=row.expected_s,
        after=after,
        leads=row.conversation is not None or bool(row.writes),
        late=bool(after) and row.late,
        exclusive=row.exclusive,
    )


@st.composite
def settings_of_run(draw: st.DrawFn, start: float) -> Settings:
    """Caps and deadlines; most runs have one or two of them."""
    deadline_s = draw(pick([None] * 6 + [100.0, 20_000.0]))
    return Settings(
        concurrency=draw(pick([0, 0, 1, 2, 5])),
        max_cost_usd=draw(pick([0.0, 0.0, 0.0, 1.0, 5.0])),
        deadline_at=None if deadline_s is None else start + deadline_s,
        max_hold_s=draw(pick([None, None, None, 30.0, 3600.0])),
        delay_s=draw(pick([0.0, 0.0, 0.0, 0.0, 0.0, 1.0])),
        max_identical_invalid=draw(pick([10, 2])),
        input_open=draw(st.booleans()),
    )


@dataclass(frozen=True)
class Tuning:
    """How much is read at once: small numbers reach in ten units what the real ones reach in ten thousand."""

    batch: int
    low: int
    most_blocked: int
    expiry_batch: int


tunings = st.builds(
    Tuning, batch=pick([128, 1, 3]), low=pick([32, 1, 2]), most_blocked=pick([10_000, 1]), expiry_batch=pick([10_000, 2])
)  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """How units are fetched: `prompt`, within the same instant, or when the machine says so. `early` reads the source
    when the fetch is issued, otherwise when it is answered: what is added meanwhile may be missed."""

    prompt: bool = True
    early: bool = True


readings = st.builds(Reading, prompt=pick([True, False]), early=pick([True, False]))


@dataclass(frozen=True)
class Scenario:
    """Everything that is settled before the first event."""

    start: float
    specs: tuple[LaneSpec, ...]
    rows: tuple[Row, ...]
    settings: Settings
    tuning: Tuning
    reading: Reading = Reading()


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    start = draw(pick([0.0, 1000.0, 1e6]))
    keys = ("a", "b", "c")[: draw(st.integers(1, 3))]
    lanes = tuple(draw(specs(key)) for key in keys)
    serial = draw(pick([False, False, True]))
    gated = draw(pick([False, False, True]))
    lines = draw(
        st.lists(st.tuples(rows(serial=serial, gated=gated), pick([2, 1, 4])), min_size=1, max_size=8)
    )
    copied = tuple(row for row, copies in lines for _ in range(copies))
    return Scenario(start, lanes, copied, draw(settings_of_run(start)), draw(tunings), draw(readings))


# -- answers --------------------------------------------------------------------------------------------

reports = st.builds(
    LimitReport,
    dimension=pick(tuple(Dimension)),
    limit=pick([60.0, 0.0, 1.0, 1000.0, 6000.0, 1e9, -5.0]),
    remaining=pick([None, 0.0, 1.0, 59.0, 5e6, -3.0]),
    reset_s=pick([None, 0.0, 0.5, 60.0, 1e6, -1.0]),
    period_s=pick([MINUTE_S, MINUTE_S, DAY_S, 1.0, 3600.0]),
    reset_precision_s=pick([0.0, 1.0]),
    remaining_precision=pick([1.0, 0.0, 500.0]),
)
waits_s = pick([None, 0.0, 0.5, 5.0, 60.0, 60.5, 3600.0, 1e6, -3.0])


def hints(*, reporting: bool) -> st.SearchStrategy[Hint | None]:
    told = st.lists(reports, min_size=1, max_size=2).map(tuple) if reporting else st.just(())
    full: st.SearchStrategy[Any] = st.builds(
        Hint,
        reports=told,
        retry_after_s=waits_s,
        precision_s=pick([0.0, 1.0]),
        dimension=pick([None, *Dimension]),
    )
    return full if reporting else st.one_of(st.none(), full)


def outcomes(*kinds: Kind | None, reporting: bool = False) -> st.SearchStrategy[Outcome]:
    return st.builds(
        Outcome,
        kind=pick(kinds),
        usage=st.one_of(st.none(), usages),
        hint=hints(reporting=reporting),
        message=pick(["", "no"]),
    )


Jump = Literal["none", "tiny", "second", "wake", "near", "beyond", "hour"]
jumps: st.SearchStrategy[Jump] = pick(["wake", "none", "tiny", "second", "near", "beyond", "hour"])


def landing(jump: Jump, now: float, wake_at: float | None) -> float:
    """Where a jump of the clock ends."""
    target = now if wake_at is None else max(now, wake_at)
    return {
        "none": now,
        "tiny": now + 0.001,
        "second": now + 1.0,
        "wake": target,
        "near": (now + target) / 2.0,
        "beyond": target + 30.0,
        "hour": target + 3600.0,
    }[jump]
