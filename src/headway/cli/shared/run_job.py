"""Runs a job for `run`, `resume` and `retry`: shows its progress and prints its summary."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from headway.cli.shared.printing import flat, print_json, say
from headway.cli.shared.resume_hint import next_step, resume_command
from headway.config import Config, parse_duration
from headway.display.json_lines import JsonDisplay
from headway.display.log_file import LogFile
from headway.display.plain import PIPE_S, TERMINAL_S, PlainDisplay
from headway.display.run_text import RunSummary, summary_lines
from headway.display.stop_advice import shown_path, stop_lines
from headway.display.usage_text import saved_text
from headway.engine.observer import Display
from headway.engine.run_result import RunResult
from headway.errors import UsageError
from headway.jobs.base import FileJobKind, OutputOptions, spent_budgets
from headway.reports.finished_runs import run_report
from headway.reports.jobs import job_report
from headway.reports.status import example_ids, stops_left
from headway.reports.usage import cached_units, saved_report, uses_by_key
from headway.stores.output_lock import real_path
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.run_execution import EXIT_CODES, rewrite, run
from headway.wiring.run_plan import RunFlags
from headway.wiring.submission import ReadyJob


def flags_of(kind: FileJobKind, out: Path, **flags: Any) -> RunFlags:
    """The run options from the flags of a command."""
    delay_s = delay_of(flags["delay"])
    log_file: Path | None = flags.get("log_file")
    if log_file is not None and log_file.absolute() == out.absolute():
        raise UsageError(f"--log-file {log_file} is the results file", hint="name another file")
    output = OutputOptions(out, flags["out_order"], flags["force"], flags.get("safe_cells", False))
    kind.check_output(output)
    return RunFlags(
        output=msgspec.structs.replace(output, path=real_path(out)),
        only_failed=flags.get("only_failed", False),
        serial=flags["serial"],
        delay_s=delay_s,
        log_file=log_file,
        log_format=flags.get("log_format", "text"),
    )


def delay_of(text: str) -> float:
    """The value of --delay in seconds."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--delay: {error}") from None


def display_for(progress: str, *, quiet: bool) -> Display | None:
    """The display of the run on stderr: a live view on a terminal, lines elsewhere."""
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


def run_ready(ready: ReadyJob, *, progress: str, quiet: bool, as_json: bool) -> int:
    """Run a job, print its summary and return the exit code. A job that is complete needs no run and no key."""
    config, store, job, flags = ready
    # If the process died after the last answer but before the end of the job, a run that sends nothing ends the job.
    if job.good < job.total or job.state != "complete":
        return _run(ready, progress, quiet=quiet, as_json=as_json)
    with logged(config, job, flags) as log:
        rewrite(config, job, flags)
        if log is not None:
            log.say(f"job {job.name} is already complete: nothing was sent, the results were written again")
    if as_json:
        print_json(flat(job_report(store, job, job.state), {"saved": saved_report(job)}))
    elif not quiet:
        say(
            f"job {job.name} is already complete: nothing was sent, the results were written again from the store"
        )
        say(f"  {saved_text(job)}")
        say(f"  results: {shown_path(flags.output.path)}")
    return EXIT_CODES["complete"]


def _run(ready: ReadyJob, progress: str, *, quiet: bool, as_json: bool) -> int:
    config, store, job, flags = ready
    with logged(config, job, flags) as log:
        display = display_for(progress, quiet=quiet)
        watching = [one for one in (log, display) if one is not None]
        try:
            ending = run(config, store, job, flags, watching)
        finally:
            if display is not None:
                display.close()
        after = store.job(job.name) or job
        as_data = _run_json(config, store, job, after, ending) if as_json or log is not None else {}
        if log is not None:
            log.finished(_summary(config, store, after, ending, flags.output.path), as_data)
    if as_json:
        print_json(as_data)
    elif not quiet:
        for line in _summary(config, store, after, ending, flags.output.path):
            say(line)
    return EXIT_CODES[ending.state]


@contextmanager
def logged(config: Config, job: Job, flags: RunFlags) -> Iterator[LogFile | None]:
    """The log of a run, or None without --log-file. It records an error that ends the run."""
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
        if log.write_error:
            say(f"{path}: some lines could not be written: {log.write_error}")


def _summary(config: Config, store: Store, job: Job, ending: RunResult, out: Path) -> list[str]:
    """The summary of a run, with the command that continues the job."""
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


def _run_json(config: Config, store: Store, before: Job, job: Job, ending: RunResult) -> dict[str, Any]:
    """The job and this run in one JSON object."""
    command = None if ending.state == "complete" else resume_command(config, store, job, ending.state)
    fields = flat(run_report(store, before, job, ending, command))
    return flat(fields.pop("job"), fields)
