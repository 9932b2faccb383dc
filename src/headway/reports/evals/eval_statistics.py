"""The figures of an eval: columns, providers, and columns compared. Every output shows these and computes none of its own."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headway.evals.assertions.derived_metrics import derived
from headway.evals.records import Column, EvalView, TokenUse
from headway.reports.evals.comparisons import PairComparison, compared
from headway.reports.evals.intervals import PassRate, pass_rate
from headway.reports.evals.percentiles import Percentiles, percentiles
from headway.reports.evals.tally import CellCounts, ColumnTally, EvalTally, ProviderTally, tally_of


class MetricStatistics(msgspec.Struct, frozen=True):
    """A named metric over the cells of a column that have it."""

    sum: float
    count: int
    mean: float


class Consistency(msgspec.Struct, frozen=True):
    """Of repeated tests: how many pass each time, sometimes, and never."""

    always: int
    sometimes: int
    never: int


class ColumnStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """One provider with one prompt. The pass rate and the mean score are those of cells with a verdict; None without any.

    Costs are None if no price is known; `unpriced` counts answers without one.
    """

    column: Column
    counts: CellCounts
    pass_rate: PassRate | None
    mean_score: float | None
    score_sum: float
    cost_usd: float | None
    unpriced: int
    tokens: TokenUse
    grading_cost_usd: float | None
    grading_tokens: TokenUse
    cached: int
    latency_ms: Percentiles | None
    total_latency_ms: float
    passed_assertions: int
    failed_assertions: int
    metrics: dict[str, MetricStatistics]
    derived_metrics: dict[str, float]
    #: None if tests are not repeated.
    consistency: Consistency | None


class ProviderStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A provider with all its prompts. Percentiles are those of single answers; cached ones have no latency."""

    provider: str
    label: str
    cells: int
    cost_usd: float | None
    unpriced: int
    tokens: TokenUse
    latency_ms: Percentiles | None
    cost_per_answer: Percentiles | None


class EvalStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of an eval. `tests` counts tests with their variables, whatever their repetitions."""

    job: str
    state: str
    description: str
    rows: int
    tests: int
    repetitions: int
    counts: CellCounts
    columns: tuple[ColumnStatistics, ...]
    providers: tuple[ProviderStatistics, ...]
    comparisons: tuple[PairComparison, ...]

    @property
    def passed_share(self) -> float:
        """Passes of all cells: an error has not passed. For `--fail-under`. Without cells it is 1."""
        return self.counts.passed / self.counts.total if self.counts.total else 1.0

    @property
    def cost_usd(self) -> float | None:
        """All known costs, graders included."""
        known = [
            usd for one in self.columns for usd in (one.cost_usd, one.grading_cost_usd) if usd is not None
        ]
        return sum(known) if known else None


def eval_statistics(view: EvalView) -> EvalStatistics:
    """Reads all cells once."""
    return statistics_of(view, tally_of(view))


def statistics_of(view: EvalView, tally: EvalTally) -> EvalStatistics:
    """The same of cells that have been counted."""
    for column in tally.columns.values():
        column.tests.reach(tally.tests)
    columns = list(tally.columns.values())
    repeated = tally.repetitions > 1
    return EvalStatistics(
        job=view.job,
        state=view.state,
        description=view.description,
        rows=view.rows,
        tests=tally.tests,
        repetitions=tally.repetitions,
        counts=tally.counts,
        columns=tuple(_column(one, view.derived_metrics, repeated) for one in columns),
        providers=tuple(_provider(name, one) for name, one in tally.providers.items()),
        comparisons=compared(columns),
    )


def _column(tally: ColumnTally, expressions: Mapping[str, str], repeated: bool) -> ColumnStatistics:
    counts = tally.counts
    metrics = {
        name: MetricStatistics(total, count := tally.metric_counts[name], total / count)
        for name, total in sorted(tally.metric_sums.items())
    }
    return ColumnStatistics(
        column=tally.column,
        counts=counts,
        pass_rate=pass_rate(tally.tests.passes, tally.tests.trials),
        mean_score=tally.score / counts.judged if counts.judged else None,
        score_sum=tally.score,
        cost_usd=tally.cost.known,
        unpriced=tally.cost.unknown,
        tokens=tally.tokens,
        grading_cost_usd=tally.grading_cost.known,
        grading_tokens=tally.grading_tokens,
        cached=tally.cached,
        latency_ms=percentiles(tally.latencies),
        total_latency_ms=tally.latency_ms,
        passed_assertions=tally.assertions[1],
        failed_assertions=tally.assertions[0],
        metrics=metrics,
        derived_metrics=derived(expressions, tally.metric_sums, counts.judged),
        consistency=_consistency(tally) if repeated else None,
    )


def _consistency(tally: ColumnTally) -> Consistency:
    always = sometimes = never = 0
    for passed, count in zip(tally.tests.passes, tally.tests.trials, strict=True):
        always += bool(count) and passed == count
        never += bool(count) and not passed
        sometimes += 0 < passed < count
    return Consistency(always, sometimes, never)


def _provider(name: tuple[str, str], tally: ProviderTally) -> ProviderStatistics:
    return ProviderStatistics(
        provider=name[0],
        label=name[1],
        cells=tally.cells,
        cost_usd=tally.cost.known,
        unpriced=tally.cost.unknown,
        tokens=tally.tokens,
        latency_ms=percentiles(tally.latencies),
        cost_per_answer=percentiles(tally.costs),
    )
