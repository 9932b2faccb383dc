"""Every provider and every kind of error: header sets, error bodies and texts as they were sent."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.hints.row import NOW, Row
from tests.hints.table import TABLE

from headway.core.model import Kind, LimitReport
from headway.providers.limits.hints import understand
from headway.providers.limits.profiles import PROFILES


def rounded(reports: tuple[LimitReport, ...]) -> list[tuple[object, ...]]:
    return [
        (
            report.dimension,
            report.limit,
            report.remaining,
            None if report.reset_s is None else round(report.reset_s, 6),
            report.period_s,
            report.reset_precision_s,
            report.remaining_precision,
        )
        for report in reports
    ]


@pytest.mark.parametrize("row", TABLE, ids=[row.name for row in TABLE])
def test_the_facts_of_a_row(row: Row) -> None:
    facts = understand(row.seen, PROFILES[row.profile], now_utc=NOW)
    assert facts.kind is row.kind
    assert facts.hint.retry_after_s == (None if row.wait is None else pytest.approx(row.wait, abs=1e-6))
    assert facts.hint.dimension is row.dimension
    assert rounded(facts.hint.reports) == rounded(row.reports)
    if row.code is not None:
        assert facts.code == row.code
    if row.step is not None:
        assert facts.hint.precision_s == row.step


def test_the_table_names_each_row_once_and_every_profile() -> None:
    assert [name for name, times in Counter(row.name for row in TABLE).items() if times > 1] == []
    assert {row.profile for row in TABLE} == set(PROFILES)


def test_the_table_has_every_kind_of_error() -> None:
    assert {row.kind for row in TABLE} == {None, *Kind} - {Kind.CRASH}  # Only an executor sees a worker die.
