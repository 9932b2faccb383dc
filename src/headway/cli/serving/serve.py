"""`headway serve`: an engine that waits for jobs in a database, and runs them as they are submitted."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headway.cli.shared.click_options import (
    insecure_http_option,
    json_option,
    progress_option,
    quiet_option,
    where_options,
)

if TYPE_CHECKING:
    from headway.config import Config
    from headway.stores.job_lock import JobPlaces
    from headway.stores.store import Store
    from headway.wiring.serving.dispatcher import Dispatcher, EngineEvent

#: Jobs at a time without --jobs.
JOBS: Final = 4
#: How often the table on a terminal is made anew.
SHOW_S: Final = 0.5
#: Says what the engine does now and then.
Show = Callable[[], None]


@click.command(
    "serve",
    short_help="Run jobs of the database as they are submitted.",
    epilog="Example: headway serve --jobs 8",
)
@click.option("--jobs", type=click.IntRange(min=1), default=JOBS, show_default=True, metavar="N", help="Run up to N jobs at a time.")  # fmt: skip
@insecure_http_option
@progress_option
@json_option
@quiet_option
@where_options
def command(
    jobs: int,
    insecure_http: bool,
    progress: str,
    as_json: bool,
    quiet: bool,
    config: Path | None,
    db: str | None,
) -> int:
    """Wait for jobs in the database, and run those that were submitted ('headway submit'): also from other machines, if it is a PostgreSQL
    server. Each job runs in a process of its own with the providers and keys of this machine. A job that cannot run here is left to other
    engines. A job whose engine has died goes on here; nothing that has finished runs again. What a user has paused, cancelled or interrupted stays so.

    Ctrl-C takes no more jobs and lets what is in flight finish; a second one cancels that. The jobs are left to other engines.
    With --json, each event is an object on standard output.
    """
    from headway.cli.shared import workspace
    from headway.wiring.serving.dispatcher import Dispatcher
    from headway.wiring.store_access import job_places, open_store

    settings = workspace.settings(config, db, insecure_http=insecure_http)
    workspace.require_provider(settings)
    if not quiet:
        workspace.print_config_notes(settings)
        workspace.warn_network_file_system(settings)
    flags = [*(["--config", str(config)] if config else []), *(["--insecure-http"] if insecure_http else [])]
    with open_store(settings) as store:
        store.set_patience(0.0)
        places = job_places(settings)
        tell = _printer(quiet=quiet, as_json=as_json)
        engine = Dispatcher((settings, store, places), jobs, tell, flags)
        live = _is_live(progress) and not (quiet or as_json)
        with _display(live, engine, (store, places), jobs) as show:
            return _serve(settings, engine, tell, show)


def _serve(config: Config, engine: Dispatcher, tell: Callable[[EngineEvent], None], show: Show) -> int:
    """Until Ctrl-C, and then until the jobs have ended."""
    from headway.cli import INTERRUPTED
    from headway.config.database_address import shown_database
    from headway.wiring.serving.dispatcher import LOOK_S, EngineEvent

    presses = 0

    def stop(number: int, frame: Any) -> None:
        nonlocal presses
        presses += 1
        if presses > 2:
            os._exit(INTERRUPTED)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    tell(EngineEvent(time.time(), "started", text=f"waiting for jobs in {shown_database(config.db)}"))
    handled = 0
    try:
        while engine.running or not presses:
            if handled < presses:
                handled += 1
                engine.stop()
                tell(EngineEvent(time.time(), "stopping", text=_stopping(engine, handled)))
            engine.step()
            show()
            time.sleep(LOOK_S)
    finally:
        engine.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    tell(
        EngineEvent(
            time.time(), "stopped", text="stopped: jobs that have not ended are left to other engines"
        )
    )
    return INTERRUPTED


def _stopping(engine: Dispatcher, presses: int) -> str:
    from headway.display.formatting import count

    if presses > 1:
        return "cancelling what is in flight (press Ctrl-C once more to exit at once)"
    jobs = count(len(engine.running), "job")
    return f"stopping: no more jobs are taken, units in flight of {jobs} finish (press Ctrl-C again to cancel them)"


def _printer(*, quiet: bool, as_json: bool) -> Callable[[EngineEvent], None]:
    """Prints events: lines on stderr, or JSON on standard output."""
    from headway.display.engine_view import event_line
    from headway.display.terminal import echo, echo_json

    def tell(event: EngineEvent) -> None:
        if as_json:
            echo_json(event)
            sys.stdout.flush()
        elif not quiet:
            units = (event.succeeded, event.total)
            line = event_line(event.what, event.job, event.text, event.state, units)
            echo(f"{time.strftime('%H:%M:%S')}  {line}", err=True)

    return tell


def _is_live(progress: str) -> bool:
    if progress == "auto":
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return progress == "rich"


@contextmanager
def _display(live: bool, engine: Dispatcher, place: tuple[Store, JobPlaces], most: int) -> Iterator[Show]:
    """The table on a terminal; elsewhere the lines are enough."""
    if not live:
        yield lambda: None
        return
    from rich.console import Console
    from rich.live import Live

    from headway.display.engine_view import engine_table

    shown_at = 0.0
    with Live(console=Console(stderr=True), auto_refresh=False, redirect_stdout=False) as screen:

        def show() -> None:
            nonlocal shown_at
            if time.monotonic() - shown_at >= SHOW_S:
                shown_at = time.monotonic()
                running = _running(engine, *place)
                table = engine_table(running, engine.waiting, engine.more_waiting, engine.left, most)
                screen.update(table, refresh=True)

        yield show


def _running(engine: Dispatcher, store: Store, places: JobPlaces) -> Iterator[Any]:
    from headway.display.engine_view import EngineJob
    from headway.errors import StoreAway
    from headway.reports.run_progress import read_progress

    for process in engine.running.values():
        try:
            job = store.job(process.job.name) or process.job
        except StoreAway:
            job = process.job
        progress = read_progress(places, job.name)
        lanes = () if progress is None else progress.lanes.values()
        in_flight = 0 if progress is None else progress.totals.in_flight
        rate = sum(lane.rate_per_s for lane in lanes)
        yield EngineJob(job.name, job.good, job.total, in_flight, rate, time.monotonic() - process.started_at)
