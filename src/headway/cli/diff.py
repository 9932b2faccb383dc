"""`headway diff`: what changed between two jobs, or between two models of one job, on the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headway.cli.shared.click_options import json_option, where_options

if TYPE_CHECKING:
    from headway.reports.differences import DiffReport, SideReport
    from headway.reports.evals.differences import EvalDifferences
    from headway.stores.records import Job
    from headway.stores.store import Store

#: The kind of job of an eval.
_EVAL: Final = "eval"


@click.command(
    "diff",
    short_help="Show what changed between two jobs on the same rows.",
    epilog="Example: headway diff reviews-3fa2c1 v2 --limit 5",
)
@click.argument("first", metavar="JOB1")
@click.argument("second", metavar="[JOB2]", required=False)
@click.option(
    "--models",
    nargs=2,
    metavar="A B",
    help="Compare model A (of JOB1) with model B (of JOB2, or of JOB1 if there is only one).",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Show at most N changed answers; 0 shows all.",
)
@json_option
@where_options
def command(
    first: str,
    second: str | None,
    models: tuple[str, str] | None,
    limit: int,
    config: Path | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Compare the answers of two jobs on the same rows: another prompt, another model, another schema. Of a job with several
    models (--model A --model B), one JOB is enough. Rows are matched by their ids.

    It shows how many answers are the same, changed, failed or only in one job, cost and latency side by side, and the first
    changed answers word by word: [-words only in the first-] {+words only in the second+}.

    Of two evals it shows which cells got better or worse, and whether the pass rates differ by more than noise. Cells are matched by
    the description and the variables of their tests.
    """
    from headway.cli.shared import printing, workspace
    from headway.reports.differences import diff_report, sides_of

    settings = workspace.settings(config, db)
    with workspace.open_read_only(settings) as store:
        one = workspace.choose_job(store, first, quiet=as_json)
        other = None if second is None else workspace.choose_job(store, second, quiet=as_json)
        if _are_evals(one, other, models):
            assert other is not None
            _show_evals(_eval_differences(store, (one, other), limit), as_json)
            return
        report = diff_report(store, *sides_of(one, other, models or ()), limit)
    if as_json:
        printing.print_json(_as_json(report))
    else:
        _print(report)


def _as_json(report: DiffReport) -> dict[str, Any]:
    from headway.cli.shared.printing import flat

    sides = {"first": _side(report.first), "second": _side(report.second)}
    return flat(sides, report.counts, {"rows": report.rows})


def _side(side: SideReport) -> dict[str, Any]:
    from headway.cli.shared.printing import flat

    fields = flat(side)
    del fields["figures"]
    return flat(fields, side.figures.fields())


def _print(report: DiffReport) -> None:
    from headway.display.diff_text import count_line, heading_rows, word_diff
    from headway.display.terminal import echo, echo_parts

    rows = heading_rows(report)
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for name, one, other in rows:
        echo(f"{name.ljust(widths[0])}  {one.ljust(widths[1])}  {other}".rstrip())
    echo(count_line(report))
    if report.counts.other_input:
        echo(
            f"warning: {report.counts.other_input:,} rows have the same id in both jobs, but other data: are these the same rows?"
        )
    for row in report.rows:
        echo()
        echo(f"{row.id}:")
        echo_parts(word_diff(row.first, row.second))
    if report.counts.changed > len(report.rows):
        echo()
        echo(f"… and {report.counts.changed - len(report.rows):,} more changed (--limit 0 shows all)")


def _are_evals(one: Job, other: Job | None, models: tuple[str, str] | None) -> bool:
    """Whether two evals are compared. Raises if an eval cannot be compared with what was named."""
    from headway.errors import UsageError

    evals = [job for job in (one, other) if job is not None and job.kind == _EVAL]
    if not evals:
        return False
    if other is None:
        raise UsageError(f"job {one.name} is an eval", hint="name the eval to compare it with")
    if len(evals) == 1:
        raise UsageError(
            f"job {evals[0].name} is an eval, and the other job is none",
            hint="an eval is compared with an eval",
        )
    if models:
        raise UsageError(
            "--models is not for evals", hint="an eval's own summary compares its providers and prompts"
        )
    return True


def _eval_differences(store: Store, jobs: tuple[Job, Job], limit: int) -> EvalDifferences:
    from headway.evals.running.view import eval_view
    from headway.reports.evals.differences import eval_differences

    first, second = (eval_view(store, job) for job in jobs)
    return eval_differences(first, second, limit)


def _show_evals(report: EvalDifferences, as_json: bool) -> None:
    from headway.cli.shared import printing
    from headway.display.evals.difference_text import cell_parts, cell_title, difference_lines, left_out
    from headway.display.terminal import echo, echo_parts

    if as_json:
        printing.print_json(report)
        return
    for line in difference_lines(report):
        echo(line)
    for cell in report.cells:
        echo()
        echo(cell_title(cell))
        echo_parts(cell_parts(cell))
    if more := left_out(report):
        echo()
        echo(f"… and {more:,} more (--limit 0 shows all)")
