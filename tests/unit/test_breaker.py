"""The breaker: opens after a run of failures, probes with growing pauses, closes on success, gives up in the end."""

from __future__ import annotations

import pytest

from headway.core.lanes.breaker import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    MOST_NEEDED,
    OVERLOADS,
    PATIENCE_S,
    REFUSALS,
    UNREACHED_S,
    Breaker,
)


class Sends:
    """A breaker and the number of the lane's last send, which it tells old answers by."""

    def __init__(self) -> None:
        self.breaker = Breaker(ever_answered=True)
        self.last = 0

    def fail(self, now: float = 0.0, *, probe: bool = False) -> bool:
        """One is sent, and fails."""
        self.last += 1
        return self.breaker.failed(now, refused=False, at_floor=False, probe=probe, sent=self.last)

    def refuse(self, *, at_floor: bool) -> bool:
        self.last += 1
        return self.breaker.failed(0.0, refused=True, at_floor=at_floor, probe=False, sent=self.last)

    def succeed(self) -> bool:
        """One is sent, and is answered well."""
        self.last += 1
        return self.breaker.succeeded(self.last)


def opened(now: float = 0.0) -> Sends:
    sends = Sends()
    for _ in range(OVERLOADS):
        sends.fail(now)
    return sends


def test_it_opens_after_a_run_of_failures_and_says_so_once() -> None:
    sends = Sends()
    assert [sends.fail() for _ in range(OVERLOADS + 2)] == [False] * (OVERLOADS - 1) + [True, False, False]
    assert sends.breaker.open


def test_one_success_among_them_starts_the_count_anew() -> None:
    sends = Sends()
    for _ in range(OVERLOADS - 1):
        sends.fail()
    assert not sends.succeed()
    for _ in range(OVERLOADS - 1):
        sends.fail()
    assert not sends.breaker.open


def test_a_good_answer_to_what_was_sent_before_the_trouble_says_nothing_about_now() -> None:
    breaker = Breaker()
    for _ in range(OVERLOADS):
        breaker.failed(0.0, refused=False, at_floor=False, probe=False, sent=100)
    assert breaker.open
    assert not breaker.succeeded(99)
    assert breaker.open
    assert breaker.succeeded(101)


def test_it_stays_closed_while_most_of_what_was_sent_since_is_still_out() -> None:
    breaker = Breaker()
    for sent in range(0, 20 * OVERLOADS, 20):
        breaker.failed(0.0, refused=False, at_floor=False, probe=False, sent=sent)
    assert not breaker.open


def test_early_failures_among_many_in_flight_say_nothing() -> None:
    """Failures come back in milliseconds and successes in seconds: what was sent between them may still succeed."""
    breaker = Breaker()
    for seq in range(1, 10 * OVERLOADS, 5):
        breaker.judges(seq)
        breaker.failed(0.1, refused=False, at_floor=False, probe=False, sent=100, unanswered=seq - seq // 5)
    assert not breaker.open


def test_nearly_all_of_what_was_sent_between_the_first_and_the_last_failure_open_it() -> None:
    breaker = Breaker()
    for seq in range(1, 2 * OVERLOADS):
        breaker.judges(seq)
        breaker.failed(0.1, refused=False, at_floor=False, probe=False, sent=100, unanswered=1)
    assert breaker.open
    assert (breaker.first_seq, breaker.last_seq) == (1, 2 * OVERLOADS - 1)


def test_answers_to_what_was_sent_between_two_failures_speak_for_the_lane() -> None:
    breaker = Breaker()
    for seq in range(1, 4 * OVERLOADS, 2):
        breaker.judges(seq)
        breaker.failed(0.1, refused=False, at_floor=False, probe=False, sent=100)
        assert not breaker.succeeded(seq + 1)
        if seq == 2 * OVERLOADS - 1:
            break
    assert not breaker.open


def test_after_a_false_alarm_it_takes_twice_as_many() -> None:
    sends = opened()
    sends.succeed()
    assert [sends.fail() for _ in range(2 * OVERLOADS)] == [False] * (2 * OVERLOADS - 1) + [True]


def test_after_an_outage_it_takes_as_many_as_before() -> None:
    sends = opened()
    sends.fail(sends.breaker.probe_at, probe=True)
    sends.succeed()
    assert [sends.fail() for _ in range(OVERLOADS)] == [False] * (OVERLOADS - 1) + [True]


def test_refusals_open_it_only_where_the_lane_cannot_be_gentler() -> None:
    gentle, at_floor = Sends(), Sends()
    for _ in range(REFUSALS):
        gentle.refuse(at_floor=False)
        at_floor.refuse(at_floor=True)
    assert not gentle.breaker.open
    assert at_floor.breaker.open


def test_the_first_probe_waits_a_little() -> None:
    assert opened(10.0).breaker.probe_at == pytest.approx(10.0 + FIRST_PAUSE_S)


def test_each_failed_probe_doubles_the_pause_up_to_the_longest() -> None:
    sends, pauses = opened(), []
    for _ in range(6):
        now = sends.breaker.probe_at
        sends.fail(now, probe=True)
        pauses.append(sends.breaker.probe_at - now)
    assert pauses == [2.0, 4.0, 8.0, LONGEST_PAUSE_S, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def test_stragglers_sent_before_it_opened_change_nothing() -> None:
    sends = opened(10.0)
    sends.fail(10.5)
    assert sends.breaker.probe_at == pytest.approx(10.0 + FIRST_PAUSE_S)


def test_a_success_closes_it_and_says_so_once() -> None:
    sends = opened()
    assert sends.succeed()
    assert not sends.breaker.open
    assert not sends.succeed()


def test_it_begins_again_with_the_shortest_pause_after_it_was_closed() -> None:
    sends = opened()
    for _ in range(4):
        sends.fail(sends.breaker.probe_at, probe=True)
    sends.succeed()
    for _ in range(OVERLOADS):
        sends.fail(100.0)
    assert sends.breaker.probe_at == pytest.approx(100.0 + FIRST_PAUSE_S)


def test_patience_ends_only_while_it_is_open() -> None:
    sends = opened(10.0)
    assert not sends.breaker.out_of_patience(10.0 + PATIENCE_S)
    assert sends.breaker.out_of_patience(10.0 + PATIENCE_S + 1.0)
    sends.succeed()
    assert not sends.breaker.out_of_patience(10.0 + 2 * PATIENCE_S)


def test_first_headers_are_as_good_as_an_answer() -> None:
    sends = opened()
    assert sends.breaker.admitted(sends.last + 1)
    assert not sends.breaker.open


def test_first_headers_say_nothing_while_answers_break_off() -> None:
    breaker = Breaker()
    for sent in range(1, OVERLOADS + 1):
        breaker.failed(0.0, refused=False, at_floor=False, probe=False, sent=sent, admitted=True)
        assert not breaker.admitted(sent + 1)
    assert breaker.open
    assert breaker.succeeded(OVERLOADS + 1)


def test_after_a_good_answer_first_headers_count_again() -> None:
    breaker = Breaker()
    breaker.failed(0.0, refused=False, at_floor=False, probe=False, sent=1, admitted=True)
    breaker.succeeded(2)
    for _ in range(OVERLOADS):
        breaker.failed(0.0, refused=False, at_floor=False, probe=False, sent=3)
    assert breaker.admitted(4)


def test_trouble_begins_with_the_first_failure_that_counts() -> None:
    failing, refused, gentle = Sends(), Sends(), Sends()
    failing.fail()
    refused.refuse(at_floor=True)
    gentle.refuse(at_floor=False)
    assert failing.breaker.troubled
    assert refused.breaker.troubled
    assert not gentle.breaker.troubled


def test_without_any_answer_patience_is_short_and_counts_from_the_first_request() -> None:
    breaker = Breaker()
    for sent in range(1, OVERLOADS + 1):
        breaker.note("no connection", 10.0)
        breaker.failed(40.0, refused=False, at_floor=False, probe=False, sent=sent)
    assert (breaker.open, breaker.last_message) == (True, "no connection")
    assert not breaker.out_of_patience(10.0 + UNREACHED_S)
    assert breaker.out_of_patience(10.0 + UNREACHED_S + 1.0)


def test_after_one_answer_the_full_patience_applies() -> None:
    breaker = Breaker()
    breaker.failed(0.0, refused=False, at_floor=False, probe=False, sent=1)
    breaker.succeeded(2)
    for sent in range(3, 3 + OVERLOADS):
        breaker.failed(1.0, refused=False, at_floor=False, probe=False, sent=sent)
    assert breaker.open
    assert not breaker.out_of_patience(1.0 + PATIENCE_S)


def test_with_many_in_flight_it_takes_more_failures() -> None:
    """The failures of a hundred requests are back first: five of the first six are no rare chance where 40 % fail."""
    breaker = Breaker()
    for _ in range(1, MOST_NEEDED):
        assert not breaker.failed(0.1, refused=False, at_floor=False, probe=False, sent=100, in_flight=100)
    assert breaker.failed(0.1, refused=False, at_floor=False, probe=False, sent=100, in_flight=100)
