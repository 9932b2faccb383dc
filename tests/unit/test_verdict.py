"""What a failed attempt means for its unit."""

from __future__ import annotations

import pytest
from tests.unit.drive import UNLIMITED, entry_of, one_lane

from headway.core.lanes.queueing.queue import ALWAYS, Entry
from headway.core.model import Hint, Kind, Outcome, RetryPolicy
from headway.core.scheduling.verdict import GIVE_UP, Verdict, judge
from headway.core.unit_states import Move

SPENDING = [Kind.OVERLOAD, Kind.TRANSIENT, Kind.TIMEOUT]
THROTTLING = [Kind.RATE, Kind.CONCURRENCY, Kind.HOLD]


def entry(retry: RetryPolicy | None = None) -> Entry:
    """A unit whose attempt is out."""
    lane = one_lane(UNLIMITED, retry or RetryPolicy(jitter=0.0))
    unit = entry_of(lane)
    lane.charge(unit, 0.0)
    return unit


def told(
    unit: Entry, kind: Kind, message: str = "", *, hinted_at: float = ALWAYS, now: float = 0.0
) -> Verdict:
    return judge(unit, Outcome(kind, message=message), hinted_at, now)


@pytest.mark.parametrize("kind", SPENDING)
def test_an_attempt_that_failed_is_tried_again_with_growing_waits(kind: Kind) -> None:
    unit = entry(RetryPolicy(max_attempts=5, jitter=0.0))
    verdicts = [told(unit, kind, now=100.0) for _ in range(4)]
    assert [verdict.move for verdict in verdicts] == [Move.RETRY] * 4
    assert [verdict.not_before for verdict in verdicts] == [101.0, 102.0, 104.0, 108.0]


@pytest.mark.parametrize(
    ("kind", "end"), [(Kind.OVERLOAD, Move.FAIL), (Kind.TRANSIENT, Move.FAIL), (Kind.TIMEOUT, Move.TIME_OUT)]
)
def test_the_last_attempt_ends_the_unit_with_its_message(kind: Kind, end: Move) -> None:
    unit = entry(RetryPolicy(max_attempts=3))
    verdicts = [told(unit, kind, "no luck") for _ in range(3)]
    assert verdicts[-1] == Verdict(end, message="no luck")


@pytest.mark.parametrize("kind", SPENDING)
def test_a_hint_longer_than_the_backoff_is_heeded(kind: Kind) -> None:
    verdict = judge(entry(), Outcome(kind, hint=Hint(retry_after_s=20.0)), ALWAYS, 100.0)
    assert verdict.not_before == 120.0


def test_a_hint_shorter_than_the_backoff_does_not_shorten_it() -> None:
    verdict = judge(entry(), Outcome(Kind.OVERLOAD, hint=Hint(retry_after_s=0.1)), ALWAYS, 100.0)
    assert verdict.not_before == 101.0


@pytest.mark.parametrize("kind", THROTTLING)
def test_a_throttle_spends_no_attempt(kind: Kind) -> None:
    unit = entry(RetryPolicy(max_attempts=1, max_throttles=50))
    for _ in range(50):
        assert told(unit, kind, hinted_at=5.0).move is Move.RETRY
    assert unit.attempts == 0


@pytest.mark.parametrize("kind", THROTTLING)
def test_one_throttle_too_many_names_the_reason_and_what_to_do(kind: Kind) -> None:
    unit = entry(RetryPolicy(max_throttles=2))
    told(unit, kind)
    told(unit, kind)
    verdict = told(unit, kind, "slow down please")
    assert verdict.move is Move.FAIL
    assert "slow down please" in verdict.message
    assert "3 times" in verdict.message
    assert verdict.message.endswith("reduce --concurrency or try again later")
    assert GIVE_UP in verdict.message


def test_exhaustion_names_the_count_the_duration_and_the_last_message() -> None:
    unit = entry(RetryPolicy(max_throttles=2))
    for now in (100.0, 130.0):
        told(unit, Kind.RATE, "Limit 500", now=now)
    assert told(unit, Kind.RATE, "Limit 20", now=145.0).message == (
        "refused 3 times over 45 s, the last time with: Limit 20; reduce --concurrency or try again later"
    )
    unit = entry(RetryPolicy(max_throttles=1))
    told(unit, Kind.HOLD, now=0.0)
    assert "2 times over 90 min, the last time with: hold;" in told(unit, Kind.HOLD, now=5400.0).message
    assert told(entry(RetryPolicy(max_throttles=0)), Kind.RATE, "no").message.startswith(
        "refused once, the last time with: no;"
    )


def test_a_throttle_without_words_names_its_kind_in_the_end() -> None:
    assert "rate" in told(entry(RetryPolicy(max_throttles=0)), Kind.RATE).message


@pytest.mark.parametrize("kind", THROTTLING)
def test_a_throttle_waits_for_the_instant_that_was_hinted(kind: Kind) -> None:
    assert told(entry(), kind, hinted_at=7.5, now=5.0).not_before == 7.5


@pytest.mark.parametrize("kind", THROTTLING)
def test_a_throttle_without_a_hint_backs_off(kind: Kind) -> None:
    unit = entry()
    waits = [told(unit, kind, now=5.0).not_before for _ in range(3)]
    assert waits == [6.0, 7.0, 9.0]


@pytest.mark.parametrize("kind", [Kind.QUOTA, Kind.AUTH])
def test_a_stopped_lane_costs_its_unit_nothing(kind: Kind) -> None:
    unit = entry(RetryPolicy(max_attempts=1, max_throttles=0))
    assert told(unit, kind, now=3.0) == Verdict(Move.RETRY, 3.0)
    assert (unit.attempts, unit.throttles) == (0, 0)


@pytest.mark.parametrize("kind", [Kind.TOO_LARGE, Kind.INVALID])
def test_a_unit_at_fault_fails_at_once_with_the_message(kind: Kind) -> None:
    assert told(entry(), kind, "bad schema") == Verdict(Move.FAIL, message="bad schema")


def test_a_crash_is_tried_again() -> None:
    unit = entry()
    assert told(unit, Kind.CRASH, now=10.0) == Verdict(Move.RETRY, 11.0)
    assert not unit.suspect


def test_a_unit_whose_worker_died_twice_is_a_suspect_and_not_condemned() -> None:
    unit = entry()
    told(unit, Kind.CRASH)
    told(unit, Kind.TRANSIENT)
    verdict = told(unit, Kind.CRASH, "signal 9", now=10.0)
    assert verdict == Verdict(Move.RETRY, 14.0, "signal 9; it runs alone next")
    assert unit.suspect
    assert unit.alone_by == 70.0


def test_a_suspect_that_kills_alone_too_is_quarantined_with_its_evidence() -> None:
    unit = entry()
    told(unit, Kind.CRASH)
    told(unit, Kind.CRASH)
    verdict = told(unit, Kind.CRASH, "signal 11")
    assert verdict.move is Move.FAIL
    assert verdict.message == "quarantined: it killed its worker 3 times, the last time alone; signal 11"


def test_a_suspect_that_fails_alone_without_a_death_is_cleared() -> None:
    unit = entry()
    told(unit, Kind.CRASH)
    told(unit, Kind.CRASH)
    assert told(unit, Kind.TRANSIENT).move is Move.RETRY
    assert (unit.suspect, unit.crashes) == (False, 0)


def test_a_suspect_that_meets_a_rate_limit_stays_one() -> None:
    unit = entry()
    told(unit, Kind.CRASH)
    told(unit, Kind.CRASH)
    told(unit, Kind.RATE, hinted_at=30.0)
    assert unit.suspect


def test_a_death_with_the_last_attempt_ends_the_unit() -> None:
    unit = entry(RetryPolicy(max_attempts=2))
    told(unit, Kind.CRASH)
    assert told(unit, Kind.CRASH, "signal 9") == Verdict(Move.FAIL, message="signal 9")


def probe() -> Entry:
    """A unit that tests a broken lane."""
    lane = one_lane(UNLIMITED, RetryPolicy(max_attempts=1, jitter=0.0))
    unit = entry_of(lane)
    lane.charge(unit, 0.0, "breaker")
    return unit


@pytest.mark.parametrize("outcome", [Outcome(Kind.OVERLOAD), Outcome(Kind.TRANSIENT, sent=False)])
def test_a_probe_that_a_broken_lane_fails_spends_no_attempt(outcome: Outcome) -> None:
    unit = probe()
    assert judge(unit, outcome, ALWAYS, 10.0) == Verdict(Move.RETRY, 11.0)
    assert unit.attempts == 0


@pytest.mark.parametrize("kind", [Kind.TRANSIENT, Kind.TIMEOUT, Kind.CRASH])
def test_a_probe_that_may_fail_by_itself_spends_an_attempt(kind: Kind) -> None:
    assert told(probe(), kind).move is not Move.RETRY


def test_a_probe_of_a_unit_that_failed_while_others_succeeded_spends_an_attempt() -> None:
    unit = probe()
    unit.failed_seq, unit.lane.good_seq = 3, 4
    assert told(unit, Kind.OVERLOAD).move is Move.FAIL
