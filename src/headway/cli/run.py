"""`headway run FILE`: runs a batch; the same file again resumes the job."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headway.cli import INTERRUPTED
from headway.cli.shared.click_options import recipe_options, run_options, where_options
from headway.display.terminal import overwrite

if TYPE_CHECKING:
    from headway.jobs.base import JobSource
    from headway.wiring.run_plan import RunFlags

#: The flags for what a run prints.
_SHOWN: Final = ("progress", "quiet", "as_json")


@click.command(
    "run",
    short_help="Run a batch; the same file again resumes it.",
    epilog="Example: headway run requests.jsonl --out answers.jsonl",
)
@click.argument("file", type=click.Path(allow_dash=True))
@recipe_options
@click.option("--dry-run", is_flag=True, help="Check the input and show the plan; send and write nothing.")
@click.option("--confirm", is_flag=True, help="Show the plan (see 'headway plan') and ask before sending.")
@click.option("--fresh", is_flag=True, help="Start over as a new job, even if this file was run before.")
@click.option("--only-failed", is_flag=True, help="Run only the units that failed in an earlier run.")
@click.option("--skip-bad-rows", is_flag=True, help="Leave out bad rows instead of rejecting the file.")
@run_options
@where_options
def command(
    file: str,
    dry_run: bool,
    confirm: bool,
    config: Path | None,
    db: str | None,
    out: Path | None,
    **flags: Any,
) -> int:
    """Send every request in FILE (.jsonl, or - for standard input) as fast as the providers' limits allow, and write
    the answers in input order. FILE can also be a table (.csv, .tsv, .parquet): then --prompt is the question to ask
    about each row. All formats except Parquet can be compressed (.gz). --out can name a table as well. With --schema,
    answers are JSON: each one is checked, and requested once more if it does not fit the schema.

    Everything is recorded as it happens. After Ctrl-C, a crash or a lost connection, the same command resumes the job
    and pays for nothing twice. You choose no concurrency: each lane finds its own pace.
    """
    from headway.cli.shared import printing, run_job, workspace
    from headway.jobs.base import IngestOptions
    from headway.jobs.kinds import kind_for
    from headway.wiring.submission import submitted

    settings = workspace.settings(config, db, **flags)
    workspace.require_provider(settings)
    if not flags["quiet"]:
        workspace.print_config_notes(settings)
        workspace.warn_network_file_system(settings)
    kind = kind_for(file)
    target = out or kind.default_output(file, flags)
    run_flags = run_job.flags_of(kind, target, **flags)
    options = IngestOptions(flags["fresh"], flags["skip_bad_rows"], counter(flags["quiet"]))
    with kind.open(file, sys.stdin.buffer if file == "-" else None, flags) as source:
        _must_not_be_the_input(target, run_flags, source)
        if dry_run or confirm:
            from headway.cli import dry_run as ahead  # What plans is loaded for who wants a plan.

            if dry_run:
                return ahead.dry_run(settings, source, run_flags, options, flags["as_json"], flags["quiet"])
            if (planned := ahead.confirmed(settings, source, run_flags, options)) is None:
                return INTERRUPTED
            run_flags = planned
        say = printing.say_unless(flags["quiet"])
        with submitted(settings, source, run_flags, options, flags["max_cost"], say) as ready:
            return run_job.run_ready(ready, **{name: flags[name] for name in _SHOWN})


def _must_not_be_the_input(target: Path, flags: RunFlags, source: JobSource) -> None:
    from headway.errors import UsageError

    if source.path != "-" and flags.output.path == Path(source.path).resolve():
        raise UsageError(f"--out {target} is the input itself", hint="name another file")


def counter(quiet: bool) -> Callable[[int], None]:
    """Returns a function that shows on a terminal how many rows have been read, from 50,000 on."""
    if quiet or not sys.stderr.isatty():
        return lambda total: None

    def show(total: int) -> None:
        if total >= 50_000:
            overwrite(f"reading rows: {total:,} …")

    return show
