"""Jobs that share a lane: who gets which part, what a lane does with its own, and that nothing is left lying."""

from __future__ import annotations

import msgspec
import pytest
from bench import lanes
from tests.unit.drive import ONE_BY_ONE, Run, entry_of, lane_spec, ok, one_lane, units

from headway.core.events import Share
from headway.core.lanes.in_flight.window import OPEN
from headway.core.lanes.job_share import LEAST, WHOLE, Claim, Grant, claim_of, grant_of, owed_to
from headway.core.lanes.lane import LaneState
from headway.core.lanes.lane_memory import export_lane
from headway.core.model import (
    Dimension,
    Estimate,
    Hint,
    Kind,
    LaneLimits,
    LaneSpec,
    LimitReport,
    Outcome,
    Unit,
)
from headway.sim.runner import HEADWAY, run_once
from headway.sim.several_clients import SharingJobs
from headway.sim.workload import draw

MINE = Claim(1, 1.0, hungry=True, use=0.0)
RPM = LaneLimits(rpm=600)


def other(weight: float = 1.0, *, hungry: bool = True, use: float = 0.0, job: int = 2) -> Claim:
    return Claim(job, weight, hungry, use)


# -- who gets which part -----------------------------------------------------------------------------------------


def test_a_single_job_has_the_whole_lane() -> None:
    assert grant_of(MINE, []) == Grant(WHOLE)


def test_by_weight_among_those_that_have_something_to_start() -> None:
    three = Claim(1, 3.0, hungry=True, use=0.0)
    assert grant_of(three, [other()]).part == pytest.approx(0.75)
    assert grant_of(MINE, [other(3.0)]).part == pytest.approx(0.25)
    assert grant_of(MINE, [other(), other()]).part == pytest.approx(1 / 3)


def test_a_job_without_work_leaves_its_share_to_the_others() -> None:
    assert grant_of(MINE, [other(9.0, hungry=False)]).part == WHOLE
    assert grant_of(MINE, [other(9.0, hungry=False, use=0.3)]).part == pytest.approx(0.7)


def test_every_job_keeps_a_part() -> None:
    assert grant_of(MINE, [other(hungry=False, use=1.0)]).part == LEAST


def test_the_weightiest_searches_and_the_first_of_equals() -> None:
    assert grant_of(MINE, [other(2.0)]).follows
    assert not grant_of(MINE, [other(0.5)]).follows
    assert not grant_of(MINE, [other(1.0, job=2)]).follows
    assert grant_of(MINE, [other(1.0, job=0)]).follows
    assert not grant_of(MINE, [other(2.0, hungry=False)]).follows


def test_noise_is_no_other_grant_and_the_whole_always_is() -> None:
    assert not Grant(0.50).differs(Grant(0.51))
    assert Grant(0.50).differs(Grant(0.60))
    assert Grant(WHOLE).differs(Grant(0.99))
    assert Grant(0.5, follows=True).differs(Grant(0.5))


# -- places ----------------------------------------------------------------------------------------------------------


def places(mine: Claim, *others: Claim, most: int = 8, turn: int = 0) -> int | None:
    return grant_of(mine, others, most, turn).places


def test_places_are_given_out_by_weight_once_they_are_free() -> None:
    three = Claim(1, 3.0, hungry=True, use=0.0)
    assert places(three, other()) == 6
    assert places(MINE, other(3.0)) == 2
    assert places(MINE, Claim(2, 1.0, hungry=True, use=0.0, taken=8)) == 0
    assert places(MINE, Claim(2, 1.0, hungry=True, use=0.0, taken=5)) == 3
    assert places(MINE, Claim(2, 1.0, hungry=True, use=0.0, taken=4)) == 4


def test_a_job_without_work_keeps_only_its_attempts_in_flight() -> None:
    assert places(MINE, Claim(2, 9.0, hungry=False, use=0.0, taken=3)) == 5
    assert places(MINE, Claim(2, 9.0, hungry=False, use=0.0, taken=0)) is None
    assert places(MINE) is None
    assert grant_of(MINE, [other()]).places is None


@pytest.mark.parametrize(
    ("most", "weights"), [(1, (1.0, 1.0)), (1, (3.0, 1.0)), (8, (1.0, 1.0, 1.0)), (2, (5.0, 2.0, 1.0))]
)
def test_all_places_are_given_out_and_the_remainder_rotates(most: int, weights: tuple[float, ...]) -> None:
    claims = [Claim(job, weight, hungry=True, use=0.0) for job, weight in enumerate(weights)]
    turns = 400
    given = [
        [
            grant_of(mine, [claim for claim in claims if claim is not mine], most, turn).places or 0
            for mine in claims
        ]
        for turn in range(turns)
    ]
    assert {sum(row) for row in given} <= {most, most - 1}, "a sum of floats may miss a whole by a hair"
    assert sum(map(sum, given)) >= 0.99 * most * turns
    for place, weight in enumerate(weights):
        mean = sum(row[place] for row in given) / turns
        assert mean == pytest.approx(most * weight / sum(weights), abs=0.1)


# -- what a job claims -----------------------------------------------------------------------------------------------


def claim(run: Run, now: float = 0.0) -> Claim:
    return claim_of(run.scheduler, run.scheduler.lanes["a"], 1, 2.0, now)


def test_a_job_is_hungry_before_its_first_start_and_while_its_lane_holds_it_back() -> None:
    run = Run(units(3), lane_spec(limits=ONE_BY_ONE))
    assert claim(run).hungry
    run.at(0.0)
    assert claim(run) == Claim(1, 2.0, hungry=True, use=0.0, taken=1)


def test_it_is_not_once_everything_has_started() -> None:
    run = Run(units(1), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    assert claim(run) == Claim(1, 2.0, hungry=False, use=0.0, taken=1)  # Until it is back.
    run.at(1.0, ok(0))
    assert claim(run, 1.0) == Claim(1, 2.0, hungry=False, use=0.0, taken=0)


def test_nor_while_it_is_held() -> None:
    run = Run(units(3), lane_spec(limits=ONE_BY_ONE))
    run.held(60.0, "so").at(0.0)
    assert not claim(run).hungry


# -- what a lane does with its part ---------------------------------------------------------------------------------


def shared(lane: LaneState, part: float, now: float = 0.0) -> LaneState:
    lane.share(Grant(part), now)
    return lane


def ready_after(lane: LaneState, starts: int) -> float:
    entry = entry_of(lane)
    for _ in range(starts):
        lane.charge(entry, 0.0)
    return lane.when(entry, 0.0)[0]


def test_a_part_of_the_rate() -> None:
    alone = ready_after(one_lane(LaneLimits(rpm=600, burst_s=0.0)), 10)
    half = ready_after(shared(one_lane(LaneLimits(rpm=600, burst_s=0.0)), 0.5), 10)
    assert half == pytest.approx(2 * alone)


def test_places_limit_the_attempts_in_flight() -> None:
    lane = one_lane(LaneLimits(max_concurrency=32))
    for places in (24, 0, 3):
        lane.share(Grant(0.75, places=places), 0.0)
        assert lane.window.size == lane.window.configured == places
    lane.share(Grant(), 0.0)
    assert lane.window.size == 32


def test_a_learned_number_in_flight_is_shared_and_remembered_whole() -> None:
    lane = one_lane(LaneLimits(rpm=0, max_concurrency=32))
    lane.window.resume(16)
    lane.share(Grant(0.5, places=8, cap=16), 0.0)
    assert lane.window.size == 8
    assert export_lane(lane, 0.0, 0.0).window == 16
    assert shared(lane, WHOLE).window.size == 16


def test_a_number_in_flight_that_was_refused_comes_back_as_it_was() -> None:
    """Small numbers round to the same: what was learned must not look like all that is configured."""
    lane = one_lane(LaneLimits(rpm=0, max_concurrency=2))
    lane.window.refused(0, 2)
    for part in (0.75, 0.02, 0.25, WHOLE):
        assert shared(lane, part).window.size == 1


def test_new_limits_keep_refusals_in_mind_while_others_share_the_lane() -> None:
    lane = one_lane(LaneLimits(rpm=0, max_concurrency=4))
    lane.window.refused(0, 2)
    lane.share(Grant(0.75, places=1), 0.0)
    lane.configure(LaneLimits(rpm=0, max_concurrency=2), 0.0)
    lane.configure(LaneLimits(rpm=0), 0.0)
    assert lane.window.size == 1


def test_without_a_limit_there_is_nothing_to_share() -> None:
    lane = shared(one_lane(LaneLimits(rpm=0)), 0.5)
    assert lane.limits.meters == ()
    assert lane.window.size == OPEN


def test_a_unit_that_fits_the_limit_does_not_fail_because_of_a_share() -> None:
    lane = shared(one_lane(LaneLimits(tpm=1_000)), 0.1)
    assert lane.limits.too_large(entry_of(lane, Unit(0, "a", Estimate(input_tokens=900.0)))) == ""
    assert "1,100" in lane.limits.too_large(entry_of(lane, Unit(0, "a", Estimate(input_tokens=1_100.0))))


def test_a_daily_quota_is_not_shared() -> None:
    assert len(shared(one_lane(LaneLimits(rpd=1_000)), 0.5).limits.meters) == 1


def test_when_the_others_go_their_use_is_not_taken_for_room() -> None:
    """The account told no levels, so what they took is only known from what our part owes."""
    lane = shared(one_lane(LaneLimits(rpm=600, burst_s=10.0)), 0.5)
    entry = entry_of(lane)
    for _ in range(40):
        lane.charge(entry, 0.0)
    assert [meter.full_at for meter in lane.limits.meters] == [pytest.approx(4.0), pytest.approx(8.0)]
    shared(lane, WHOLE)
    assert [meter.full_at for meter in lane.limits.meters] == [pytest.approx(8.0)]


def test_what_a_client_has_used_is_not_taken_for_room() -> None:
    """Its requests are on no record, so its claim says what it used."""
    run = Run(units(40), lane_spec(limits=LaneLimits(rpm=600, burst_s=10.0)))
    run.at(0.0)
    client = claim_of(run.scheduler, run.lane(), 9, 1.0, 1.0, comes_later=True)
    assert client.debts is not None
    assert client.debts["requests per minute"] == pytest.approx(3.0)
    assert claim(run, 1.0).debts is None, "what jobs have sent is on record"
    assert client.differs(msgspec.structs.replace(client, debts={}), beside_others=False)

    job = Run(units(2), lane_spec(limits=LaneLimits(rpm=600, burst_s=10.0)))
    job.lane().limits.owe(owed_to([client, other()]), 1.0)
    assert [meter.full_at for meter in job.lane().limits.meters] == [pytest.approx(4.0)]


def test_limits_that_are_reported_while_sharing_are_shared_too() -> None:
    run = Run(units(2), LaneSpec("a", LaneLimits(rpm=0)))
    run.at(0.0, Share("a", Grant(0.5)))
    report = LimitReport(Dimension.REQUESTS, 600.0, 590.0, 1.0)
    run.at(1.0, ok(0, hint=Hint((report,))))
    meters = run.scheduler.lanes["a"].limits.meters
    assert {(meter.name, meter.limit) for meter in meters} == {
        ("requests per minute", 600.0),
        ("requests per minute (our part)", 300.0),
    }
    assert run.scheduler.lanes["a"].limits.in_force() == ((600, "requests per minute"),)


def test_a_refusal_is_about_the_limit_and_not_about_our_part() -> None:
    lane = shared(one_lane(LaneLimits(rpm=600)), 0.5)
    entry = entry_of(lane)
    lane.charge(entry, 0.0)
    whole, part = lane.limits.meters
    depth_s = part.depth_s
    lane.throttled(entry, Outcome(Kind.RATE), 0.1)
    assert whole.full_at == pytest.approx(0.1 + whole.depth_s)
    assert part.depth_s == depth_s


#: By then a job has found the unknown limits that the others wait for.
SEARCHED_S = 30.0


# -- two jobs, to the end -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["two-jobs", "two-jobs-known", "two-jobs-blind"])
def test_two_jobs_go_by_their_weights_and_the_rest_gets_all(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three to one, lane by lane, as long as both have something to start. Unknown limits are first found by one of them."""
    scenario = lanes.scenario(name, seeds=(1,))
    started: list[dict[str, tuple[int, int]]] = []
    handle = SharingJobs.handle

    def watched(self: SharingJobs, events: object, now: float) -> object:
        if now >= SEARCHED_S and not any(
            scheduler.lanes[lane].spent for scheduler in self.schedulers for lane in scenario.lanes
        ):
            first, second = self.schedulers
            started.append(
                {
                    lane: (first.lanes[lane].traffic.started, second.lanes[lane].traffic.started)
                    for lane in scenario.lanes
                }
            )
        return handle(self, events, now)  # type: ignore[arg-type]

    monkeypatch.setattr(SharingJobs, "handle", watched)
    run_once(scenario, draw(scenario, 1), HEADWAY, 1)
    first, last = started[0], started[-1]
    shares = {
        lane: (last[lane][0] - first[lane][0]) / (last[lane][1] - first[lane][1]) for lane in scenario.lanes
    }
    assert shares == {lane: pytest.approx(3.0, rel=0.1) for lane in scenario.lanes}
