"""A cap in flight that jobs find together: who searches, who has which places, and what is learned from the others."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.drive import Run, entry_of, lane_spec, one_lane, units

from headway.core.invariants import check
from headway.core.lanes.in_flight.shared_cap import SETTLE_S
from headway.core.lanes.in_flight.window import OPEN
from headway.core.lanes.job_share import SEARCH_S, WHOLE, Claim, Grant, claim_of, grant_of
from headway.core.lanes.lane import LaneState
from headway.core.lanes.lane_memory import export_lane
from headway.core.lanes.learning.rate_finder import Pace
from headway.core.model import Kind, LaneLimits, Outcome

UNKNOWN = LaneLimits()
PACE = Pace((5.0, 0.0, 0.0, 0.0), 0, 1.0, 10.0)


def claim(job: int = 1, weight: float = 1.0, **more: object) -> Claim:
    return msgspec.structs.replace(Claim(job, weight, hungry=True, use=0.0), **more)


def searching(job: int, weight: float = 1.0, seconds: float = 0.0, **more: object) -> Claim:
    return claim(job, weight, searching_s=seconds, **more)


# -- who searches --------------------------------------------------------------------------------------------------------


def test_others_wait_for_the_one_that_searches_and_it_has_the_whole_meanwhile() -> None:
    assert grant_of(searching(1), [searching(2, 3.0)]).places == 0
    first = grant_of(searching(2, 3.0), [searching(1)])
    assert (first.follows, first.part, first.places) == (False, WHOLE, None)


def test_but_not_for_ever() -> None:
    assert grant_of(searching(1), [searching(2, 3.0, SEARCH_S)]).places is None


def test_a_search_that_has_begun_goes_on_and_knowledge_leads() -> None:
    assert grant_of(searching(1, 9.0), [searching(2, 1.0, 5.0)]).follows
    assert grant_of(searching(1, 9.0, 5.0), [claim(2, pace=PACE)]).follows
    assert grant_of(searching(1, 9.0, 5.0), [claim(2, cap=32)]).follows


def test_a_found_cap_is_divided_by_weight() -> None:
    leader, other = claim(1, 3.0, cap=32, pace=PACE), claim(2, 1.0, pace=PACE)
    assert grant_of(leader, [other]).places == 24
    assert grant_of(other, [leader]).places == 8
    assert grant_of(other, [msgspec.structs.replace(leader, taken=30)]).places == 2
    assert grant_of(other, [leader], most=16).places == 4, "a configured number may be lower"


def test_a_lane_that_knows_nothing_claims_that_it_searches() -> None:
    run = Run(units(3), lane_spec(limits=UNKNOWN))
    run.at(0.0)
    made = claim_of(run.scheduler, run.scheduler.lanes["a"], 1, 1.0, 2.0)
    assert (made.searching_s, made.pace, made.cap) == (2.0, None, None)
    run.scheduler.lanes["a"].share(Grant(0.5, follows=True, places=0), 2.0)
    assert claim_of(run.scheduler, run.scheduler.lanes["a"], 1, 1.0, 3.0).searching_s is None
    check(run.scheduler)


# -- what a lane does with it -----------------------------------------------------------------------------------------------


def found(cap: int) -> LaneState:
    lane = one_lane(UNKNOWN)
    lane.window.resume(cap)
    return lane


def test_the_leading_job_keeps_to_its_places_and_knows_the_whole() -> None:
    lane = found(32)
    lane.share(Grant(0.75, places=24, cap=32), 0.0)
    assert (lane.window.size, lane.window.ceiling, lane.cap.found(lane.window)) == (24, 24, 32)
    lane.window.ceiling = lane.window.size = 25  # It has tested one more.
    assert lane.cap.found(lane.window) == 33
    lane.share(Grant(0.75, places=24, cap=33), 1.0)
    assert (lane.window.ceiling, lane.cap.found(lane.window)) == (24, 33)
    assert export_lane(lane, 1.0, 1.0).window == 33
    lane.share(Grant(), 2.0)
    assert (lane.window.size, lane.window.ceiling) == (33, 33)


def test_a_job_that_follows_has_its_places_and_leads_on_with_the_cap() -> None:
    lane = one_lane(UNKNOWN)
    lane.share(Grant(0.25, follows=True, places=8, cap=32), 0.0)
    assert (lane.window.size, lane.window.configured, lane.cap.found(lane.window)) == (8, 8, 32)
    assert export_lane(lane, 0.0, 0.0).window == 32
    lane.share(Grant(0.5, places=16, cap=32), 1.0)
    assert (lane.window.size, lane.window.ceiling, lane.window.configured) == (16, 16, OPEN)
    lane.share(Grant(), 2.0)
    assert lane.window.size == 32


@pytest.mark.parametrize("kind", [Kind.RATE, Kind.CONCURRENCY])
def test_a_job_that_follows_counts_its_refusals_once_and_cuts_nothing(kind: Kind) -> None:
    lane = one_lane(UNKNOWN)
    lane.share(Grant(0.25, follows=True, places=8, cap=32), 0.0)
    entries = [entry_of(lane) for _ in range(3)]
    for entry in entries:
        lane.charge(entry, 0.0)
    for entry in entries:
        lane.throttled(entry, Outcome(kind), 0.1)
    assert (lane.cap.refused, lane.cap.crowded) == ((1, 0) if kind is Kind.RATE else (0, 1))
    assert lane.window.size == 8


def test_the_leading_job_learns_from_refusals_of_others_once_for_each_event() -> None:
    lane = found(32)
    lane.share(Grant(0.5, places=16, cap=32, others=(claim(2),)), 0.0)
    lane.window.size = 17  # It tests one more.
    lane.share(Grant(0.5, places=16, cap=32, others=(claim(2, crowded=1),)), 5.0)
    assert lane.window.size == lane.window.ceiling == 16
    patience = lane.window.patience
    lane.share(Grant(0.5, places=16, cap=32, others=(claim(2, crowded=2),)), 5.0 + SETTLE_S / 2)
    assert (lane.window.size, lane.window.patience) == (16, patience), "the same event"


def test_one_more_is_tested_only_while_the_others_use_their_places() -> None:
    lane = found(4)
    lane.share(Grant(0.5, places=2, cap=4, full=False), 0.0)
    lane.window.probe_at = 0.0
    for _ in range(2):
        lane.charge(entry_of(lane), 0.0)
    assert lane.permit_at() == float("inf")
    lane.share(Grant(0.5, places=2, cap=4, full=True), 0.0)
    assert lane.permit_at() == 0.0


def test_what_others_sent_counts_in_the_measured_rate() -> None:
    lane = one_lane(UNKNOWN)
    finder = lane.limits.finder
    assert finder is not None
    finder.adopt((10.0, 0.0, 0.0, 0.0), 0, 10.0, 0.0)
    lane.share(Grant(0.5, others=(claim(2, sent=(0.0, 0.0, 0.0, 0.0)),)), 0.0)
    lane.share(Grant(0.5, others=(claim(2, sent=(60.0, 0.0, 0.0, 0.0)),)), 5.0)
    for _ in range(60):
        finder.sent((1.0, 0.0, 0.0, 0.0), 0.0)
    finder.refused(10.0, 60, [], (1.0, 0.0, 0.0, 0.0), 10.0)
    pace = finder.pace(0.5)
    assert pace is not None
    assert pace.rates[0] == pytest.approx(11.0, rel=0.1), (
        "120 in ten seconds, weighed with ten a second before"
    )
