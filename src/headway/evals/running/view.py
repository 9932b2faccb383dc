"""The results of an eval, as a fold of the records of its units. Nothing is stored of them: a changed threshold changes them at once.

Cells are read row by row, so the memory does not grow with the matrix. A unit without an answer is an error of its cell and never a fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from headway.core.reasons import AccountRefused, NeverAnswered, OnlyFailures, SameComplaint
from headway.core.unit_states import GOOD
from headway.errors import HeadwayError
from headway.evals.assertions import grading, similarity
from headway.evals.assertions.code_results import result_of_code
from headway.evals.assertions.graded_answer import GradedAnswer
from headway.evals.assertions.judge import failed, judge
from headway.evals.assertions.scoring import set_result, verdict
from headway.evals.config.matrix import columns
from headway.evals.programs.answers import output_of
from headway.evals.records import AssertionResult, CellResult, CellStatus, EvalView, TokenUse
from headway.evals.running.cell_requests import with_rubric
from headway.evals.running.cell_values import CellValues, text_of_output, vectors_of
from headway.evals.running.eval_form import form_of, stored_config
from headway.evals.running.planned_units import EARLIER_TURNS, UnitPlan, asked_ids, flat, needs_of
from headway.evals.running.unit_names import (
    PROVIDER_TRANSFORM,
    TRANSFORM,
    assertion_unit,
    best_unit,
    is_answer,
    row_of,
)
from headway.evals.spec import AssertionSpec, Cell, TestSpec
from headway.reason_text import stop_text
from headway.stores.records import LIVE, Job, UnitResult
from headway.stores.store import Store

#: Units that are read at once.
_PAGE: Final = 500
#: The states of a unit that has not ended.
_OPEN: Final = frozenset({"pending", "assigned", "running"})
#: States of a job in which cells that have not ended ran out of time.
_OUT_OF_TIME: Final = "deadline"
#: Why a lane stopped that runs no more of its units until something is fixed: their cells are errors, and not merely unfinished.
_STOPPED: Final = (AccountRefused, NeverAnswered, OnlyFailures, SameComplaint)


def eval_view(store: Store, job: Job) -> EvalView:
    """An eval with its results as they are now."""
    form = form_of(job)
    return EvalView(
        job=job.name,
        state=job.state,
        description=form.spec.description,
        config=stored_config(store, job),
        created_utc=job.created_utc,
        finished_utc=job.finished_utc,
        columns=columns(form.spec),
        rows=form.rows,
        total=form.cells,
        cells=lambda: cell_results(store, job),
        derived_metrics=form.spec.derived_metrics,
    )


def cell_results(store: Store, job: Job) -> Iterator[CellResult]:
    """Every cell, in order."""
    values, stopped = CellValues(job, store), _stopped_lanes(store, job)
    for rows in _rows(store, job):
        values.read([unit for row in rows for unit in row])
        for row in rows:
            yield from RowResults(values, job, row, stopped).cells()


def cell_rows(store: Store, job: Job, after: int, limit: int) -> Iterator[tuple[int, list[CellResult]]]:
    """At most so many rows of cells, from the first whose units have an index above `after` (-1: all), each with its last index."""
    values, stopped = CellValues(job, store), _stopped_lanes(store, job)
    for rows in _rows(store, job, after):
        values.read([unit for row in rows for unit in row])
        for row in rows:
            if limit < 1:
                return
            limit -= 1
            yield row[-1].index, list(RowResults(values, job, row, stopped).cells())


def _stopped_lanes(store: Store, job: Job) -> dict[tuple[str, str], str]:
    """Why lanes stopped in the last run, by provider and model."""
    if job.state in LIVE:
        return {}
    return {
        (route.provider, route.model): stop_text(reason)
        for route in store.routes(job.id)
        if isinstance(reason := job.unfinished.get(str(route.id)), _STOPPED)
    }


def _rows(store: Store, job: Job, after: int = -1) -> Iterator[list[list[UnitResult]]]:
    """The units of rows, several rows at once."""
    rows: list[list[UnitResult]] = []
    size = 0
    for _, units in groupby(_units(store, job, after), key=lambda result: row_of(result.custom_id)):
        rows.append(list(units))
        size += len(rows[-1])
        if size >= _PAGE:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _units(store: Store, job: Job, after: int) -> Iterator[UnitResult]:
    while page := store.results(job.id, after, _PAGE):
        yield from page
        after = page[-1].index


class RowResults:
    """The cells of one row."""

    def __init__(
        self,
        values: CellValues,
        job: Job,
        units: Sequence[UnitResult],
        stopped: Mapping[tuple[str, str], str],
    ) -> None:
        self._values, self._job, self._stopped = values, job, stopped
        self._units = {unit.custom_id: unit for unit in units}
        self._answers = [unit for unit in units if is_answer(unit.custom_id)]

    def cells(self) -> Iterator[CellResult]:
        best = self._best()
        for place, unit in enumerate(self._answers):
            yield self._cell(unit, {number: results[place] for number, results in best.items()})

    def _cell(self, unit: UnitResult, best: Mapping[int, AssertionResult]) -> CellResult:
        values = self._values
        cell = values.cell(unit.index)
        test = values.test(cell)
        bare = self._bare(unit, cell, test)
        if unit.status not in GOOD:
            return self._without_answer(bare, unit)
        output, problem = self._output(unit)
        if problem is not None:
            return self._without_answer(bare, problem)
        try:
            answer = values.graded_with(unit.index, cell, unit, output)
        except HeadwayError as error:
            return msgspec.structs.replace(bare, status="error", error=str(error))
        known = {name: value for name, value in answer.vars.items() if name != EARLIER_TURNS}
        bare = msgspec.structs.replace(bare, output=output, vars=known)
        open_unit = self._first_open(unit, test)
        if open_unit is not None:
            return self._without_answer(bare, open_unit)
        return self._judged(bare, unit, test, answer, best)

    def _judged(
        self,
        bare: CellResult,
        unit: UnitResult,
        test: TestSpec,
        answer: GradedAnswer,
        best: Mapping[int, AssertionResult],
    ) -> CellResult:
        results = [
            best[number] if number in best else self._assertion(unit, test, number, one, answer)
            for number, one in enumerate(test.asserts)
        ]
        said = verdict(test, results)
        status: CellStatus = "error" if said.error else "pass" if said.passed else "fail"
        return msgspec.structs.replace(
            bare,
            status=status,
            error=said.error,
            score=said.score,
            reason=said.reason,
            assertions=tuple(results),
            named_scores=said.named_scores,
        )

    def _bare(self, unit: UnitResult, cell: Cell, test: TestSpec) -> CellResult:
        """A cell before it is judged."""
        figures = self._values.figures(unit) if unit.status in GOOD else None
        return CellResult(
            index=cell.index,
            test_index=cell.test_index,
            prompt_index=cell.prompt_index,
            test=cell.test,
            repetition=cell.repetition,
            unit=unit.custom_id,
            status="pending",
            description=test.description,
            vars=cell.vars,
            metadata=test.metadata,
            prompt=self._prompt(unit),
            latency_ms=None if figures is None else figures.latency_ms,
            cost_usd=unit.cost_usd if figures is None else figures.cost_usd,
            tokens=_tokens_of(unit),
            cached=unit.status == "cached",
            attempts=unit.attempts,
            lane=unit.lane or f"{unit.provider}/{unit.model}",
            finished_utc=unit.finished_utc,
        )

    def _prompt(self, unit: UnitResult) -> str:
        """The prompt as it was sent; "" if it was not made yet."""
        if unit.status not in GOOD and self._values.edges(unit.index):
            return ""
        return self._values.sent_prompt(unit.index)

    def _status(self, unit: UnitResult) -> CellStatus:
        """The status of a cell that this unit keeps from a verdict."""
        if unit.status in _OPEN:
            out_of_time = self._job.state == _OUT_OF_TIME
            return "timeout" if out_of_time else "error" if self._stop_of(unit) else "pending"
        return "timeout" if unit.status == "timed_out" or unit.code == _OUT_OF_TIME else "error"

    def _stop_of(self, unit: UnitResult) -> str:
        """Why the lane of a unit stopped before the unit could run; "": it did not."""
        return self._stopped.get((unit.provider, unit.model), "") if unit.status in _OPEN else ""

    def _without_answer(self, bare: CellResult, unit: UnitResult) -> CellResult:
        """The cell that this unit keeps from a verdict."""
        why = self._stop_of(unit) or _error_of(unit)
        return msgspec.structs.replace(bare, status=self._status(unit), error=why)

    def _output(self, unit: UnitResult) -> tuple[Any, UnitResult | None]:
        """The output after transforms; or the unit that has not succeeded."""
        last = unit
        for name in (PROVIDER_TRANSFORM, TRANSFORM):
            last = self._units.get(f"{unit.custom_id}/{name}", last)
            if last.status not in GOOD:
                return None, last
        return self._values.output_in(last), None

    def _first_open(self, unit: UnitResult, test: TestSpec) -> UnitResult | None:
        """The first unit that judges a cell and has not ended."""
        own = f"{unit.custom_id}/"
        row = f"{row_of(unit.custom_id)}/select-best"
        for name, other in self._units.items():
            if name.startswith((own, row)) and other.status in _OPEN:
                return other
        return None

    # -- assertions -------------------------------------------------------------------------------------------------------

    def _assertion(
        self, unit: UnitResult, test: TestSpec, number: int, one: AssertionSpec, answer: GradedAnswer
    ) -> AssertionResult:
        if not one.children:
            return self._single(unit, test, (number,), one, answer)
        parts = [
            self._single(unit, test, (number, place), child, answer)
            for place, child in enumerate(one.children)
        ]
        return set_result(one, number, tuple(parts), answer.template_values)

    def _single(
        self,
        unit: UnitResult,
        test: TestSpec,
        place: tuple[int, ...],
        one: AssertionSpec,
        answer: GradedAnswer,
    ) -> AssertionResult:
        """One assertion that is no set, with what its units said."""
        number = place[-1]
        if one.transform is not None:
            changed = self._units[assertion_unit(unit.custom_id, place, TRANSFORM)]
            if changed.status not in GOOD:
                return failed(one, number, answer, _error_of(changed))
            answer = msgspec.structs.replace(answer, output=self._values.output_in(changed))
        needs = needs_of(one)
        if needs in ("nothing", "row"):
            return judge(one, number, answer)
        asked = self._asked(unit.custom_id, place, one)
        for other in asked.values():
            if other.status not in GOOD:
                return failed(one, number, answer, _error_of(other))
        one = with_rubric(test, UnitPlan(role="grader", place=place))
        return _with_cost(self._read(needs, one, number, answer, asked), asked.values())

    def _asked(self, answer: str, place: tuple[int, ...], one: AssertionSpec) -> dict[str, UnitResult]:
        """The units of an assertion, by the name of their question."""
        return {name: self._units[unit] for name, unit in asked_ids(answer, place, one).items()}

    def _read(
        self,
        needs: str,
        one: AssertionSpec,
        number: int,
        answer: GradedAnswer,
        asked: Mapping[str, UnitResult],
    ) -> AssertionResult:
        """The result that the answers of an assertion's units say."""
        try:
            if needs == "code":
                return result_of_code(one, number, answer, output_of(asked[""].body or b""))
            if needs == "embedding":
                return similarity.read_similarity(one, number, answer, vectors_of(asked[""].body or b""))
            texts = {name: text_of_output(self._values.output_in(said)) for name, said in asked.items()}
            return grading.read_grade(one, number, answer, texts)
        except HeadwayError as error:
            return failed(one, number, answer, str(error))

    def _best(self) -> dict[int, Sequence[AssertionResult]]:
        """The results of `select-best`: for each such assertion, one result for each cell."""
        cell = self._values.cell(self._answers[0].index)
        test = self._values.test(cell)
        numbers = [place[0] for place, one in flat(test.asserts) if needs_of(one) == "row"]
        return {
            number: self._best_of(test, number, cell, is_first=number == numbers[0]) for number in numbers
        }

    def _best_of(
        self, test: TestSpec, number: int, cell: Cell, *, is_first: bool
    ) -> Sequence[AssertionResult]:
        unit = self._units[best_unit(cell.test_index, number, is_first=is_first)]
        one = test.asserts[number]
        if unit.status not in GOOD:
            nothing = GradedAnswer(output="", vars=cell.vars)
            return [failed(one, number, nothing, _error_of(unit)) for _ in self._answers]
        answers = [
            self._values.graded_with(
                answer.index, self._values.cell(answer.index), answer, self._output(answer)[0]
            )
            for answer in self._answers
        ]
        said = text_of_output(self._values.output_in(unit))
        return grading.read_best(one, number, answers, said)


def _error_of(unit: UnitResult) -> str:
    """Why a unit has no answer."""
    if unit.message or unit.code:
        return unit.message or str(unit.code)
    return ""


def _tokens_of(unit: UnitResult) -> TokenUse:
    return TokenUse(
        unit.input_tokens or 0, unit.output_tokens or 0, unit.cached_tokens or 0, 1 if unit.attempts else 0
    )


def _with_cost(result: AssertionResult, asked: Any) -> AssertionResult:
    """A result with the cost and the tokens of what was asked for it."""
    units = list(asked)
    costs = [unit.cost_usd for unit in units if unit.cost_usd is not None]
    uses = [_tokens_of(unit) for unit in units]
    return msgspec.structs.replace(
        result,
        cost_usd=sum(costs) if costs else None,
        tokens=TokenUse(
            sum(use.input for use in uses),
            sum(use.output for use in uses),
            sum(use.cached for use in uses),
            sum(use.requests for use in uses),
        ),
    )
