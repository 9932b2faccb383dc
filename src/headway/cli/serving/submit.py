"""`headway submit FILE…`: stores a batch or a flow for the engines of a database, and sends nothing itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.run import counter, job_name, kind_of_input, must_be_a_flow
from headway.cli.shared.click_options import (
    flow_options,
    json_option,
    quiet_option,
    recipe_options,
    where_options,
)

if TYPE_CHECKING:
    from headway.config import Config
    from headway.wiring.serving.handing_over import HandedOver


@click.command(
    "submit",
    short_help="Hand a batch or a flow to an engine ('headway serve').",
    epilog="Example: headway submit requests.jsonl --max-cost 20",
)
@click.argument("files", type=click.Path(allow_dash=True), nargs=-1, required=True, metavar="FILE...")
@recipe_options
@flow_options
@click.option("--name", callback=job_name, metavar="NAME", help="Name of the new job, for other commands.")
@click.option("--max-cost", type=float, metavar="USD", help="Stop before the job costs more than this. 0 removes the cap.")  # fmt: skip
@click.option("--fresh", is_flag=True, help="Start over as a new job, even if this file was run before.")
@click.option("--skip-bad-rows", is_flag=True, help="Leave out bad rows instead of rejecting the file.")
@json_option
@quiet_option
@where_options
def command(files: tuple[str, ...], **flags: Any) -> int:
    """Store every request of FILE in the database as a job, for the next engine that can run it ('headway serve', on any machine). FILE and
    the flags are those of 'headway run'; files that rows attach are stored, too. Nothing is sent from here, and no key is needed.

    Results stay in the database: 'headway export JOB' writes them, at any time and on any machine. The same file again finds its job; one that
    has stopped is handed over again. Jobs that need programs or files of this machine are refused: agents, tools of flows, Python functions.
    """
    return _submit(files, **flags)


def _submit(
    files: tuple[str, ...],
    *,
    config: Path | None,
    db: str | None,
    max_cost: float | None,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> int:
    from headway.cli.shared import printing, workspace
    from headway.jobs.base import IngestOptions
    from headway.wiring.serving.handing_over import hand_over
    from headway.wiring.serving.suitability import must_be_for_engines

    kind = kind_of_input(files)
    must_be_for_engines(kind, files[0])
    settings = workspace.settings_for(kind, config, db, max_cost=max_cost, **flags)
    workspace.require_provider(settings)
    workspace.require_routes(settings, flags["model"])
    say = printing.say_unless(quiet)
    if not quiet:
        workspace.warn_network_file_system(settings)
    options = IngestOptions(flags["fresh"], flags["skip_bad_rows"], counter(quiet), say, flags["name"])
    flags |= {"more_files": files[1:], "out": None, "warn": say, "as_json": as_json}
    must_be_a_flow(kind, files[0], flags)
    with kind.open(files[0], sys.stdin.buffer if files == ("-",) else None, flags) as source:
        handed = hand_over(kind.with_named_providers(settings, source), source, options, max_cost)
    _show(settings, handed, quiet=quiet, as_json=as_json)
    return 0


def _show(config: Config, handed: HandedOver, *, quiet: bool, as_json: bool) -> None:
    """Print the job, and what can be done next."""
    import shlex

    from headway.cli.shared import printing
    from headway.cli.shared.resume_hint import place_flags
    from headway.display.formatting import count

    job, flags = handed.job, place_flags(config)
    attach, export = (shlex.join(["headway", what, job.name, *flags]) for what in ("attach", "export"))
    is_done = job.state == "complete" and job.good == job.total
    if as_json:
        fields = {
            "job": job.name,
            "units": job.total,
            "new": handed.is_new,
            "done": is_done,
            "left_out": handed.left_out,
        }
        printing.print_json({**fields, "attach": attach, "export": export})
        return
    if quiet:
        return
    if handed.left_out:
        printing.say(f"{count(handed.left_out, 'bad row')} left out")
    size = count(job.total, "unit") if job.total else f"a {job.kind}"
    what = f"{size} for the next engine ('headway serve')"
    if is_done:
        what = "already complete"
    elif handed.is_running:
        what = "already running"
    elif handed.is_waiting:
        what = f"waits already for an engine ('headway serve'): {size}"
    elif not handed.is_new:
        what = (
            f"submitted before, and handed over again: {job.good:,} of {job.total:,} units have their answers"
        )
    printing.say(f"job {job.name}: {what}")
    if not is_done:
        printing.say(f"  to watch it: {attach}")
    printing.say(f"  its results: {export}")
