"""`headway run FILE…`: runs a batch; the same file again resumes the job."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headway.cli.shared.click_options import (
    flow_options,
    recipe_options,
    run_options,
    stage_options,
    where_options,
)
from headway.display.terminal import overwrite
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.cli.shared.detach import Detachment
    from headway.jobs.base import FileJobKind, JobSource
    from headway.wiring.run_plan import RunFlags

#: The exit code if --confirm is answered with no.
DECLINED: Final = 1
#: The name of the kind of job that is a flow; its module is loaded only if it is needed.
FLOW: Final = "flow"
#: Flags of flows alone, by their names here.
FLOW_FLAGS: Final = {"--arg": "arg", "--state": "state", "--from": "from_node", "--until": "until"}
#: The flags for what a run prints.
_SHOWN: Final = ("progress", "quiet", "as_json")
#: A name is also the name of a folder and a part of file names.
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}")


def job_name(_ctx: click.Context, _param: click.Parameter, name: str | None) -> str:
    if name is not None and not _NAME.fullmatch(name):
        raise UsageError(
            f"--name '{name}': up to 60 letters, digits, '_', '.' and '-', such as v2",
            hint="choose another name",
        )
    return name or ""


@click.command(
    "run",
    short_help="Run a batch or a flow; the same file again resumes it.",
    epilog="Example: headway run requests.jsonl --out answers.jsonl",
)
@click.argument("files", type=click.Path(allow_dash=True), nargs=-1, required=True, metavar="FILE...")
@recipe_options
@click.option("--name", callback=job_name, metavar="NAME", help="Name of the new job, for its results and for other commands.")  # fmt: skip
@flow_options
@click.option("--from", "from_node", metavar="NODE", help="For a flow: NODE and all that depends on it run again, in a new job; everything else is kept.")  # fmt: skip
@click.option("--until", metavar="NODE", help="For a flow: run NODE and what it needs. A later run without --until goes on in the same job.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Check the input and show the plan; send and write nothing.")
@click.option("--confirm", is_flag=True, help="Show the plan (see 'headway plan') and ask before sending.")
@stage_options
@click.option("--fresh", is_flag=True, help="Start over as a new job, even if this file was run before.")
@click.option("--only-failed", is_flag=True, help="Run only the units that failed in an earlier run.")
@click.option("--skip-bad-rows", is_flag=True, help="Leave out bad rows instead of rejecting the file.")
@run_options
@where_options
def command(files: tuple[str, ...], **flags: Any) -> int:
    """Send every request in FILE (.jsonl, or - for standard input) as fast as the providers' limits allow, and write
    the answers in input order. FILE can also be a table (.csv, .tsv, .parquet): then --prompt is the question to ask
    about each row. All formats except Parquet can be compressed (.gz). --out can name a table as well. With --schema,
    answers are JSON: each one is checked, and requested once more if it does not fit the schema.

    A pattern ('docs/*.txt', 'docs/**/*.md'), a directory or several files make one request for each file:
    --prompt 'Summarise: {{text}}'. With several --model, every row goes to each model. Rows and files can also be work for
    agents: --provider claude, with --worktree each in a git worktree of its own.

    A flow (.yaml) is a graph of steps: agents, tools, rows, other flows and people that read and write a state. --arg and --state give it
    values, which the job keeps. The results are one file: FLOW.results.json. Flags that are about rows are refused. If only people are
    waited for ('headway approve'), the run ends with exit code 4.

    Everything is recorded as it happens. After Ctrl-C, a crash or a lost connection, the same command resumes the job
    and pays for nothing twice. You choose no concurrency: each lane finds its own pace.
    """
    from headway.cli.shared.detach import detachable

    return detachable(lambda detachment: _run(files, detachment, **flags), flags)


def _run(
    files: tuple[str, ...],
    detachment: Detachment | None,
    *,
    dry_run: bool,
    confirm: bool,
    first: int | None,
    yes: bool,
    config: Path | None,
    db: str | None,
    out: Path | None,
    **flags: Any,
) -> int:
    from headway.cli.shared import printing, run_job, workspace
    from headway.jobs.base import IngestOptions
    from headway.wiring.submission import submitted

    if detachment is not None and first is not None:
        raise UsageError(
            "--first shows its units here, which does not go with --detach",
            hint="run --first alone, then the same command with --detach",
        )
    kind = kind_of_input(files)
    settings = workspace.settings_for(kind, config, db, **flags)
    if kind.name != FLOW:  # A flow may have tools alone.
        workspace.require_provider(settings)
    workspace.require_routes(settings, flags["model"])
    if not flags["quiet"]:
        workspace.print_config_notes(settings)
        workspace.warn_network_file_system(settings)
    say = printing.say_unless(flags["quiet"])
    flags |= {"more_files": files[1:], "out": out, "warn": say}
    must_be_a_flow(kind, files[0], flags)
    kind.check_flags({**flags, "dry_run": dry_run, "confirm": confirm, "first": first, "yes": yes})
    run_flags = run_job.flags_of(kind, default=lambda: str(kind.default_output(files[0], flags)), **flags)
    options = IngestOptions(
        flags["fresh"], flags["skip_bad_rows"], counter(flags["quiet"]), say, flags["name"]
    )
    with kind.open(files[0], sys.stdin.buffer if files == ("-",) else None, flags) as source:
        settings = kind.with_named_providers(settings, source)
        _must_not_be_the_input(out, run_flags, source)
        if dry_run or (confirm and first is None):
            from headway.cli import dry_run as ahead  # Loaded only if a plan is wanted.

            if dry_run:
                return ahead.dry_run(settings, source, run_flags, options, flags["as_json"], flags["quiet"])
            if (planned := ahead.confirmed(settings, source, run_flags, options)) is None:
                return DECLINED
            run_flags, options = planned, options.without_warnings()
        with submitted(settings, source, run_flags, options, flags["max_cost"], say) as ready:
            shown = {name: flags[name] for name in _SHOWN}
            if first is not None:
                from headway.cli.agents.first_units import run_first

                code = run_first(ready, first, ask=confirm, yes=yes, **shown)
                if code is not None:
                    return code
                ready = ready._replace(job=ready.store.job(ready.job.name) or ready.job)
            return run_job.run_ready(ready, detachment, **shown)


def kind_of_input(files: tuple[str, ...]) -> FileJobKind:
    """The kind of job that the arguments make."""
    from headway.jobs.kinds import kind_for

    if len(files) > 1 and "-" in files:
        raise UsageError("- is standard input, which does not go with other files", hint="name it alone")
    kind = kind_for(files[0])
    if len(files) > 1 and not kind.takes_several:
        raise UsageError(f"{files[0]} is run by itself, without other files", hint="run one after the other")
    return kind


def must_be_a_flow(kind: FileJobKind, path: str, flags: Mapping[str, Any]) -> None:
    """Raise if flags for flows come with another input."""
    given = [flag for flag, name in FLOW_FLAGS.items() if flags.get(name)]
    if kind.name != FLOW and given:
        raise UsageError(f"{given[0]} is for flows (.yaml), and {path} is none", hint="leave it out")


def _must_not_be_the_input(out: Path | None, flags: RunFlags, source: JobSource) -> None:
    if source.path != "-" and flags.output.path == Path(source.path).resolve():
        raise UsageError(f"--out {out or flags.output.path} is the input itself", hint="name another file")


def counter(quiet: bool) -> Callable[[int], None]:
    """Returns a function that shows on a terminal how many rows have been read, from 50,000 on."""
    if quiet or not sys.stderr.isatty():
        return lambda total: None

    def show(total: int) -> None:
        if total >= 50_000:
            overwrite(f"reading rows: {total:,} …")

    return show
