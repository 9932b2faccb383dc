"""The units behind the errors of an eval, for `--retry-errors`: those without an answer, and graders whose answer says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headway.evals.records import AssertionResult, CellResult
from headway.evals.running.eval_form import StoredTests
from headway.evals.running.planned_units import asked_ids, assertion_at, needs_of
from headway.evals.running.unit_names import best_unit, row_of
from headway.evals.running.view import cell_results
from headway.evals.spec import TestSpec
from headway.stores.records import Job
from headway.stores.store import Store

#: Ids that are looked up at once.
_PAGE: Final = 500


def error_units(store: Store, job: Job) -> list[int]:
    """The indexes of the units to run again. Those that were skipped because of them run again, too."""
    wanted = set(store.failed(job.id))
    tests = StoredTests(job.id)
    ids: list[str] = []
    for cell in cell_results(store, job):
        if cell.status == "error":
            ids += _asked_for(cell, tests.test(store, cell.test))
    for first in range(0, len(ids), _PAGE):
        wanted.update(result.index for result in store.results_by_id(job.id, ids[first : first + _PAGE]))
    return store.with_skipped(job.id, sorted(wanted))


def _asked_for(cell: CellResult, test: TestSpec) -> Iterator[str]:
    """The units of a cell's assertions with errors."""
    for result in cell.assertions:
        for place in _places(result):
            one = assertion_at(test.asserts, place)
            if needs_of(one) == "row":
                row = row_of(cell.unit)
                yield from (best_unit(row, place[0], is_first=first) for first in (True, False))
            elif needs_of(one) != "nothing":
                yield from asked_ids(cell.unit, place, one).values()


def _places(result: AssertionResult) -> Iterator[tuple[int, ...]]:
    """The places of a result with an error: its own, or those of its parts."""
    if result.parts:
        yield from ((result.number, part.number) for part in result.parts if part.error)
    elif result.error:
        yield (result.number,)
