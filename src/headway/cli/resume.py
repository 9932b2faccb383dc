"""`headway resume` and `headway retry`: continue a job that has stopped."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from headway.cli.shared.click_options import run_options, where_options


@click.command(
    "resume",
    short_help="Resume a job that stopped or is paused.",
    epilog="Example: headway resume",
)
@click.argument("job", required=False)
@run_options
@where_options
def resume(job: str | None, **options: Any) -> int:
    """Resume JOB (default: the latest). If a process is running the job, it is un-paused. Otherwise the job is started
    again here: units that succeeded stay, all others run.
    """
    return _resume(job, only_failed=False, **options)


@click.command(
    "retry", short_help="Run the failed units of a job again.", epilog="Example: headway retry --failed"
)
@click.argument("job", required=False)
@click.option("--failed", is_flag=True, help="Retry the units that failed or timed out (required).")
@run_options
@where_options
def retry(job: str | None, failed: bool, **options: Any) -> int:
    """Run the units of JOB (default: the latest) that failed or timed out again, and no others."""
    from headway.errors import UsageError

    if not failed:
        raise UsageError("--failed is required", hint="run 'headway retry --failed'")
    return _resume(job, only_failed=True, **options)


def _resume(
    name: str | None,
    *,
    only_failed: bool,
    config: Path | None,
    db: str | None,
    quiet: bool,
    as_json: bool,
    progress: str,
    out: Path | None,
    **flags: Any,
) -> int:
    from headway.cli.shared import printing, run_job, workspace
    from headway.jobs.kinds import file_kind_of, must_take_commands
    from headway.reports.jobs import find_job, job_report
    from headway.wiring.store_access import open_store
    from headway.wiring.submission import reopened, with_cap_of

    settings = workspace.settings(config, db, **flags)
    workspace.open_read_only(settings).close()
    with open_store(settings) as store:
        job = find_job(store, name)
        if not only_failed and workspace.is_live(settings, job):
            must_take_commands(job)
            store.add_command(job.id, "resume", {}, time.time())
            return printing.print_result(
                f"asked job {job.name} to resume", {"job": job.name, "asked": "resume"}, as_json
            )
        kind = file_kind_of(job)
        if only_failed and not job.counts["failed"] + job.counts["timed_out"]:
            report = job_report(store, job, workspace.state_of(settings, job))
            return printing.print_result(f"job {job.name} has no failed units", report, as_json)
        if not quiet:
            workspace.print_config_notes(settings)
            workspace.warn_network_file_system(settings)
        settings = with_cap_of(settings, job, flags["max_cost"], printing.say_unless(quiet))
        target = out or Path(job.out or f"{job.name}.results.jsonl")
        run_flags = run_job.flags_of(kind, target, only_failed=only_failed, **flags)
        with reopened(settings, store, job, run_flags) as ready:
            return run_job.run_ready(ready, progress=progress, quiet=quiet, as_json=as_json)
