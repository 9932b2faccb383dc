"""What `headway eval` prints after a run, and its exit code."""

from __future__ import annotations

import shutil
from typing import Final

import msgspec

from headway.cli.shared.printing import print_json
from headway.display.evals.summary_text import summary_text
from headway.display.terminal import echo_text
from headway.evals.running.view import eval_view
from headway.reports.evals.eval_summary import eval_summary
from headway.stores.records import Job
from headway.stores.store import Store

#: The exit code if fewer cells passed than was asked for.
BELOW_THRESHOLD: Final = 5


def show_results(store: Store, job: Job, code: int, fail_under: float, *, as_json: bool, quiet: bool) -> int:
    """Print the results of a job whose run ended with this exit code; returns the code of the command."""
    summary = eval_summary(eval_view(store, job))
    if as_json:
        print_json({"job": job.name, "state": job.state, **msgspec.to_builtins(summary.statistics)})
    elif not quiet:
        echo_text(summary_text(summary, shutil.get_terminal_size().columns))
    is_judged = code == 0 or job.state == "failed"  # Errors are cells that did not pass.
    if is_judged and summary.statistics.passed_share < fail_under:
        return BELOW_THRESHOLD
    return code
