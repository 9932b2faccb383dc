"""What must hold for all facts, for any input."""

from __future__ import annotations

from math import isfinite

from headway.core.lanes.meters.meter import SANE_RESET
from headway.core.model import Dimension, Hint, Kind, LimitReport
from headway.providers.error_messages import LONGEST as LONGEST_MESSAGE
from headway.providers.limits.durations import LARGEST, LONGEST_S
from headway.providers.limits.hints import Facts


def check(facts: Facts) -> None:
    """Raise AssertionError if a fact is impossible."""
    assert facts.kind is None or isinstance(facts.kind, Kind)
    assert facts.kind is not Kind.CRASH
    assert isinstance(facts.message, str)
    assert len(facts.message) <= LONGEST_MESSAGE
    assert isinstance(facts.code, str)
    assert len(facts.code) <= 100
    _check_hint(facts.hint)


def _check_hint(hint: Hint) -> None:
    assert hint.retry_after_s is None or _within(hint.retry_after_s, LONGEST_S)
    assert _within(hint.precision_s, LONGEST_S)
    assert hint.dimension is None or isinstance(hint.dimension, Dimension)
    keys = [(report.dimension, report.period_s) for report in hint.reports]
    assert len(keys) == len(set(keys)), "two reports on one limit"
    for report in hint.reports:
        _check_report(report)
    for window in hint.windows:
        assert 0 < len(window.name) <= 40
        assert window.used is None or _within(window.used, LARGEST)
        assert window.resets_utc is None or _within(window.resets_utc, LARGEST)


def _check_report(report: LimitReport) -> None:
    assert isinstance(report.dimension, Dimension)
    assert 0.0 < report.limit < LARGEST
    assert report.remaining is None or _within(report.remaining, report.limit)
    assert 0.0 < report.period_s <= LONGEST_S
    assert report.reset_s is None or _within(report.reset_s, max(60.0, SANE_RESET * report.period_s))
    assert _within(report.reset_precision_s, LONGEST_S)
    assert _within(report.remaining_precision, LARGEST)


def _within(value: float, largest: float) -> bool:
    return isfinite(value) and 0.0 <= value <= largest
