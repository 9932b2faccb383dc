"""The units of a job as rows of a report: how each ended, what it took, and its answer as text. Read page by page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from headway.batch.answer_text import answer_of
from headway.core.unit_states import ENDED, GOOD
from headway.stores.records import Job, UnitResult
from headway.stores.store import Store

_PAGE: Final = 500


class ReportedUnit(msgspec.Struct, frozen=True, kw_only=True):
    """A unit of a report. Without an answer, `error` says why, if it has ended."""

    id: str
    status: str
    attempts: int
    lane: str
    took_s: float | None
    cost_usd: float | None
    input_tokens: int
    output_tokens: int
    error: str
    answer: str


def reported_units(store: Store, job: Job, most: int) -> Iterator[ReportedUnit]:
    """The first `most` units of a job, in the order of its input."""
    last = -1
    while last + 1 < most:
        rows = store.results(job.id, last, min(_PAGE, most - last - 1))
        if not rows:
            return
        last = rows[-1].index
        yield from map(_reported_unit, rows)


def _reported_unit(row: UnitResult) -> ReportedUnit:
    good, ended = row.status in GOOD, row.status in ENDED
    timed = ended and row.started_utc is not None and row.finished_utc is not None
    reason = ": ".join(part for part in (row.code, row.message) if part)
    return ReportedUnit(
        id=row.custom_id,
        status=row.status,
        attempts=row.attempts,
        lane=f"{row.provider}/{row.model}" if row.model else row.provider,
        took_s=max(0.0, (row.finished_utc or 0.0) - (row.started_utc or 0.0)) if timed else None,
        cost_usd=row.cost_usd,
        input_tokens=row.input_tokens or 0,
        output_tokens=row.output_tokens or 0,
        error="" if good else reason,
        answer=answer_of(row.body) if good and row.body else "",
    )
