"""A lane of which nothing is known: is it a rate, or too many at once? And how much it learns by the way."""

from __future__ import annotations

import pytest
from tests.unit.blind import PLAIN
from tests.unit.drive import Run, Step, entry_of, failed, lane_spec, ok, one_lane, units

from headway.core.events import RequestAccepted, SetLimits
from headway.core.lanes.in_flight.window import QUIET_S
from headway.core.lanes.lane import LaneState
from headway.core.lanes.learning.rate_finder import FIRST_UNANSWERED, SLOWEST_CLIMB
from headway.core.lanes.queueing.queue import ALWAYS, NEVER, Entry
from headway.core.lanes.refusals import ALWAYS_AT
from headway.core.model import Dimension, Estimate, Hint, Kind, LaneLimits, Outcome, Unit, Usage


def blind_run(n: int = 999) -> Run:
    return Run(units(n, estimate=PLAIN), lane_spec(limits=LaneLimits()))


def sent(lane: LaneState, now: float) -> Entry:
    entry = entry_of(lane, Unit(lane.traffic.started, lane.key, PLAIN))
    lane.charge(entry, now)
    return entry


def refused(lane: LaneState, entry: Entry, now: float) -> None:
    lane.release(entry, Outcome(Kind.RATE), now)
    lane.throttled(entry, Outcome(Kind.RATE), now)


def suspected() -> tuple[Run, int]:
    """The last of the first handful was refused at 0.1; returns the run and how many are still out."""
    run = blind_run()
    handful = run.at(0.0).started
    run.at(0.1, failed(handful[-1], Kind.RATE))
    return run, len(handful) - 1


def one_beyond() -> tuple[Run, int]:
    """A quiet second later one more goes; returns the run and that one."""
    run, _ = suspected()
    step = run.at(0.1 + QUIET_S)
    assert len(step.started) == 1
    return run, step.started[0]


def accept_all_beyond(run: Run, probe: int) -> Step:
    """Each one beyond is accepted, and the next goes."""
    now = 0.1 + QUIET_S
    step = run.at(now, RequestAccepted(probe))
    while not run.lane().window.open and now < 60.0:
        now += 0.5
        step = run.at(now, *(RequestAccepted(index) for index in step.started))
    return step


# -- a number in flight? ------------------------------------------------------------------------------


def test_the_first_refusal_is_suspected_to_be_about_the_number_in_flight() -> None:
    run, still_out = suspected()
    lane = run.lane()
    assert lane.window.size == still_out == lane.in_flight
    assert lane.permit_at() == pytest.approx(0.1 + QUIET_S)
    assert run.at(0.9).started == []


def test_a_refusal_while_many_more_are_in_flight_is_not_about_their_number() -> None:
    lane = one_lane(LaneLimits())
    entries = [sent(lane, 0.0) for _ in range(10)]
    refused(lane, entries[1], 0.1)
    assert lane.window.open


def test_a_quiet_second_later_a_single_one_goes_beyond() -> None:
    run, _ = one_beyond()
    assert run.lane().permit_at() == NEVER
    assert run.at(5.0).started == []


def test_those_beyond_that_are_accepted_open_the_window() -> None:
    run, probe = one_beyond()
    accept_all_beyond(run, probe)
    assert run.lane().window.open


def test_one_beyond_that_is_refused_confirms_the_number() -> None:
    run, probe = one_beyond()
    run.at(0.1 + QUIET_S + 0.05, failed(probe, Kind.RATE))
    lane = run.lane()
    assert lane.in_flight == lane.window.size
    assert lane.permit_at() == NEVER
    assert run.at(9.0).started == []


def test_a_confirmed_number_is_kept_up() -> None:
    run, probe = one_beyond()
    run.at(0.1 + QUIET_S + 0.05, failed(probe, Kind.RATE))
    started = [*run.at(9.0, ok(0), ok(1)).started, *run.at(12.0).started]
    assert len(started) == 2


def test_one_beyond_that_fails_for_another_reason_tells_nothing() -> None:
    run, probe = one_beyond()
    size = run.lane().window.size
    run.at(0.1 + QUIET_S + 0.05, failed(probe, Kind.TRANSIENT))
    run.at(3.0)
    assert run.lane().window.size == size
    assert run.lane().in_flight == size + 1


def test_a_suspicion_never_lifts_a_maximum_configured_later() -> None:
    run, _ = suspected()
    run.at(0.2, SetLimits("a", LaneLimits(max_concurrency=2)))
    while run.lane().in_flight > 2:
        run.at(0.5, ok(run.out[0]))
    run.at(0.1 + QUIET_S)
    assert run.lane().in_flight == 2


def past_the_ramp() -> tuple[LaneState, dict[int, Entry]]:
    """A lane whose ramp has ended, with the suspicion dispelled, and what is out on it."""
    out: dict[int, Entry] = {}
    lane = LaneState(one_lane(LaneLimits()).spec, 0.0, out)
    refused(lane, sent(lane, 0.0), 0.1)
    lane.window.clear()
    return lane, out


def refuse_at(lane: LaneState, out: dict[int, Entry], flight: int, now: float) -> None:
    """A refusal with so many in flight; they all end well before the next."""
    while lane.in_flight < flight - 1:
        out[lane.traffic.started] = sent(lane, now)
    refused(lane, sent(lane, now + 0.01), now + 0.1)
    for index in list(out):
        lane.release(out.pop(index), Outcome(), now + 0.5)


def test_refusals_that_always_come_at_the_same_number_make_it_a_suspect() -> None:
    lane, out = past_the_ramp()
    for place in range(ALWAYS_AT - 1):
        refuse_at(lane, out, 20, 10.0 * (place + 1))
        assert lane.window.open
    refuse_at(lane, out, 20, 10.0 * ALWAYS_AT)
    assert lane.window.size == 19


def test_refusals_at_different_numbers_are_about_a_rate() -> None:
    lane, out = past_the_ramp()
    for place, flight in enumerate((20, 30, 20, 40, 25, 60)):
        refuse_at(lane, out, flight, 10.0 * (place + 1))
        assert lane.window.open


def test_a_refusal_that_says_what_it_is_about_is_no_measurement_of_a_rate() -> None:
    lane = one_lane(LaneLimits())
    entries = [sent(lane, 0.0) for _ in range(10)]
    outcome = Outcome(Kind.CONCURRENCY)
    lane.release(entries[-1], outcome, 0.1)
    lane.throttled(entries[-1], outcome, 0.1)
    assert lane.window.size == 5
    assert lane.limits.finder is not None
    assert lane.limits.finder.mode == "ramp"


# -- a rate -------------------------------------------------------------------------------------------


def test_ten_refusals_of_one_burst_slow_the_pace_once() -> None:
    lane = one_lane(LaneLimits())
    for entry in [sent(lane, 0.0) for _ in range(10)]:
        refused(lane, entry, 0.1)
    assert lane.limits.meters[0].rate == pytest.approx(SLOWEST_CLIMB * 100.0)


def test_a_refusal_empties_the_learned_meter() -> None:
    lane = one_lane(LaneLimits())
    refused(lane, sent(lane, 0.0), 0.1)
    assert lane.limits.meters[0].level(0.1) <= 0.0


def test_units_without_an_estimate_are_paced_as_requests() -> None:
    lane = one_lane(LaneLimits())
    entry = entry_of(lane)
    lane.charge(entry, 0.0)
    refused(lane, entry, 0.1)
    assert lane.limits.meters[0].dimension is Dimension.REQUESTS
    assert 0.1 < lane.when(entry_of(lane), NEVER)[0] < 2.0


def test_units_without_an_estimate_whose_usage_is_told_may_meet_a_window() -> None:
    lane = one_lane(LaneLimits())
    for _ in range(80):
        entry = entry_of(lane)
        lane.charge(entry, 0.0)
        lane.release(entry, Outcome(usage=Usage(100.0, 20.0)), 1.0)
    entry = entry_of(lane)
    lane.charge(entry, 1.0)
    outcome = Outcome(Kind.RATE, hint=Hint(retry_after_s=40.0))
    lane.release(entry, outcome, 1.1)
    lane.throttled(entry, outcome, 1.1)
    assert lane.limits.meters[0].dimension is Dimension.REQUESTS
    assert lane.limits.finder is not None
    assert lane.limits.finder.windows is not None
    assert lane.limits.finder.windows.allowance == pytest.approx(80.0)


def test_a_learned_pace_makes_no_unit_too_large() -> None:
    lane = one_lane(LaneLimits())
    refused(lane, sent(lane, 0.0), 0.1)
    huge = Unit(1, "a", Estimate(input_tokens=1e9))
    assert lane.limits.too_large(entry_of(lane, huge)) == ""


# -- unanswered ---------------------------------------------------------------------------------------


def test_as_many_as_may_be_unanswered_fill_the_lane() -> None:
    lane = one_lane(LaneLimits())
    entries = [sent(lane, place / 10.0) for place in range(int(FIRST_UNANSWERED))]
    before = (lane.full, lane.permit_at())
    lane.admitted(entries[0], None, 3.0)
    assert before == (True, NEVER)
    assert (lane.full, lane.permit_at()) == (False, ALWAYS)


@pytest.mark.parametrize("kind", [None, Kind.TRANSIENT, Kind.TIMEOUT, Kind.OVERLOAD])
def test_every_end_of_an_attempt_is_an_answer(kind: Kind | None) -> None:
    lane = one_lane(LaneLimits())
    for place in range(5):
        lane.release(sent(lane, float(place)), Outcome(kind), place + 0.5)
    assert lane.unanswered == 0


def test_an_answer_after_the_first_word_is_not_counted_twice() -> None:
    lane = one_lane(LaneLimits())
    first, _ = sent(lane, 0.0), sent(lane, 0.0)
    lane.admitted(first, None, 0.1)
    lane.admitted(first, None, 0.2)
    lane.release(first, Outcome(usage=Usage(1.0, 1.0)), 0.5)
    assert lane.unanswered == 1


def test_a_lane_with_a_known_limit_may_have_any_number_unanswered() -> None:
    lane = one_lane(LaneLimits(rpm=6e6))
    for _ in range(1000):
        sent(lane, 0.0)
    assert not lane.full


# -- a server that queues -----------------------------------------------------------------------------


def first_words(lane: LaneState, after_s: float, in_flight: int, now: float) -> None:
    """So many are sent at once, and hear the first word after so long."""
    entries = [sent(lane, now) for _ in range(in_flight)]
    for entry in entries:
        lane.headers_arrived(entry, now + after_s)
        lane.admitted(entry, None, now + after_s)
    for entry in entries:
        lane.release(entry, Outcome(), now + after_s + 1.0)


def test_first_words_that_take_ever_longer_shrink_the_window() -> None:
    lane = one_lane(LaneLimits())
    first_words(lane, 0.1, 10, 0.0)
    first_words(lane, 0.1, 100, 10.0)
    assert lane.window.open
    first_words(lane, 1.0, 200, 20.0)
    first_words(lane, 1.0, 200, 30.0)
    assert lane.window.size < 200


def test_a_lane_with_a_known_limit_does_not_mind_slow_first_words() -> None:
    lane = one_lane(LaneLimits(rpm=6e6))
    first_words(lane, 0.1, 10, 0.0)
    first_words(lane, 9.0, 400, 10.0)
    assert lane.window.open
