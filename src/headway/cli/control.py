"""`headway pause` and `headway cancel`: commands for a job that runs in another terminal."""

from __future__ import annotations

import time
from pathlib import Path

import click

from headway.cli.shared.click_options import json_option, where_options
from headway.display.terminal import echo, echo_json


@click.command(
    "pause", short_help="Start no more units until 'headway resume'.", epilog="Example: headway pause"
)
@click.argument("job", required=False)
@json_option
@where_options
def pause(job: str | None, config: Path | None, db: str | None, as_json: bool) -> None:
    """Pause JOB (default: the latest): units in flight finish, and no more start until 'headway resume'."""
    _request("pause", job, config, db, as_json=as_json)


@click.command(
    "cancel", short_help="Stop a job and cancel its units in flight.", epilog="Example: headway cancel"
)
@click.argument("job", required=False)
@json_option
@where_options
def cancel(job: str | None, config: Path | None, db: str | None, as_json: bool) -> None:
    """Stop JOB (default: the latest) at once and cancel its units in flight. Its results are kept, and
    'headway resume' continues it.
    """
    _request("cancel", job, config, db, as_json=as_json)


def _request(what: str, name: str | None, config: Path | None, db: str | None, *, as_json: bool) -> None:
    from headway.cli.shared import workspace
    from headway.errors import UsageError
    from headway.jobs.kinds import must_take_commands
    from headway.reports.jobs import find_job
    from headway.wiring.store_access import open_store

    settings = workspace.settings(config, db)
    workspace.open_read_only(settings).close()
    with open_store(settings) as store:
        job = find_job(store, name)
        if not workspace.is_live(settings, job):
            raise UsageError(
                f"job '{job.name}' is not running", hint="'headway jobs' lists the jobs and their states"
            )
        must_take_commands(job)
        store.add_command(job.id, what, {}, time.time())
    if as_json:
        echo_json({"job": job.name, "asked": what})
    else:
        echo(f"asked job {job.name} to {what}")
