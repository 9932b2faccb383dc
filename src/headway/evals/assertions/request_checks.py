"""Checks of what a request took: its cost, its latency, and why the answer ended. PURE."""

from __future__ import annotations

from headway.evals.assertions.graded_answer import CannotJudge, CheckFinding, Demand, GradedAnswer


def _threshold(demand: Demand, unit: str) -> float:
    if demand.threshold is None:
        raise CannotJudge("it has no threshold", hint=f"write 'threshold' in {unit}")
    return demand.threshold


def cost(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    threshold = _threshold(demand, "USD")
    if answer.cost_usd is None:
        hint = "set inputCost and outputCost in config of the provider, and ask again with --fresh"
        raise CannotJudge("the cost of the answer is not known", hint=hint)
    return CheckFinding(
        answer.cost_usd <= threshold, f"it cost {answer.cost_usd:.2g} USD; the threshold is {threshold:g}"
    )


def latency(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    threshold = _threshold(demand, "milliseconds")
    if answer.latency_ms is None:
        raise CannotJudge(
            "the latency of the answer is not known", hint="answers of a cache have none: --no-cache"
        )
    return CheckFinding(
        answer.latency_ms <= threshold, f"it took {answer.latency_ms:.0f} ms; the threshold is {threshold:g}"
    )


def finish_reason(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    wanted = demand.text()
    if not answer.finish_reason:
        return CheckFinding(False, "the provider gave no finish reason")
    return CheckFinding(
        answer.finish_reason.lower() == wanted.lower(), f"the finish reason is '{answer.finish_reason}'"
    )
