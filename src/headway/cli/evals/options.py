"""The flags that only `headway eval` has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import click

from headway.cli.run import job_name
from headway.cli.shared.click_options import safe_cells_option
from headway.errors import UsageError

#: --filter-failing without the name of a job.
LATEST: Final = ""


def _share(_ctx: click.Context, _param: click.Parameter, text: str) -> float:
    """A share: "95%" or 0.95."""
    number = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(%?)\s*", text)
    value = -1.0 if number is None else float(number[1]) / (100.0 if number[2] else 1.0)
    if not 0.0 <= value <= 1.0:
        raise UsageError(f"--fail-under {text}: expected a share", hint="for example 95%")
    return value


def _pairs(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """KEY=VALUE texts."""
    for text in texts:
        if not text.partition("=")[0].strip() or "=" not in text:
            raise UsageError(f"--var {text}: expected KEY=VALUE", hint="for example --var language=French")
    return {text.partition("=")[0].strip(): text.partition("=")[2] for text in texts}


_EVAL = (
    click.option("--out", "outs", multiple=True, type=click.Path(path_type=Path), metavar="FILE", help="Write the results to FILE: .json, .csv, .xml (JUnit), .md or .html. Repeatable. Default: outputPath of CONFIG, or CONFIG.results.json."),
    click.option("--force", is_flag=True, help="Replace an existing file that is no report of an eval."),
    safe_cells_option,
    click.option("--check", is_flag=True, help="List everything in CONFIG that is wrong or not supported; run nothing."),
    click.option("--dry-run", is_flag=True, help="Check the input and show the plan; send and write nothing."),
    click.option("--name", callback=job_name, metavar="NAME", help="Name of the new job."),
    click.option("--fresh", is_flag=True, help="Start over as a new job, and ask everything again."),
    click.option("--retry-errors", is_flag=True, help="Run only what ended with an error. An error stays until its new result is recorded."),
    click.option("--filter-pattern", default="", metavar="REGEX", help="Only tests whose description matches."),
    click.option("--filter-failing", is_flag=False, flag_value=LATEST, default=None, metavar="[JOB]", help="Only tests that did not pass in JOB (default: the latest job of CONFIG)."),
    click.option("--filter-providers", default="", metavar="REGEX", help="Only providers whose id or label matches."),
    click.option("-n", "--filter-first-n", "first_n", type=click.IntRange(min=1), metavar="N", help="Only the first N tests."),
    click.option("--repeat", type=click.IntRange(min=1), metavar="N", help="Run each test N times."),
    click.option("--max-concurrency", "-j", type=click.IntRange(min=1), metavar="N", help="The same as --concurrency."),
    click.option("--var", "variables", multiple=True, callback=_pairs, metavar="KEY=VALUE", help="A variable of all tests. Repeatable."),
    click.option("--fail-under", default="100%", callback=_share, metavar="SHARE", show_default=True, help="Exit with code 5 if fewer cells pass."),
)  # fmt: skip


def eval_options(command: Any) -> Any:
    """Add the flags that only evals have."""
    for option in reversed(_EVAL):
        command = option(command)
    return command
