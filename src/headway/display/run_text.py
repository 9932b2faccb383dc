"""The summary of a run that ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from headway.display.formatting import duration
from headway.display.status_text import failure_lines
from headway.display.stop_advice import shown_path
from headway.display.usage_text import budget_line, cached_lines, lane_lines, prediction_lines, use_text
from headway.engine.run_result import RunResult
from headway.reports.jobs import JobReport
from headway.reports.usage import UseReport
from headway.stores.answer_cache import CallsSaved

_ENDS: Final = {
    "complete": "done",
    "failed": "done, with failures",
    "stopped": "stopped: a lane cannot continue",
    "deadline": "stopped: --max-duration reached",
    "budget": "stopped: the budget is used up",
    "parked": "parked: a lane is held for longer than --max-hold",
    "interrupted": "interrupted",
    "cancelled": "cancelled",
}


class RunSummary(msgspec.Struct, frozen=True):
    """The content of a summary. `stops` and `next_step` are text; `uses` are by the lane's key."""

    job: JobReport
    ending: RunResult
    stops: Sequence[str]
    lane_budgets_spent: bool
    uses: Mapping[str, UseReport]
    cached: CallsSaved
    examples: Sequence[str]
    out: Path
    next_step: str


def summary_lines(summary: RunSummary) -> list[str]:
    """The lines of a summary. Stopped lanes come first, because they explain the figures."""
    job, ending = summary.job, summary.ending
    how = "stopped: a lane's budget is used up" if summary.lane_budgets_spent else _ENDS[ending.state]
    run_budget = ending.state == "budget" and not summary.lane_budgets_spent
    budget = budget_line(ending.view) if run_budget else ""
    below = [
        *summary.stops,
        use_text(job.use),
        *([budget] if budget else []),
        *lane_lines(ending.view, summary.uses),
        *cached_lines(summary.cached),
        *prediction_lines(job.prediction),
        *failure_lines(job, summary.examples),
        f"results: {shown_path(summary.out)}",
        *([summary.next_step] if summary.next_step else []),
    ]
    elapsed = duration(ending.view.elapsed_s)
    head = f"{how}: {job.good:,} of {job.total:,} succeeded in {elapsed}"
    return [head, *(f"  {line}" for line in below)]
