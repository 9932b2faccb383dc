"""`headway resume` and `headway retry`: continue a job that has stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from headway.cli.shared.click_options import run_options, where_options

if TYPE_CHECKING:
    from headway.cli.shared.detach import Detachment
    from headway.config import Config
    from headway.jobs.base import FileJobKind
    from headway.stores.records import Job
    from headway.stores.store import Store
    from headway.wiring.run_plan import RunFlags


@click.command(
    "resume",
    short_help="Resume a job that stopped or is paused.",
    epilog="Example: headway resume",
)
@click.argument("job", required=False)
@click.option(
    "--served", type=int, hidden=True, help="For 'headway serve': the end of a pipe that ends with it."
)
@run_options
@where_options
def resume(job: str | None, **options: Any) -> int:
    """Resume JOB (default: the latest). If a process is running the job and it is paused, it continues. Otherwise the job is started
    again here: units that succeeded stay, all others run.
    """
    from headway.cli.shared.detach import detachable

    return detachable(lambda detachment: _resume(job, detachment, **options), options)


@click.command(
    "retry",
    short_help="Run failed or chosen units of a job again.",
    epilog="Example: headway retry reviews-3fa2c1 row-17",
)
@click.argument("job", required=False)
@click.argument("units", nargs=-1, metavar="[UNIT]...")
@click.option("--failed", is_flag=True, help="Retry all units that failed or timed out.")
@run_options
@where_options
def retry(job: str | None, units: tuple[str, ...], failed: bool, **options: Any) -> int:
    """Run units of JOB (default: the latest) again, and no others: with --failed those that failed or timed out, otherwise the named
    UNITs (ids of the input, or indexes), whatever their state, also if they have an answer. An answer is replaced by the new one.
    Units that were skipped because of a named one run again, too. The flow of a unit goes on after it. A unit of a flow that other nodes
    have used is refused: 'headway run FLOW --from NODE' runs it and what follows from it in a new job.

    If a process is running the job, it does this beside its other work. Otherwise the job is started here.
    """
    from headway.cli.shared.detach import detachable
    from headway.errors import UsageError

    if not failed and not units:
        raise UsageError(
            "--failed is required",
            hint="run 'headway retry --failed', or name units: 'headway retry JOB UNIT'",
        )
    if failed and units:
        raise UsageError("--failed and named units do not go together", hint="leave one of them out")
    options |= {"only_failed": failed, "units": units}
    return detachable(lambda detachment: _resume(job, detachment, **options), options)


def _output_without_out(kind: FileJobKind, job: Job) -> str:
    """The output of a job that was made without one: a flow of a Python program returned its results."""
    if kind.counts_nodes:
        return str(kind.default_output(job.input, {"name": job.name}))
    return f"{job.name}.results.jsonl"


def _for_an_engine(flags: RunFlags, pipe: int) -> RunFlags:
    """The flags of a run that belongs to an engine: it ends with its process, and its results stay in the database."""
    from headway.jobs.output_options import IN_DATABASE
    from headway.wiring.serving.job_process import end_with

    end_with(pipe)
    return msgspec.structs.replace(flags, output=IN_DATABASE, served=True)


def _nothing_failed(config: Config, store: Store, job: Job) -> str:
    """The answer of `retry --failed` if no unit has failed."""
    from headway.cli.shared.resume_hint import next_step, resume_command

    left = job.total - job.good
    if not left and job.state == "failed":  # A node of a flow failed that has no units.
        return f"job {job.name} has no failed units; {next_step(config, store, job, 'failed')}"
    if not left:
        return f"job {job.name} has no failed units: all {job.total:,} succeeded"
    resume = resume_command(config, store, job, "interrupted")
    return f"job {job.name} has no failed units, but {left:,} that have not finished — to run them: {resume}"


def _resume(
    name: str | None,
    detachment: Detachment | None,
    *,
    only_failed: bool = False,
    units: tuple[str, ...] = (),
    served: int | None = None,
    config: Path | None,
    db: str | None,
    quiet: bool,
    as_json: bool,
    progress: str,
    out: Path | None,
    **flags: Any,
) -> int:
    from headway.cli.shared import printing, run_job, workspace
    from headway.errors import JobBusy
    from headway.jobs.kinds import file_kind_of, run_kind_of
    from headway.reports.jobs import job_report
    from headway.wiring.serving.suitability import must_still_be_served
    from headway.wiring.steering import control_requests
    from headway.wiring.store_access import open_store
    from headway.wiring.submission import reopened, with_cap_of

    if units and flags["cache"] is None:
        flags["cache"] = "off"  # An earlier answer is not what is wanted.
    settings = workspace.settings(config, db, **flags)
    workspace.open_read_only(settings).close()
    with open_store(settings) as store:
        job = workspace.choose_job(store, name, quiet=quiet or as_json)
        chosen = store.with_skipped(job.id, control_requests.indexes_of(store, job, units)) if units else []
        if units:
            run_kind_of(job).check_retry(store, job, chosen)
        if workspace.is_live(settings, job):
            if served is not None:
                raise JobBusy(f"job '{job.name}' is already running")
            what, named = (
                ("retry", chosen or store.failed(job.id)) if only_failed or units else ("resume", [])
            )
            if what == "resume" or named:
                asked = control_requests.ask(settings, store, job, what, named)
                if asked.taken or workspace.is_live(settings, job):
                    printing.print_asked(asked, as_json=as_json)
                    return 0
        job = store.job(job.name) or job
        kind = file_kind_of(job)
        if only_failed and not job.counts["failed"] + job.counts["timed_out"]:
            report = job_report(store, job, workspace.state_of(settings, job))
            return printing.print_result(_nothing_failed(settings, store, job), report, as_json)
        settings = workspace.settings_for(kind, config, db, **flags)
        if kind.counts_nodes and only_failed:
            only_failed = False  # What follows from the failed units runs, too.
        if not quiet:
            workspace.print_config_notes(settings)
            workspace.warn_network_file_system(settings)
        settings = with_cap_of(settings, job, flags["max_cost"], printing.say_unless(quiet))
        run_flags = run_job.flags_of(
            kind,
            out,
            lambda: job.out or _output_without_out(kind, job),
            only_failed=only_failed,
            only_units=tuple(chosen),
            as_json=as_json,
            **flags,
        )
        if served is not None:
            run_flags = _for_an_engine(run_flags, served)
        with reopened(settings, store, job, run_flags) as ready:
            if served is not None:
                must_still_be_served(settings, store, ready.job, name or "", os.environ)
            return run_job.run_ready(ready, detachment, progress=progress, quiet=quiet, as_json=as_json)
