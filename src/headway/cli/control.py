"""`headway pause` and `headway cancel`: commands for a job that runs in another terminal or in the background."""

from __future__ import annotations

from pathlib import Path

import click

from headway.cli.shared.click_options import json_option, where_options


@click.command(
    "pause", short_help="Start no more units until 'headway resume'.", epilog="Example: headway pause"
)
@click.argument("job", required=False)
@json_option
@where_options
def pause(job: str | None, config: Path | None, db: str | None, as_json: bool) -> None:
    """Pause JOB (default: the latest): units in flight finish, and no more start until 'headway resume'."""
    _request("pause", job, (), config, db, as_json=as_json)


@click.command(
    "cancel",
    short_help="Stop a job, or some of its units, at once.",
    epilog="Example: headway cancel reviews-3fa2c1 row-17",
)
@click.argument("job", required=False)
@click.argument("units", nargs=-1, metavar="[UNIT]...")
@json_option
@where_options
def cancel(
    job: str | None, units: tuple[str, ...], config: Path | None, db: str | None, as_json: bool
) -> None:
    """Stop JOB (default: the latest) at once and cancel its units in flight: requests are aborted, programs are killed with
    everything that they started. Its results are kept, and 'headway resume' continues it.

    With UNITs (ids of the input, or indexes), only these are cancelled: one in flight is stopped, one that waits never starts, and
    the job goes on. 'headway retry JOB UNIT' brings a unit back.
    """
    _request("cancel", job, units, config, db, as_json=as_json)


def _request(
    what: str, name: str | None, units: tuple[str, ...], config: Path | None, db: str | None, *, as_json: bool
) -> None:
    from headway.cli.shared import printing, workspace
    from headway.wiring.steering import control_requests
    from headway.wiring.store_access import open_store

    settings = workspace.settings(config, db)
    workspace.open_read_only(settings).close()
    with open_store(settings) as store:
        job = workspace.choose_job(store, name, quiet=as_json)
        asked = control_requests.ask_running(settings, store, job, what, units)
    printing.print_asked(asked, as_json=as_json)
