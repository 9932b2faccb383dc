"""Two jobs, or two models of one job, on the same rows: which answers differ.

Rows are matched by their ids; the id of a row in a job with several models is that in front of `@MODEL`. One page of rows is in memory at
a time, and the differences that are to be shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from headway.batch.answer_text import answer_of, plain_text
from headway.batch.inputs.model_variants import models_of, split_id
from headway.core.unit_states import GOOD
from headway.errors import UsageError
from headway.reports.models import ModelReport, routes_of, routes_report
from headway.stores.records import Job, UnitResult
from headway.stores.store import Store

PAGE: Final = 500
_OPEN: Final = frozenset({"pending", "assigned", "running"})


class DiffSide(msgspec.Struct, frozen=True):
    """A job, or one model of a job with several. `model` is "" for a whole job."""

    job: Job
    model: str = ""

    def unit_id(self, row: str) -> str:
        """The id of the unit of a row."""
        return f"{row}@{self.model}" if self.model else row


class SideReport(msgspec.Struct, frozen=True):
    """One side of a comparison. `prompt` is None if the rows have prompts of their own."""

    job: str
    models: Sequence[str]
    prompt: str | None
    system: str | None
    figures: ModelReport


class RowDifference(msgspec.Struct, frozen=True):
    """A row with two different answers."""

    id: str
    first: str
    second: str


class DiffCounts(msgspec.Struct):
    """How many rows have the same answer, different ones, no answer on one side or both (`failed`, `unfinished`), or are only on one
    side. `other_input`: rows with the same id and different data of their own.
    """

    same: int = 0
    changed: int = 0
    failed: int = 0
    unfinished: int = 0
    only_first: int = 0
    only_second: int = 0
    other_input: int = 0


class DiffReport(msgspec.Struct, frozen=True):
    """Two sides, and the first rows that changed."""

    first: SideReport
    second: SideReport
    counts: DiffCounts
    rows: Sequence[RowDifference]


def sides_of(first: Job, second: Job | None, models: Sequence[str]) -> tuple[DiffSide, DiffSide]:
    """What is compared. `models` are the two models that the user named, or none."""
    if second is None:
        own = models_of(first)
        chosen = models or (own if len(own) == 2 else ())
        if not chosen:
            raise UsageError(
                f"job {first.name} has several models: {', '.join(own)}"
                if own
                else f"job {first.name} has one model",
                hint=f"headway diff {first.name} --models {own[0]} {own[1]}" if own else "name a second job",
            )
        return _side(first, chosen[0]), _side(first, chosen[1])
    if models:
        return _side(first, models[0]), _side(second, models[1])
    several = [job for job in (first, second) if models_of(job)]
    if several and not set(models_of(first)) & set(models_of(second)):
        raise UsageError(
            f"job {several[0].name} has several models: {', '.join(models_of(several[0]))}",
            hint="say which model of each job to compare: --models A B",
        )
    return DiffSide(first), DiffSide(second)


def _side(job: Job, model: str) -> DiffSide:
    own = models_of(job)
    if own and model not in own:
        raise UsageError(f"--models: job {job.name} has no model '{model}'", hint=f"it has {', '.join(own)}")
    if not own and model not in job.models and model not in {name for *_, name in job.models.values()}:
        known = ", ".join(name for *_, name in job.models.values())
        raise UsageError(f"--models: job {job.name} has no model '{model}'", hint=f"it has {known}")
    return DiffSide(job, model if own else "")


def diff_report(store: Store, first: DiffSide, second: DiffSide, limit: int) -> DiffReport:
    """Compare all rows. `limit`: at most so many changed rows are kept; 0: all of them."""
    counts = DiffCounts()
    rows: list[RowDifference] = []
    matched = 0
    for row, one, other in _pairs(store, first, second):
        if other is None:
            counts.only_first += 1
            continue
        matched += 1
        counts.other_input += one.metadata != other.metadata
        if one.status in GOOD and other.status in GOOD:
            texts = _text(one), _text(other)
            if _is_same(*texts):
                counts.same += 1
                continue
            counts.changed += 1
            if not limit or len(rows) < limit:
                rows.append(RowDifference(row, *texts))
        elif one.status in _OPEN or other.status in _OPEN:
            counts.unfinished += 1
        else:
            counts.failed += 1
    reports = _side_report(store, first), _side_report(store, second)
    counts.only_second = reports[1].figures.units - matched
    return DiffReport(*reports, counts, rows)


def _pairs(
    store: Store, first: DiffSide, second: DiffSide
) -> Iterator[tuple[str, UnitResult, UnitResult | None]]:
    """The id of each row of the first side, its unit there, and its unit on the second side."""
    after = -1
    while page := store.results(first.job.id, after, PAGE):
        after = page[-1].index
        rows = {row: unit for unit in page if (row := _row_id(first, unit)) is not None}
        wanted = [second.unit_id(row) for row in rows]
        found = {unit.custom_id: unit for unit in store.results_by_id(second.job.id, wanted)}
        yield from ((row, unit, found.get(second.unit_id(row))) for row, unit in rows.items())


def _row_id(side: DiffSide, unit: UnitResult) -> str | None:
    """The id of the unit's row; None if the unit belongs to another model."""
    if not side.model:
        return unit.custom_id
    row, model = split_id(unit.custom_id, models_of(side.job))
    return row if model == side.model else None


def _text(unit: UnitResult) -> str:
    body = unit.body or b""
    text = plain_text(body)
    return answer_of(body) if text is None else text


def _is_same(first: str, second: str) -> bool:
    """Whether two answers say the same: spaces around them do not matter, nor the form of JSON."""
    if first.strip() == second.strip():
        return True
    if not (first.lstrip().startswith(("{", "[")) and second.lstrip().startswith(("{", "["))):
        return False
    try:
        return bool(msgspec.json.decode(first) == msgspec.json.decode(second))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def _side_report(store: Store, side: DiffSide) -> SideReport:
    routes = routes_of(store, side.job, side.model)
    names = list(dict.fromkeys(route.name for route in store.routes(side.job.id) if route.id in routes))
    form = side.job.form
    return SideReport(
        side.job.name,
        names,
        form.get("prompt"),
        form.get("system"),
        routes_report(store, side.job, routes),
    )
