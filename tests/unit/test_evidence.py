"""A provider that reports limits which it does not keep: what it accepted counts for more than what it says."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.drive import Run, entry_of, lane_spec, ok, one_lane
from tests.unit.test_lane import AS_IT_COMES, in_force, says, sent

from headway.core.events import RequestAccepted
from headway.core.lanes.lane import LaneState
from headway.core.lanes.lane_memory import LaneRecord, export_lane, import_lane
from headway.core.lanes.learning.evidence import FAR_BELOW
from headway.core.lanes.queueing.queue import NEVER, Entry
from headway.core.model import (
    DAY_S,
    Dimension,
    Estimate,
    Hint,
    Kind,
    LaneLimits,
    LimitReport,
    Outcome,
    Unit,
    Usage,
)

THOUSAND = Estimate(1000.0, 100.0, 200.0)
LARGER = Estimate(5000.0, 500.0, 1000.0)


def unit(lane: LaneState, estimate: Estimate = THOUSAND) -> Entry:
    return entry_of(lane, Unit(99, "a", estimate))


def accepted(
    lane: LaneState, hint: Hint | None = None, estimate: Estimate = THOUSAND, now: float = 0.0
) -> None:
    lane.release(sent(lane, now, estimate), Outcome(hint=hint), now + 0.1)


def refused(lane: LaneState, hint: Hint, now: float = 1.0) -> None:
    outcome = Outcome(Kind.RATE, hint=hint)
    entry = sent(lane, now, THOUSAND)
    lane.release(entry, outcome, now + 0.1)
    lane.throttled(entry, outcome, now + 0.1)


# -- too large --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [Dimension.TOKENS, Dimension.INPUT])
def test_a_limit_below_what_was_just_accepted_makes_no_unit_too_large(dimension: Dimension) -> None:
    lane = one_lane(LaneLimits(rpm=0))
    accepted(lane, says(limit=500.0, dimension=dimension))
    assert in_force(lane) == [(f"{dimension.replace('_', ' ')} per minute", 500.0, True)]
    assert lane.limits.too_large(unit(lane)) == ""
    assert lane.limits.too_large(unit(lane, LARGER)) == ""


def test_a_limit_that_comes_with_the_head_of_a_stream_is_judged_by_that_request() -> None:
    lane = one_lane(LaneLimits(rpm=0))
    lane.admitted(sent(lane, 0.0, THOUSAND), says(limit=500.0, dimension=Dimension.TOKENS), 0.1)
    assert lane.limits.too_large(unit(lane)) == ""


def test_an_earlier_request_that_was_accepted_counts_too() -> None:
    lane = one_lane(LaneLimits(rpm=0))
    accepted(lane)
    refused(lane, says(limit=500.0, dimension=Dimension.TOKENS))
    assert lane.limits.too_large(unit(lane)) == ""


def test_a_limit_that_nothing_contradicts_is_believed() -> None:
    lane = one_lane(LaneLimits(rpm=0))
    accepted(lane, says(limit=2000.0, dimension=Dimension.TOKENS))
    assert "2,000 tokens per minute" in lane.limits.too_large(unit(lane, LARGER))


def test_a_refused_request_proves_nothing() -> None:
    lane = one_lane(LaneLimits(rpm=0))
    refused(lane, says(limit=500.0, dimension=Dimension.TOKENS))
    assert "500 tokens per minute" in lane.limits.too_large(unit(lane))


def test_a_configured_limit_counts_even_if_more_was_accepted() -> None:
    lane = one_lane(LaneLimits(tpm=5000.0))
    accepted(lane, estimate=THOUSAND)
    lane.configure(LaneLimits(tpm=600.0), 1.0)
    assert "600 tokens per minute" in lane.limits.too_large(unit(lane))


def test_accepted_sizes_are_known_in_the_next_run() -> None:
    lane = one_lane(LaneLimits(rpm=0))
    accepted(lane, says(limit=500.0, dimension=Dimension.TOKENS))
    record = msgspec.json.decode(msgspec.json.encode(export_lane(lane, 1.0, 1e9)), type=LaneRecord)
    new = one_lane(LaneLimits(rpm=0))
    import_lane(new, record, 0.0, 1e9 + 60.0)
    assert in_force(new) == in_force(lane)
    assert new.limits.too_large(unit(new)) == ""


def test_a_record_of_an_earlier_version_is_read() -> None:
    lane = one_lane(LaneLimits(rpm=0))
    accepted(lane, says(limit=5000.0, dimension=Dimension.TOKENS))
    stored = msgspec.to_builtins(export_lane(lane, 1.0, 1e9))
    del stored["largest"]
    new = one_lane(LaneLimits(rpm=0))
    import_lane(new, msgspec.convert(stored, LaneRecord), 0.0, 1e9)
    assert "5,000 tokens" in new.limits.too_large(unit(new, LARGER))


def test_units_of_a_run_go_on_after_a_limit_that_cannot_be() -> None:
    work = [Unit(index, "a", THOUSAND) for index in range(3)]
    run = Run(work, lane_spec(limits=LaneLimits(rpm=0, max_concurrency=1)))
    lie = Hint(tuple(LimitReport(dimension, 1.0, 1.0) for dimension in (Dimension.TOKENS, Dimension.INPUT)))
    assert run.at(0.0).started == [0]
    assert run.at(0.1, RequestAccepted(0, lie)).finishes == []
    assert run.at(1.0, ok(0, hint=lie)).started == [1]
    assert run.at(2.0, ok(1, hint=lie)).started == [2]
    assert run.at(3.0, ok(2, hint=lie)).done == "complete"


# -- far below: no limit at all ---------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", Dimension)
@pytest.mark.parametrize("period_s", [60.0, DAY_S])
def test_a_limit_far_below_what_was_accepted_paces_nothing(dimension: Dimension, period_s: float) -> None:
    """A request of a thousand tokens, and then a limit of one a minute: the next would wait for most of a day."""
    lane = one_lane(LaneLimits(rpm=0))
    limit = 0.01 if dimension is Dimension.REQUESTS else 1.0
    accepted(lane, Hint((LimitReport(dimension, limit, 0.0, 60.0, period_s),)))
    assert in_force(lane) == []
    assert lane.when(unit(lane), NEVER)[0] <= 0.1


def test_how_far_is_far() -> None:
    for limit, believed in ((1000.0 / FAR_BELOW - 1.0, False), (1000.0 / FAR_BELOW, True)):
        lane = one_lane(LaneLimits(rpm=0))
        accepted(lane, says(limit=limit, dimension=Dimension.TOKENS))
        assert bool(lane.limits.meters) is believed


def test_a_limit_that_falls_far_below_what_was_accepted_stays_as_it_was() -> None:
    lane = one_lane(LaneLimits(rpm=0))
    accepted(lane, says(limit=60_000.0, dimension=Dimension.TOKENS))
    for report in (accepted, refused):
        report(lane, says(0.0, limit=1.0, dimension=Dimension.TOKENS), now=5.0)
        assert in_force(lane) == [("tokens per minute", 60_000.0, True)]


def test_what_is_only_set_aside_for_an_answer_does_not_make_a_limit_far() -> None:
    """Not every provider counts `max_tokens`: a limit of 6,000 beside 64,000 of them is a usual one."""
    lane = one_lane(LaneLimits(rpm=0))
    accepted(lane, says(limit=6000.0, dimension=Dimension.TOKENS), Estimate(100.0, 400.0, 64_000.0))
    assert in_force(lane) == [("tokens per minute", 6000.0, True)]
    assert lane.limits.too_large(unit(lane, Estimate(100.0, 400.0, 64_000.0))) == "", (
        "such a one was accepted"
    )


def test_a_lane_without_limits_goes_on_searching_after_a_limit_that_cannot_be() -> None:
    lane = one_lane(LaneLimits())
    accepted(lane, says(limit=1.0, dimension=Dimension.TOKENS))
    assert lane.limits.finder is not None


def test_input_that_may_have_been_cached_does_not_make_a_limit_far() -> None:
    """Where cached input is free, a request of many minutes' worth is a usual one."""
    for usage, believed in (
        (None, True),
        (Usage(1000.0, 10.0, cached_input_tokens=990.0), True),
        (Usage(1000.0, 10.0), False),
    ):
        lane = one_lane(LaneLimits(rpm=0), counting=AS_IT_COMES)
        hint = says(limit=50.0, dimension=Dimension.INPUT)
        lane.release(sent(lane, 0.0, THOUSAND), Outcome(usage=usage, hint=hint), 0.1)
        assert bool(lane.limits.meters) is believed
        assert lane.limits.too_large(unit(lane)) == "", "such a one was accepted"
        early = one_lane(LaneLimits(rpm=0), counting=AS_IT_COMES)
        early.admitted(sent(early, 0.0, THOUSAND), hint, 0.1, usage)
        assert bool(early.limits.meters) is believed
