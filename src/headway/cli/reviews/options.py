"""The flags that only `headway review` has."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from headway.cli.run import job_name
from headway.errors import UsageError

#: --concurrency auto: the lanes alone decide.
AUTO: Final = 0
#: The same as `reviews.records.SEVERITIES`, which would load more than a help text needs.
_SEVERITIES: Final = ("critical", "high", "medium", "low", "info")


def _files_at_a_time(_ctx: click.Context, _param: click.Parameter, text: str | None) -> int | None:
    if text is None or text == "auto":
        return None if text is None else AUTO
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise UsageError(
            f"--concurrency {text}: expected a number of files", hint="'auto' leaves it to the lanes"
        )
    return int(text)


_REVIEW = (
    click.option("--model", metavar="NAME", help="The model that reviews. Default: that of [run] provider."),
    click.option("--axis", "axes", multiple=True, metavar="NAME[=TEXT]", help="Review on this axis: a built-in one, or your own with its rubric (NAME=@FILE reads it from a file). Repeatable. Default: correctness, security, performance, tests, readability, dead-code."),
    click.option("--prompt", metavar="TEXT", help="One rubric of your own instead of axes. @FILE reads it from a file."),
    click.option("--verify", metavar="MODEL", help="Ask this model to refute the findings; those that it refutes do not count."),
    click.option("--max-tokens", type=click.IntRange(min=1), metavar="N", help="The longest answer."),
    click.option("--include", multiple=True, metavar="GLOB", help="Only files that match. Repeatable."),
    click.option("--exclude", multiple=True, metavar="GLOB", help="Leave these files out. Repeatable."),
    click.option("--changed", is_flag=False, flag_value="", default=None, metavar="[BASE]", help="Only files that differ from a commit (default: HEAD), with their changes in the question."),
    click.option("--staged", is_flag=True, help="Only what is staged for the next commit, as it is staged."),
    click.option("--file", "again", multiple=True, metavar="GLOB", help="Review only these files, even if nothing has changed. Repeatable."),
    click.option("--concurrency", metavar="N", callback=_files_at_a_time, help="Files at a time; 'auto' leaves it to the lanes. A file that waits does not count. Default: [review] concurrency, 4."),
    click.option("--out-dir", type=click.Path(path_type=Path), metavar="DIR", help="Write the review of each file to DIR/PATH.review.md. Default: .headway/reviews."),
    click.option("--out", "outs", multiple=True, type=click.Path(path_type=Path), metavar="FILE", help="Write a report of all files: .md, .json, .sarif or .html. Repeatable."),
    click.option("--force", is_flag=True, help="Replace an existing file that is no report of a review."),
    click.option("--baseline", metavar="FILE|JOB", help="Leave findings out of reports that a report (.json, .sarif) or an earlier review has."),
    click.option("--fail-on", type=click.Choice(_SEVERITIES), help="Exit with code 5 if a finding is as grave as this, or graver."),
    click.option("--dry-run", is_flag=True, help="List what would be reviewed; send and write nothing."),
    click.option("--estimate", is_flag=True, help="Predict files, tokens, cost and time; send nothing."),
    click.option("--name", callback=job_name, metavar="NAME", help="Name of the new job."),
    click.option("--fresh", is_flag=True, help="Start over as a new job, and ask everything again."),
)  # fmt: skip


def review_options(command: Any) -> Any:
    """Add the flags that only reviews have."""
    for option in reversed(_REVIEW):
        command = option(command)
    return command
