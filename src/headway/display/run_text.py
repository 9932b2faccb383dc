"""The summary of a run that ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from headway.display.flows.node_text import nodes_text
from headway.display.formatting import duration
from headway.display.status_text import failure_lines, retry_lines
from headway.display.stop_advice import shown_path
from headway.display.usage_text import (
    budget_line,
    cached_lines,
    lane_lines,
    prediction_lines,
    too_small_text,
    use_text,
)
from headway.engine.run_result import RunResult
from headway.jobs.output_options import OutputOptions
from headway.reports.flows.node_progress import counts_at_end
from headway.reports.jobs import Failure, JobReport
from headway.reports.models import ModelReport
from headway.reports.status import FailureExample
from headway.reports.usage import UseReport
from headway.stores.answer_cache import CallsSaved

#: The exit code of a run that a budget or a deadline stopped.
STOPPED_EARLY: Final = 3
_ENDS: Final = {
    "complete": "done",
    "failed": "done, with failures",
    "stopped": "stopped: a lane cannot continue",
    "deadline": "stopped: --max-duration or --max-wait reached",
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
    examples: Sequence[FailureExample]
    #: The models of a job with several, by the names that the user gave.
    models: Mapping[str, ModelReport]
    out: str
    next_step: str
    #: Units that earlier runs had answered.
    earlier: int = 0
    #: Whether the job had a run before.
    is_resumed: bool = False
    #: Why units wait for another attempt.
    to_retry: Sequence[Failure] = ()
    #: Worktrees of its units that were kept.
    worktrees: int = 0
    #: Whether only programs ran, no requests were sent.
    is_local: bool = False


def output_text(output: OutputOptions) -> str:
    """Where results go."""
    if output.is_stdout:
        return "standard output"
    if output.form == "none":
        return "in the database ('headway export' writes them)"
    first = shown_path(output.path) + ("/" if output.form == "folder" else "")
    return ", ".join([first, *map(shown_path, output.more)])


def _model_lines(models: Mapping[str, ModelReport]) -> list[str]:
    if not models:
        return []
    from headway.display.diff_text import model_line  # Most jobs have one model.

    return [model_line(name, figures) for name, figures in models.items()]


def summary_lines(summary: RunSummary) -> list[str]:
    """The lines of a summary. Stopped lanes come first, because they explain the figures."""
    job, ending = summary.job, summary.ending
    run_budget = ending.state == "budget" and not summary.lane_budgets_spent
    budget = budget_line(ending.view) if run_budget else ""
    below = [
        *summary.stops,
        ("all runs: " if summary.is_resumed else "") + use_text(job.use, is_local=summary.is_local),
        *([budget] if budget else []),
        *([nodes_text(counts_at_end(ending.view.parts))] if ending.view.parts else []),
        *_model_lines(summary.models),
        *lane_lines(ending.view, summary.uses, counted=bool(summary.models)),
        *cached_lines(summary.cached),
        *prediction_lines(job.prediction),
        *failure_lines(job, summary.examples),
        *retry_lines(summary.to_retry),
        *([worktrees_text(summary.worktrees)] if summary.worktrees else []),
        f"results: {summary.out}",
        *([summary.next_step] if summary.next_step else []),
    ]
    return [_head(summary), *(f"  {line}" for line in below)]


def worktrees_text(kept: int) -> str:
    """How many worktrees were kept, and how to see them."""
    if kept == 1:
        return "1 worktree has changes, kept with its branch: 'headway worktrees' shows it"
    return f"{kept:,} worktrees have changes, kept with their branches: 'headway worktrees' lists them"


def _head(summary: RunSummary) -> str:
    """How the run ended, and how many units succeeded."""
    job, ending = summary.job, summary.ending
    run = f", {job.good - summary.earlier:,} of them in this run," if summary.earlier else ""
    done = f"{job.good:,} of {job.total:,} succeeded{run} in {duration(ending.view.elapsed_s)}"
    if summary.lane_budgets_spent:
        return f"stopped: a lane's budget is used up: {done}"
    if ending.state == "budget" and (too_small := too_small_text(ending.view)):
        return f"stopped: {too_small}; {done}"
    if ending.state == "parked" and not summary.stops:
        return f"parked: {done}"  # By its kind: no lane is held.
    return f"{_ENDS[ending.state]}: {done}"


def quiet_lines(lines: Sequence[str], exit_code: int) -> list[str]:
    """The lines of a summary that -q prints: the first and the last if the run was stopped before its end, so that it can be resumed."""
    return [f"headway: {lines[0]}", lines[-1]] if exit_code == STOPPED_EARLY and lines else []
