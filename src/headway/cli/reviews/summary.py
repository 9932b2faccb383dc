"""What `headway review` prints after a run, and its exit code."""

from __future__ import annotations

import shutil
from typing import Final, cast

import msgspec

from headway.cli.shared.printing import print_json, say
from headway.display.reviews.review_text import gate_text, review_text
from headway.display.terminal import echo, echo_text
from headway.reviews.files.source_bytes import UnreadableSource
from headway.reviews.findings.counts import finding_counts, reaching
from headway.reviews.records import SEVERITIES, ReviewedFile, ReviewView, Severity
from headway.reviews.running.review_source import ReviewPlan
from headway.reviews.running.view import review_view
from headway.safe_text import one_line
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.reviews.known_findings import without_known

#: The exit code if a finding reaches --fail-on.
REACHED: Final = 5
#: Files that are named in one line.
MOST_NAMED: Final = 5


class Shown(msgspec.Struct, frozen=True):
    """What is printed, and how."""

    fail_on: str | None
    as_json: bool
    quiet: bool
    baseline: str = ""


def show_results(store: Store, job: Job, code: int, plan: ReviewPlan, shown: Shown) -> int:
    """Print the results of a job whose run ended with this exit code; returns the code of the command."""
    view = without_known(store, shown.baseline, review_view(store, job))
    moved = [] if shown.quiet and not shown.as_json else _changed_meanwhile(plan)
    if shown.as_json:
        print_json({**_fields(view), "changed_meanwhile": moved})
    elif not shown.quiet:
        echo_text(review_text(view, shutil.get_terminal_size().columns))
        echo(_ends(view))
    if moved and not shown.quiet:
        say(_about_changed(moved))
    if view.state == "complete" and view.totals.skipped:
        say(f"this is a bug in headway: the job is complete, and {view.totals.skipped:,} files have no end")
        return 1
    if code not in (0, 1) or shown.fail_on is None:
        return code
    severity = cast(Severity, shown.fail_on)
    found = reaching(view, severity)
    if found and not shown.quiet and not shown.as_json:
        echo(gate_text(found, severity))
    return REACHED if found else code


def _changed_meanwhile(plan: ReviewPlan) -> list[str]:
    """The files that are not any more what was reviewed."""
    return [file.path for file in plan.files if not _is_same(plan, file)]


def _is_same(plan: ReviewPlan, file: ReviewedFile) -> bool:
    try:
        return plan.read(file.path).hash == file.hash
    except UnreadableSource:
        return False


def _about_changed(paths: list[str]) -> str:
    named = ", ".join(one_line(path) for path in paths[:MOST_NAMED])
    more = f" and {len(paths) - MOST_NAMED:,} more" if len(paths) > MOST_NAMED else ""
    return f"changed while the review ran: {named}{more}; the same command reviews what is new"


def _ends(view: ReviewView) -> str:
    """Every file ends reviewed, left out or failed, or was not started."""
    totals = view.totals
    completed = totals.reviewed + totals.cached
    return f"{completed:,} completed, {totals.failed:,} errored, {totals.skipped:,} skipped; {totals.left_out:,} left out"


def _fields(view: ReviewView) -> dict[str, object]:
    totals = view.totals
    return {
        "job": view.job,
        "state": view.state,
        "completed": totals.reviewed + totals.cached,
        "cached": totals.cached,
        "errored": totals.failed,
        "skipped": totals.skipped,
        "left_out": totals.left_out,
        "findings": finding_counts(view.files()).severities,
        "cost_usd": totals.cost_usd,
        "tokens": totals.tokens,
    }


def show_unchanged(left_out: int, *, as_json: bool, quiet: bool) -> int:
    """Say that a change has no file to review; returns the exit code."""
    if as_json:
        nothing = {"completed": 0, "errored": 0, "skipped": 0, "left_out": left_out}
        print_json({**nothing, "findings": dict.fromkeys(SEVERITIES, 0)})
    elif not quiet:
        say(
            "no file that is reviewed has changed"
            + (f"; {left_out:,} left out: --dry-run says why" if left_out else "")
        )
    return 0


def show_chosen(plan: ReviewPlan, *, as_json: bool) -> int:
    """Print what would be reviewed, and what is left out; returns the exit code."""
    axes = [axis.name for axis in plan.axes]
    if as_json:
        files = [msgspec.to_builtins(file) for file in plan.files]
        print_json({"files": files, "left_out": dict(plan.left_out), "axes": axes})
        return 0
    for file in plan.files:
        parts = f"  {len(file.parts)} parts" if len(file.parts) > 1 else ""
        echo(f"{one_line(file.path)}{parts}")
    for path, reason in sorted(plan.left_out.items()):
        echo(f"left out: {one_line(path)}: {reason}")
    echo(f"{len(plan.files):,} files on {', '.join(axes)} (dry run: nothing was sent)")
    return 0
