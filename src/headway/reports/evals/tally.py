"""Counts the cells of an eval in one pass, in a memory that does not grow with what the cells contain.

For each test and column it keeps two small integers and a sum of scores; for each provider its latencies and costs, 8 bytes each. A test here
is a test of the configuration with one combination of its variables: its repetitions belong together.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from headway.evals.records import AssertionResult, CellResult, CellStatus, Column, EvalView, TokenUse

#: More combinations of variables of one test, or repetitions of it, are not expected by the numbering of tests.
_MOST_PER_TEST: Final = 1 << 32


class CellCounts(msgspec.Struct):
    """Cells by how they ended. `errors` have no verdict: no answer, or a grader that failed. They are neither passes nor fails."""

    passed: int = 0
    failed: int = 0
    errors: int = 0
    timeouts: int = 0
    pending: int = 0

    @property
    def judged(self) -> int:
        return self.passed + self.failed

    @property
    def total(self) -> int:
        return self.judged + self.errors + self.timeouts + self.pending

    def add(self, status: CellStatus) -> None:
        match status:
            case "pass":
                self.passed += 1
            case "fail":
                self.failed += 1
            case "error":
                self.errors += 1
            case "timeout":
                self.timeouts += 1
            case "pending":
                self.pending += 1


class MoneySum(msgspec.Struct):
    """A sum of costs. `unknown` counts those without a price."""

    usd: float = 0.0
    priced: int = 0
    unknown: int = 0

    def add(self, usd: float | None) -> None:
        if usd is None:
            self.unknown += 1
        else:
            self.usd += usd
            self.priced += 1

    @property
    def known(self) -> float | None:
        """The sum; None if no price was known."""
        return self.usd if self.priced else None


class ScoresByTest:
    """The verdicts of a column, test by test."""

    __slots__ = ("passes", "scores", "trials")

    def __init__(self) -> None:
        self.passes = array("L")
        self.trials = array("L")
        self.scores = array("d")

    def reach(self, tests: int) -> None:
        """Have a place for so many tests."""
        if (missing := tests - len(self.trials)) > 0:
            self.passes.extend([0] * missing)
            self.trials.extend([0] * missing)
            self.scores.extend([0.0] * missing)

    def add(self, test: int, passed: bool, score: float) -> None:
        self.reach(test + 1)
        self.passes[test] += passed
        self.trials[test] += 1
        self.scores[test] += score


class ColumnTally:
    """The counts of one column."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.counts = CellCounts()
        self.tests = ScoresByTest()
        self.score = 0.0
        self.cost, self.grading_cost = MoneySum(), MoneySum()
        self.tokens, self.grading_tokens = TokenUse(), TokenUse()
        self.cached = 0
        self.latency_ms = 0.0
        self.latencies = array("d")
        self.assertions = [0, 0]
        self.metric_sums: dict[str, float] = {}
        self.metric_counts: Counter[str] = Counter()

    def add(self, cell: CellResult, test: int) -> None:
        self.counts.add(cell.status)
        if cell.status == "pending":
            return
        if cell.status in ("pass", "fail"):
            self.tests.add(test, cell.status == "pass", cell.score)
            self.score += cell.score
            for name, value in cell.named_scores.items():
                self.metric_sums[name] = self.metric_sums.get(name, 0.0) + value
                self.metric_counts[name] += 1
        self._add_use(cell)
        for result in flat(cell.assertions):
            self.assertions[result.passed] += not result.error
        for result in leaves(cell.assertions):
            if result.tokens.requests or result.cost_usd is not None:
                self.grading_cost.add(result.cost_usd)
                self.grading_tokens = plus(self.grading_tokens, result.tokens)

    def _add_use(self, cell: CellResult) -> None:
        self.tokens = plus(self.tokens, cell.tokens)
        self.cached += cell.cached
        if has_answer(cell):
            self.cost.add(cell.cost_usd)
        if cell.latency_ms is not None:
            self.latency_ms += cell.latency_ms
            if is_timed(cell):
                self.latencies.append(cell.latency_ms)


class ProviderTally:
    """What is counted of all columns of a provider."""

    def __init__(self) -> None:
        self.latencies = array("d")
        self.costs = array("d")
        self.cost = MoneySum()
        self.tokens = TokenUse()
        self.cells = 0

    def add(self, cell: CellResult) -> None:
        self.cells += 1
        self.tokens = plus(self.tokens, cell.tokens)
        if not has_answer(cell):
            return
        self.cost.add(cell.cost_usd)
        if cell.cost_usd is not None:
            self.costs.append(cell.cost_usd)
        if is_timed(cell):
            self.latencies.append(cell.latency_ms or 0.0)


class RepeatedOutcome(NamedTuple):
    """A test in one column: how many of its repetitions passed, of those that have a verdict."""

    row: int
    test: int
    prompt_index: int
    passed: int
    judged: int


class EvalTally:
    """The counts of an eval. Cells are added row by row."""

    def __init__(self, view: EvalView) -> None:
        self.columns = {column.prompt_index: ColumnTally(column) for column in view.columns}
        self.providers: dict[tuple[str, str], ProviderTally] = {}
        self.counts = CellCounts()
        self.repetitions = 0
        self._of_test: dict[tuple[int, int], int] = {}
        self._seen: Counter[int] = Counter()
        self._row = -1
        self._test = -1
        #: The first row and the number in the configuration of each test.
        self.first_rows, self.numbers = array("L"), array("L")

    @property
    def tests(self) -> int:
        return len(self.first_rows)

    def add(self, cell: CellResult) -> None:
        if cell.test_index != self._row:
            self._row, self._test = cell.test_index, self._test_of(cell)
        self.counts.add(cell.status)
        column = self.columns[cell.prompt_index]
        column.add(cell, self._test)
        if cell.status != "pending":
            name = column.column.provider, column.column.provider_label
            self.providers.setdefault(name, ProviderTally()).add(cell)

    def _test_of(self, cell: CellResult) -> int:
        """The number of the test that a new row belongs to: the n-th row of each repetition has the n-th combination of variables."""
        self.repetitions = max(self.repetitions, cell.repetition + 1)
        seen = cell.test * _MOST_PER_TEST + cell.repetition
        combination = self._seen[seen]
        self._seen[seen] += 1
        number = self._of_test.setdefault((cell.test, combination), self.tests)
        if number == self.tests:
            self.first_rows.append(cell.test_index)
            self.numbers.append(cell.test)
        return number

    def outcomes(self) -> Iterator[RepeatedOutcome]:
        """How often each test passed in each column, test by test."""
        for column in self.columns.values():
            column.tests.reach(self.tests)
        for place in range(self.tests):
            for index, column in self.columns.items():
                if judged := column.tests.trials[place]:
                    yield RepeatedOutcome(
                        self.first_rows[place], self.numbers[place], index, column.tests.passes[place], judged
                    )


def tally_of(view: EvalView) -> EvalTally:
    """All cells of an eval, counted."""
    tally = EvalTally(view)
    for cell in view.cells():
        tally.add(cell)
    return tally


def has_answer(cell: CellResult) -> bool:
    """Whether the provider answered, though a grader may have failed later."""
    return cell.status in ("pass", "fail") or (cell.status == "error" and cell.output is not None)


def is_timed(cell: CellResult) -> bool:
    """Whether the latency is the provider's: not that of a cached answer, nor of one that did not come."""
    return cell.latency_ms is not None and not cell.cached and has_answer(cell)


def leaves(assertions: Iterable[AssertionResult]) -> Iterator[AssertionResult]:
    """The assertions, and those of sets instead of the sets."""
    for result in assertions:
        if result.parts:
            yield from leaves(result.parts)
        else:
            yield result


def flat(assertions: Iterable[AssertionResult]) -> Iterator[AssertionResult]:
    """The assertions, each set with its parts behind it."""
    for result in assertions:
        yield result
        yield from flat(result.parts)


def plus(one: TokenUse, other: TokenUse) -> TokenUse:
    """Two uses together."""
    return TokenUse(
        one.input + other.input,
        one.output + other.output,
        one.cached + other.cached,
        one.requests + other.requests,
    )
