"""Runs a job for the commands that do, shows it, and prints how it ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.batch.recipe import is_table
from headway.cli.options import must_be_sheet
from headway.cli.resume_hint import next_command, next_step, spent_budgets
from headway.cli.session import flat, print_json, say
from headway.config import Config, parse_duration
from headway.display.jsonl import JsonDisplay
from headway.display.log_file import LogFile
from headway.display.plain import PIPE_S, TERMINAL_S, PlainDisplay
from headway.display.run_text import RunSummary, summary_lines
from headway.display.stop_advice import shown_path, stop_lines
from headway.display.usage_text import saved
from headway.display.words import units
from headway.engine.endings import Ending
from headway.engine.observer import Display
from headway.errors import InputError, UsageError
from headway.reports.jobs import job_report
from headway.reports.runs import run_report
from headway.reports.status import example_ids
from headway.reports.stops import stops_left
from headway.reports.usage import cached_units, saved_report, uses_by_key
from headway.stores.output_lock import OutputLock, real_path
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.places import lock_of
from headway.wiring.runs import EXIT_CODES, RunFlags, perform, plan_of, rewrite


def flags_of(out: Path, **flags: Any) -> RunFlags:
    """The flags of a run as the wiring wants them."""
    delay_s = delay_of(flags["delay"])
    log_file: Path | None = flags.get("log_file")
    if log_file is not None and log_file.absolute() == out.absolute():
        raise UsageError(f"--log-file {log_file} is where the results go", hint="name another file")
    if flags["out_order"] != "input" and is_table(out):
        raise UsageError(
            "--out-order completion does not go with a table", hint="name a .jsonl file with --out"
        )
    if flags.get("safe_cells"):
        must_be_sheet(out)
    return RunFlags(
        out=real_path(out),
        safe_cells=flags.get("safe_cells", False),
        order=flags["out_order"],
        force=flags["force"],
        only_failed=flags.get("only_failed", False),
        serial=flags["serial"],
        delay_s=delay_s,
        log_file=log_file,
        log_format=flags.get("log_format", "text"),
    )


def delay_of(text: str) -> float:
    """What --delay means."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--delay: {error}") from None


def display_for(progress: str, *, quiet: bool) -> Display | None:
    """What shows the run on stderr: a live view on a terminal, lines elsewhere."""
    if quiet or progress == "none":
        return None
    if progress == "json":
        return JsonDisplay(sys.stderr)
    live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if progress == "rich" or (progress == "auto" and live):
        from rich.console import Console

        from headway.display.live import LiveDisplay

        return LiveDisplay(Console(stderr=True))
    return PlainDisplay(sys.stderr, TERMINAL_S if sys.stderr.isatty() else PIPE_S)


def run_job(
    config: Config, store: Store, job: Job, flags: RunFlags, *, progress: str, quiet: bool, as_json: bool
) -> int:
    """Run a job whose lock the caller holds; returns the exit code."""
    with logged(config, job, flags) as log:
        plan = plan_of(config, store, job, flags, os.environ)
        display = display_for(progress, quiet=quiet)
        watching = [one for one in (log, display) if one is not None]
        _tell_of_failed(watching, job, flags)
        try:
            ending = perform(config, plan, flags, watching, lambda text: _tell_all(watching, text))
        finally:
            if display is not None:
                display.close()
        after = store.job(job.name) or job
        as_data = _run_json(config, store, job, after, ending) if as_json or log is not None else {}
        if log is not None:
            log.finished(_summary(config, store, after, ending, flags.out), as_data)
    if as_json:
        print_json(as_data)
    elif not quiet:
        for line in _summary(config, store, after, ending, flags.out):
            say(line)
    return EXIT_CODES[ending.state]


def _tell_of_failed(watching: list[Display], job: Job, flags: RunFlags) -> None:
    """A job that runs again tries again what failed before. Say so: it may cost again."""
    if failed := job.counts["failed"] + job.counts["timed_out"]:
        they = "only they are" if flags.only_failed else "they are"
        _tell_all(watching, f"{units(failed)} failed before: {they} tried again; what succeeded stays")


def _tell_all(watching: list[Display], text: str) -> None:
    for one in watching:
        one.say(text)


@contextmanager
def logged(config: Config, job: Job, flags: RunFlags) -> Iterator[LogFile | None]:
    """The log of a run, where one is wanted. It has the error as well that ends the run."""
    path = flags.log_file
    if path is None:
        yield None
        return
    if str(path.absolute()) in (job.input, config.db):
        raise UsageError(f"--log-file {path} is a file of the job itself", hint="name another file")
    log = LogFile(path, flags.log_format)
    try:
        yield log
    except BaseException as error:
        log.failed(error)
        raise
    finally:
        log.close()
        if log.trouble:
            say(f"{path} lacks some lines: {log.trouble}")


def locked_run(config: Config, store: Store, job: Job, flags: RunFlags, **shown: Any) -> int:
    """The same with the job's lock taken for as long as it runs. A job that is done needs no run, and no key."""
    with lock_of(config, job.name), OutputLock(flags.out, job.name):
        flags = flags.taken()
        job = store.job(job.name) or job  # Another process may have finished it a moment ago.
        # One that died between its last answer and its end is ended by a run that sends nothing.
        if job.good < job.total or job.state != "complete":
            return run_job(config, store, job, flags, **shown)
        with logged(config, job, flags) as log:
            rewrite(config, job, flags)
            if log is not None:
                log.say(f"job {job.name} is done: nothing was sent, its results are written again")
    if shown["as_json"]:
        print_json(flat(job_report(store, job, job.state), {"saved": saved_report(job)}))
    elif not shown["quiet"]:
        say(f"job {job.name} is done: nothing was sent, its results are written again from the store")
        say(f"  {saved(job)}")
        say(f"  results: {shown_path(flags.out)}")
    return EXIT_CODES["complete"]


def _summary(config: Config, store: Store, job: Job, ending: Ending, out: Path) -> list[str]:
    """What a person wants to know at the end, and the command that goes on from here."""
    report = job_report(store, job, ending.state)
    return summary_lines(
        RunSummary(
            job=report,
            ending=ending,
            stops=stop_lines(stops_left(store, job), config, os.environ),
            lane_budgets_spent=bool(spent_budgets(job)),
            uses=uses_by_key(store, job),
            cached=cached_units(store, job),
            examples=example_ids(store, job, report),
            out=out,
            next_step="" if ending.state == "complete" else next_step(config, store, job, ending.state),
        )
    )


def _run_json(config: Config, store: Store, before: Job, job: Job, ending: Ending) -> dict[str, Any]:
    """The job and what this run was like, in one JSON object."""
    command = None if ending.state == "complete" else next_command(config, store, job, ending.state)
    fields = flat(run_report(store, before, job, ending, command))
    return flat(fields.pop("job"), fields)


def tell_bad_rows(error: InputError) -> None:
    """Every bad row before the one line that sums them up."""
    for problem in error.problems:
        say(problem)
