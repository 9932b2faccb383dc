"""A hundred jobs on one lane: their parts together, places that change hands, first requests, and how often they read."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.drive import Run, failed, lane_spec, units

from headway.core.events import Share
from headway.core.lanes.job_share import (
    LEAST,
    LONGER_TURNS,
    OUR_PART,
    READ_AT_LEAST_EVERY_S,
    SPARE,
    WHOLE,
    Claim,
    Grant,
    grant_of,
    read_every_s,
)
from headway.core.lanes.meters.depth_ramp import DepthRamp
from headway.core.lanes.meters.meter import Meter
from headway.core.model import Kind, LaneLimits
from headway.engine.sharing.lane_sharing import LISTEN_S

RPM = LaneLimits(rpm=600)
LONGEST_TURN = LONGER_TURNS[0][1]


def jobs(count: int, **more: object) -> list[Claim]:
    return [msgspec.structs.replace(Claim(job, 1.0, hungry=True, use=0.0), **more) for job in range(count)]


def grants(claims: list[Claim], most: int | None = None) -> list[Grant]:
    return [grant_of(mine, [other for other in claims if other is not mine], most) for mine in claims]


# -- rates ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 5, 30, 100])
def test_parts_together_are_never_more_than_the_whole_and_nearly_all_of_it(count: int) -> None:
    together = sum(grant.part for grant in grants(jobs(count)))
    assert together + 1e-9 >= WHOLE - SPARE
    assert together <= WHOLE + 1e-9


def test_what_is_kept_for_jobs_beside_others_that_use_everything_is_for_all_of_them() -> None:
    full = Claim(200, 1.0, hungry=False, use=1.0)
    together = sum(grant_of(mine, [full, *jobs(50)[1:]]).part for mine in jobs(50)[:1]) * 50
    assert together == pytest.approx(LEAST, rel=0.05)


def test_first_requests_of_parts_that_hold_none_go_one_after_another() -> None:
    """A bucket of a second holds ten requests; a hundred jobs that each begin with one would send a hundred."""
    ready = [_part(grant, burst_s=1.0).full_at for grant in grants(jobs(100))]
    assert ready[0] <= 0.0
    assert ready == sorted(ready)
    assert sum(at <= 1.0 for at in ready) <= 20
    assert ready[-1] == pytest.approx(10.0, rel=0.1)
    deep = [_part(grant, burst_s=30.0).full_at for grant in grants(jobs(100))]
    assert max(deep) <= 0.0, "each part holds a request"


def test_a_small_part_is_no_fuller_than_its_limit() -> None:
    run = _run(grants(jobs(100))[0], burst_s=30.0)
    lane = run.scheduler.lanes["a"]
    whole, part = lane.limits.meters
    whole.owe_until(20.0)
    lane.limits.level_parts()
    assert part.full_at == 20.0


def test_a_refused_part_that_holds_no_request_waits_for_its_next_turn() -> None:
    """Those that were refused would all come back a second later, and be refused again."""
    run = Run(units(4), lane_spec(limits=msgspec.structs.replace(RPM, burst_s=1.0)))
    run.at(0.0, Share("a", grants(jobs(100))[50]))
    refused_at = run.scheduler.lanes["a"].limits.meters[-1].full_at + 0.1
    assert len(run.at(refused_at).starts) == 1
    run.at(refused_at + 0.1, failed(next(iter(run.scheduler.out)), Kind.RATE))
    part = run.scheduler.lanes["a"].limits.meters[-1]
    assert part.name.endswith(OUR_PART)
    assert part.full_at == pytest.approx(refused_at + 0.1 + 1.0 / part.rate, rel=0.01)


def test_the_leader_overdraws_its_part_only_while_it_tests_the_depth() -> None:
    """The last few percent of a bucket need no test. A leader that went on testing would use the bucket of a hundred jobs."""
    leader = grants(jobs(100))[0]
    assert not leader.follows
    lane = _run(leader, burst_s=10.0).scheduler.lanes["a"]
    whole, part = lane.limits.meters
    whole.ramp = DepthRamp()
    for proven_s, overdraws in ((5.0, True), (9.8, False)):
        whole.proven_s = whole.depth_s = proven_s
        whole.reach_s = 10.0
        part.follow(whole, leader.part)
        assert (part.reach_s > 10.0) is overdraws


def _part(grant: Grant, burst_s: float) -> Meter:
    return next(
        meter
        for meter in _run(grant, burst_s).scheduler.lanes["a"].limits.meters
        if meter.name.endswith(OUR_PART)
    )


def _run(grant: Grant, burst_s: float) -> Run:
    run = Run(units(0), lane_spec(limits=msgspec.structs.replace(RPM, burst_s=burst_s)))
    run.at(0.0, Share("a", grant))
    return run


# -- places ----------------------------------------------------------------------------------------------------------------


def test_free_places_are_not_taken_twice() -> None:
    """One job still has most places of a number that is to be shared; all others see the same few that it has left."""
    for holds in range(21):
        claims = jobs(5)
        claims[2] = msgspec.structs.replace(claims[2], taken=holds)
        places = [grant.places or 0 for grant in grants(claims, most=20)]
        of_others = sum(places) - places[2]
        assert of_others == 20 - max(holds, 4), "all that it has left, and no more"


def test_one_refusal_beside_others_does_not_lower_the_number_of_all() -> None:
    run = Run(units(20), lane_spec(limits=LaneLimits(max_concurrency=20)))
    run.at(0.0, Share("a", Grant(0.5, places=10)))
    lane = run.scheduler.lanes["a"]
    run.at(0.1, failed(next(iter(run.scheduler.out)), Kind.CONCURRENCY))
    assert lane.cap.found(lane.window) == 19


# -- reading -----------------------------------------------------------------------------------------------------------------


def test_claims_of_many_are_read_less_often() -> None:
    assert read_every_s(2, LISTEN_S) == LISTEN_S
    assert LISTEN_S < read_every_s(20, LISTEN_S) < READ_AT_LEAST_EVERY_S
    assert read_every_s(1_000, LISTEN_S) == READ_AT_LEAST_EVERY_S


def test_a_job_that_ends_moves_few_places_of_many_jobs_and_all_have_their_turns() -> None:
    """A place that moves is idle until both jobs have read of it. With marks that lie apart nearly all moved."""
    claims = jobs(100)
    before = [grant.places or 0 for grant in grants(claims, most=25)]
    assert sum(before) == 25
    after = [grant.places or 0 for grant in grants(claims[1:], most=25)]
    assert sum(after) == 25
    assert sum(now > then for now, then in zip(after, before[1:], strict=True)) <= 1 + before[0]


def test_over_many_turns_many_jobs_have_places_by_weight() -> None:
    weights = [1.0 + 3.0 * (job % 2) for job in range(50)]
    claims = [
        msgspec.structs.replace(claim, weight=weight) for claim, weight in zip(jobs(50), weights, strict=True)
    ]
    had = [0] * 50
    for turn in range(60):
        for job, mine in enumerate(claims):
            others = [other for other in claims if other is not mine]
            had[job] += grant_of(mine, others, 10, turn * LONGEST_TURN).places or 0
    assert sum(had) == 60 * 10
    assert min(had) > 0
    assert sum(had[1::2]) == pytest.approx(0.8 * sum(had), rel=0.05)
