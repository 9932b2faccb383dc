"""Windows of clock minutes, where headers report what is left and no reset."""

from __future__ import annotations

import pytest

from headway.core.lanes.learning.level_watch import LevelWatch, shows_window
from headway.core.lanes.meters.clock_window import FIRST_STEP_S, NOT_REFUSED_S, ClockWindow
from headway.core.lanes.meters.fixed_window import LATE_S
from headway.core.model import Dimension, LimitReport
from headway.providers.limits.hints import success_hint
from headway.providers.limits.profiles import profile_for

REQUESTS = Dimension.REQUESTS
#: Ten a second, six hundred in each window.
LIMIT = 600.0
PER_S = LIMIT / 60.0


def left(remaining: float) -> LimitReport:
    return LimitReport(REQUESTS, LIMIT, remaining)


def watched(levels: list[tuple[float, int, float, float]]) -> list[str]:
    """What the watch says of these: when a request was sent, its number, when it was answered, what it reports."""
    watch = LevelWatch()
    return [watch.observe(left(level), sent, sent_at, now) for sent_at, sent, now, level in levels]


def test_what_stays_left_while_much_is_sent_is_a_window() -> None:
    """It is counted in the order of sending, and answers take any time."""
    steps = [(0.05 * n, n, 0.05 * n + (7 * n % 13), LIMIT - n) for n in range(1, 60)]
    assert "sent" in watched(steps)


def test_a_window_that_counts_answers_is_recognised_too() -> None:
    """All of it was sent at once, and what is in flight seems to be left."""
    assert "answered" in watched([(0.0, 59 - n, 0.05 * n, LIMIT - n) for n in range(1, 60)])


@pytest.mark.parametrize("per_s", [2.0, 9.0, 20.0, 100.0])
def test_what_a_bucket_refills_shows(per_s: float) -> None:
    levels = []
    for n in range(1, 400):
        at = n / per_s
        levels.append((at, n, at + 1.0, min(LIMIT, LIMIT + PER_S * at - n)))
    assert set(watched(levels)) == {""}


def test_a_refusal_long_after_the_last_accepted_request_is_no_buckets() -> None:
    assert shows_window(dry_s=0.6, cost_s=0.1)
    assert not shows_window(dry_s=0.4, cost_s=0.1)
    assert not shows_window(dry_s=5.0, cost_s=2.0)


def window(boundary_at: float = 23.0) -> ClockWindow:
    meter = ClockWindow(REQUESTS, LIMIT, 60.0, boundary_at, 0.0)
    meter.unit_s = 1.0 / PER_S
    return meter


def sent(meter: ClockWindow, count: int, now: float) -> int:
    """So many are sent at an instant, as long as the meter lets them."""
    for done in range(count):
        if meter.ready_at(1.0, 8.0) > now + 1e-9:
            return done
        meter.reserve(1.0, now)
    return count


def test_the_whole_allowance_is_used_and_one_request_tries_the_boundary() -> None:
    meter = window()
    assert sent(meter, 1000, 1.0) == LIMIT
    assert sent(meter, 1000, 23.0) == 0
    assert sent(meter, 1000, 23.0 + LATE_S) == 1
    meter.sync(left(LIMIT - 1.0), 1.0, 23.0 + LATE_S, 601, 1.0)
    assert meter.sure
    assert sent(meter, 1000, 23.2) == LIMIT - 1
    assert sent(meter, 1000, 83.0 + LATE_S) == LIMIT, "the second boundary needs no trial"


def test_a_trial_that_is_refused_is_repeated_a_little_later() -> None:
    meter = window()
    sent(meter, 1000, 1.0)
    sent(meter, 1, 23.1)
    meter.refused(23.1, 23.15)
    meter.credit(1.0, 23.15)
    assert sent(meter, 10, 23.15) == 0
    assert sent(meter, 10, 23.16 + FIRST_STEP_S) == 1
    assert sent(meter, 10, 23.17 + FIRST_STEP_S + NOT_REFUSED_S) == 10, "no refusal came back"


def test_a_boundary_that_brings_little_is_none() -> None:
    meter = window()
    sent(meter, 1000, 1.0)
    sent(meter, 1, 23.1)
    meter.sync(left(40.0), 1.0, 23.1, 601, 1.0)
    assert meter.disproved


def test_a_refusal_closes_the_window_and_its_refund_does_not_open_it() -> None:
    meter = window()
    sent(meter, 100, 1.0)
    meter.refused(1.0, 1.1)
    meter.credit(1.0, 1.1)
    assert sent(meter, 10, 22.0) == 0
    assert meter.reopens_at == pytest.approx(23.0 + LATE_S)
    assert meter.retry_wait_s(60.0, 3.0) == pytest.approx(20.0 + LATE_S), (
        "a whole period says: in the next window"
    )
    assert meter.retry_wait_s(30.0, 3.0) == 30.0


def test_a_report_that_counts_late_is_less_than_all_that_is_in_flight() -> None:
    meter = window()
    meter.late, meter.unanswered = True, lambda: 101.0
    sent(meter, 150, 1.0)
    meter.sync(left(450.0), 1.0, 1.0, 150, 1.0)
    assert meter.level(2.0) == pytest.approx(350.0)
    meter.unanswered = lambda: 1.0
    meter.sync(left(420.0), 1.0, 1.0, 150, 1.0)
    assert meter.level(2.0) == pytest.approx(420.0), "nothing else is in flight, so the report is exact"


def test_reports_without_a_reset_come_with_the_next_minute_of_the_clock() -> None:
    levels = {"x-ratelimit-limit-requests": "600", "x-ratelimit-remaining-requests": "599"}
    profile = profile_for("openai")
    minute_utc = 1_763_580_000.0  # 19:20:00 GMT
    for headers, local_utc, left_s in (
        (levels, minute_utc + 12.5, 47.5),
        ({**levels, "date": "Wed, 19 Nov 2025 19:20:12 GMT"}, minute_utc + 12.5, 47.5),
        ({**levels, "date": "Wed, 19 Nov 2025 19:20:12 GMT"}, minute_utc + 300.0, 48.0),
        ({**levels, "x-ratelimit-reset-requests": "1s"}, minute_utc + 12.5, None),
    ):
        hint = success_hint(headers, profile, local_utc)
        assert hint is not None
        assert [report.minute_left_s for report in hint.reports] == [left_s]
