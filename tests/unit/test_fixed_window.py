"""Limits whose whole allowance comes at the start of each window."""

from __future__ import annotations

import pytest
from tests.unit.drive import Run, lane_spec, ok, units

from headway.core.events import RequestAccepted
from headway.core.lanes.lane_memory import export_lane
from headway.core.lanes.meters.fixed_window import LATE_S, SPARE_S, BoundaryWatch, WindowMeter
from headway.core.model import Dimension, Hint, LaneLimits, LimitReport

REQUESTS = Dimension.REQUESTS
#: Ten a second, six hundred in each window.
LIMIT = 600.0


def report(remaining: float, reset_s: float, precision_s: float = 0.0) -> LimitReport:
    return LimitReport(REQUESTS, LIMIT, remaining, reset_s, reset_precision_s=precision_s)


def watched(reports: list[tuple[float, LimitReport]]) -> float | None:
    watch = BoundaryWatch()
    found = [watch.boundary(each, at, LIMIT / 60.0) for at, each in reports]
    return found[-1]


def test_a_reset_that_stays_while_the_allowance_is_used_is_a_boundary() -> None:
    assert watched([(at, report(600.0 - 30.0 * at, 23.0 - at)) for at in (0.0, 1.0, 2.0)]) == pytest.approx(
        23.0
    )


def test_a_bucket_whose_reset_moves_with_each_request_is_none() -> None:
    used = [(at, 30.0 * at) for at in (0.0, 1.0, 2.0, 5.0, 10.0)]
    assert watched([(at, report(600.0 - spent, spent / 10.0)) for at, spent in used]) is None


def test_a_bucket_at_its_end_whose_reset_is_always_a_minute_is_none() -> None:
    assert watched([(at, report(0.0, 60.0)) for at in (0.0, 10.0, 20.0)]) is None


def test_a_rounded_reset_needs_more_to_show_a_boundary() -> None:
    rounded = [(at, report(600.0 - 30.0 * at, 24.0 - at, 2.0)) for at in (0.0, 1.0, 2.0)]
    assert watched(rounded[:2]) is None
    assert watched(rounded) is None
    assert watched([*rounded, (3.0, report(500.0, 21.0, 2.0))]) is not None


def window(boundary_at: float = 23.0) -> WindowMeter:
    return WindowMeter(REQUESTS, LIMIT, 60.0, boundary_at, 0.0)


def sent(meter: WindowMeter, count: int, now: float) -> int:
    """So many are sent at an instant, as long as the meter lets them."""
    for done in range(count):
        if meter.ready_at(1.0, 1.0) > now:
            return done
        meter.reserve(1.0, now)
    return count


def test_an_allowance_is_spent_at_once_and_the_next_one_at_the_boundary() -> None:
    meter = window()
    assert sent(meter, 1000, 1.0) == pytest.approx(LIMIT - 10.0 * SPARE_S, abs=2)
    assert meter.ready_at(1.0, 1.0) == pytest.approx(23.0 + LATE_S, abs=0.2)
    assert sent(meter, 1000, 22.9) == 0
    assert sent(meter, 1000, 23.4) == pytest.approx(LIMIT - 10.0 * SPARE_S, abs=2)
    assert meter.boundary_at == pytest.approx(83.0)


def test_a_boundary_that_passed_unused_leaves_one_allowance() -> None:
    meter = window()
    assert sent(meter, 2000, 500.0) < LIMIT
    assert meter.boundary_at == pytest.approx(503.0)


def test_what_is_given_back_may_be_spent_in_the_same_window() -> None:
    meter = window()
    sent(meter, 1000, 1.0)
    meter.credit(100.0, 2.0)
    assert sent(meter, 1000, 2.0) == pytest.approx(100, abs=2)


def test_a_refusal_closes_the_window() -> None:
    meter = window()
    meter.sync(report(0.0, 22.0), meter.reserve(1.0, 1.0), 1.0, seq=1, refused=True)
    assert sent(meter, 10, 2.0) == 0
    assert sent(meter, 10, 23.4) == 10


def test_a_report_on_a_send_that_was_alone_says_what_was_spent() -> None:
    meter = window()
    meter.sync(report(350.0, 18.0), meter.reserve(1.0, 5.0), 5.0, seq=1)
    assert meter.level(6.0) == pytest.approx(350.0)


def test_reports_on_a_burst_are_chance_and_change_nothing() -> None:
    meter = window()
    marks = [meter.reserve(1.0, 5.0) for _ in range(100)]
    meter.sync(report(501.0, 18.0), marks[3], 5.0, seq=4)
    assert meter.level(6.0) == pytest.approx(500.0)


def test_an_earlier_reset_moves_the_boundary_and_a_later_one_does_not() -> None:
    meter = window(23.0)
    meter.sync(report(599.0, 17.5), meter.reserve(1.0, 5.0), 5.0, seq=1)
    assert meter.boundary_at == pytest.approx(22.5)
    meter.sync(report(598.0, 18.0), meter.reserve(1.0, 6.0), 6.0, seq=2)
    assert meter.boundary_at == pytest.approx(22.5)


def test_a_lane_recognises_windows_from_its_headers_and_records_them() -> None:
    run = Run(units(2000), lane_spec(limits=LaneLimits()))
    left, now = 600, 0.0
    run.at(now)
    while not any(meter.windowed for meter in run.lane().limits.meters) and left > 400:
        for index in run.out:
            left -= 1
            now += 0.001
            run.at(now, RequestAccepted(index, Hint((report(float(left), 23.0 - now),))))
            run.at(now, ok(index))
        now += 0.01
        run.at(now)
    meter = run.lane().limits.meters[0]
    assert isinstance(meter, WindowMeter)
    assert meter.boundary_at == pytest.approx(23.0, abs=0.1)
    assert [one.window_s for one in export_lane(run.lane(), now, now).meters] == [60.0]
