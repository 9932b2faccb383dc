"""`headway attach`: the live view of a run, from any terminal. It reads the records, and needs no access to the process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from headway.cli.shared.click_options import json_option, progress_option, quiet_option, where_options

if TYPE_CHECKING:
    from headway.config import Config
    from headway.engine.observer import Display
    from headway.stores.records import Job
    from headway.stores.store import Store

#: Seconds between two looks. A run writes its progress twice a second.
LOOK_S: Final = 0.25
#: The latest events that are shown at first.
MOST_EVENTS: Final = 10


@click.command("attach", short_help="Show the live view of a running job.", epilog="Example: headway attach")
@click.argument("job", required=False)
@progress_option
@json_option
@quiet_option
@where_options
def command(
    job: str | None, progress: str, as_json: bool, quiet: bool, config: Path | None, db: str | None
) -> int:
    """Show JOB (default: the latest) as the terminal that runs it does, until it ends: then its summary is printed, and the exit code
    is the job's. Ctrl-C ends the view and not the job. In a pipe, lines are printed as with --progress plain.

    If no process is running the job, the summary of its latest run is printed. A job that was submitted is waited for, until an engine
    has run it to its end. If the records are on a server, this works on every machine.
    """
    from headway.cli.shared import workspace

    settings = workspace.settings(config, db)
    with workspace.open_read_only(settings) as store:
        chosen = workspace.choose_job(store, job, quiet=quiet or as_json)
        is_there = workspace.is_live(settings, chosen) or _waits_for_engine(store, chosen)
        if is_there and not _watch(settings, store, chosen, progress, quiet=quiet):
            return _detached(chosen)
        return _show_end(settings, store, chosen, quiet=quiet, as_json=as_json)


def _watch(config: Config, store: Store, job: Job, progress: str, *, quiet: bool) -> bool:
    """Show a run until it ends. False: Ctrl-C came first."""
    from headway.cli.shared import workspace
    from headway.cli.shared.run_job import display_for

    display = display_for(progress, quiet=quiet)
    try:
        look, is_told = _looker(config, store, job, display), False
        while (is_live := workspace.is_live(config, job)) or _waits_for_engine(store, job):
            look()
            if not is_live and not is_told and display is not None:
                display.say(f"no process runs job {job.name}: it waits for an engine ('headway serve')")
            is_told = not is_live
            store.wait_for_change(job.id, LOOK_S)
        look()
    except KeyboardInterrupt:
        return False
    finally:
        if display is not None:
            display.close()
    return True


def _waits_for_engine(store: Store, job: Job) -> bool:
    """Whether the next engine takes the job: it was submitted, or its engine has died."""
    from headway.stores.submissions import may_take

    wanted = store.submissions.open().get(job.id)
    latest = None if wanted is None else store.job_by_id(job.id)
    return wanted is not None and latest is not None and may_take(latest, wanted=wanted)


def _looker(config: Config, store: Store, job: Job, display: Display | None) -> Callable[[], None]:
    """Returns a function that shows what has happened since it was called before."""
    from headway.reports.run_progress import read_progress
    from headway.reports.watched_run import WatchedAgents, shown_events, view_of
    from headway.wiring.store_access import job_places

    if display is None:
        return lambda: None
    places, agents = job_places(config), WatchedAgents()
    display.began(store.job(job.name) or job, [])
    earlier = store.events(job.id)
    began_utc = store.run_starts()[job.id]
    last = earlier[-1].id if earlier else 0
    for event in shown_events([one for one in earlier if one.at_utc >= began_utc])[-MOST_EVENTS:]:
        display.noted(event)

    def look() -> None:
        nonlocal last
        for event in store.events(job.id, last):
            last = event.id
            for shown in shown_events([event]):
                display.noted(shown)
        progress = read_progress(places, job.name)
        if progress is not None and progress.updated_utc >= began_utc:
            for activity in agents.changes(progress):
                display.activity(activity)
            display.moved(view_of(progress))

    return look


def _detached(job: Job) -> int:
    from headway.cli import INTERRUPTED
    from headway.cli.shared.printing import say

    say(f"detached from job {job.name}, which goes on (to see it again: headway attach {job.name})")
    return INTERRUPTED


def _show_end(config: Config, store: Store, job: Job, *, quiet: bool, as_json: bool) -> int:
    """Print how the latest run ended. Returns its exit code."""
    from headway.cli import status_view
    from headway.cli.shared import printing
    from headway.stores.run_summary import read_summary
    from headway.wiring.run_execution import EXIT_CODES
    from headway.wiring.store_access import job_folder

    job = store.job(job.name) or job
    end = read_summary(job_folder(config, job.name))
    report = status_view.report_of(config, store, job)
    if as_json:
        printing.print_json(status_view.as_data(store, job, report))
    elif not quiet:
        lines = status_view.lines_of(config, store, job, report) if end is None else end.lines
        for line in lines:
            printing.say(line)
    sys.stdout.flush()
    if end is not None:
        return end.exit_code
    return EXIT_CODES["failed"] if report.error else EXIT_CODES.get(report.job.state, 0)
