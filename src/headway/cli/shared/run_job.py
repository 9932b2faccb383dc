"""Runs a job for `run`, `resume` and `retry`: shows its progress and prints its summary."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from headway.batch.inputs.then_unit import ThenUnit, answer_to
from headway.batch.request_options import text_or_file
from headway.cli.shared.printing import flat, print_json, say
from headway.cli.shared.resume_hint import next_step, resume_command
from headway.cli.shared.watch_flags import watch_of
from headway.config import Config, parse_duration, with_agents
from headway.core.unit_states import GOOD
from headway.display.json_lines import JsonDisplay
from headway.display.log_file import LogFile, LogStyle
from headway.display.plain import PIPE_S, TERMINAL_S, PlainDisplay
from headway.display.run_text import STOPPED_EARLY, RunSummary, output_text, quiet_lines, summary_lines
from headway.display.stop_advice import stop_lines
from headway.display.terminal import echo_text
from headway.display.usage_text import saved_text
from headway.engine.observer import Display, Observer
from headway.engine.run_result import RunResult
from headway.errors import HeadwayError, JobTaken, UsageError
from headway.jobs.base import FileJobKind, OutputOptions, ReportKind, spent_budgets
from headway.jobs.kinds import run_kind_of
from headway.reports.finished_runs import run_report
from headway.reports.jobs import job_report
from headway.reports.models import compared_models
from headway.reports.status import failure_examples, stops_left, units_to_retry
from headway.reports.usage import cached_units, saved_report, uses_by_key
from headway.stores.records import Job
from headway.stores.run_summary import PrintedSummary, clear_summary, write_summary
from headway.stores.store import Store
from headway.wiring.agent_work import AgentOptions, is_program, kept_count
from headway.wiring.run_execution import EXIT_CODES, rewrite, run
from headway.wiring.run_plan import RunFlags, then_of
from headway.wiring.run_watching import watched
from headway.wiring.store_access import job_folder, open_store
from headway.wiring.submission import ReadyJob

if TYPE_CHECKING:
    from headway.cli.shared.detach import Detachment
    from headway.display.flows.event_file import EventFile


def flags_of(kind: FileJobKind, out: Path | None, default: Callable[[], str], **flags: Any) -> RunFlags:
    """The run options from the flags of a command. `default` is the output without --out and --out-dir, as a job records it."""
    kind.check_flags(flags)
    delay_s = delay_of(flags["delay"])
    log_file: Path | None = flags.get("log_file")
    output = _output_of(out, default, flags)
    if log_file is not None and log_file.absolute() == output.path.absolute():
        raise UsageError(f"--log-file {log_file} is the results file", hint="name another file")
    events: Path | None = flags.get("events")
    if events is not None and not kind.counts_nodes:
        raise UsageError("--events is for flows (.yaml)", hint="leave it out, or see --log-file")
    if events is not None and events.absolute() in (output.path.absolute(), log_file and log_file.absolute()):
        raise UsageError(f"--events {events} is another file of the run", hint="name another file")
    if events is not None:
        from headway.display.flows.event_file import must_be_events  # A batch does not load what flows need.

        must_be_events(events)  # Before a job is made.
    if flags.get("detach") and output.is_stdout:
        raise UsageError("results on standard output do not go with --detach", hint="name a file with --out")
    kind.check_output(output)
    if isinstance(kind, ReportKind):
        from headway.wiring.report_files import must_be_reports  # A batch does not load what evals need.

        must_be_reports(kind, [] if output.form == "folder" else [output.path])
    if flags["collect"] and output.form != "folder":
        raise UsageError(
            "--collect keeps files in the folders of --out-dir", hint="name a directory with --out-dir"
        )
    return RunFlags(
        output=output,
        only_failed=flags.get("only_failed", False),
        only_units=flags.get("only_units", ()),
        serial=flags["serial"],
        delay_s=delay_s,
        log_file=log_file,
        log_style=LogStyle(flags.get("log_format", "text"), flags.get("log_level", "info")),
        events=events,
        then=_then(flags),
        nodes=_nodes(kind, flags.get("concurrency")),
        until=flags.get("until") or "",
        agents=AgentOptions(flags["worktree"], flags["shared_directory"], tuple(flags["collect"])),
        watch=watch_of(flags),
    )


def _nodes(kind: FileJobKind, concurrency: int | None) -> int | None:
    """The value of --concurrency, where it counts nodes; 0: the lanes decide."""
    if not kind.counts_nodes or concurrency is None:
        return None
    if concurrency < 0:
        raise UsageError(
            f"--concurrency {concurrency}: expected a number of nodes", hint="0 leaves it to the lanes"
        )
    return concurrency


def _then(flags: Mapping[str, Any]) -> ThenUnit:
    template = text_or_file("--then", flags.get("then"))
    if template is None:
        if flags.get("allow_failures"):
            raise UsageError("--allow-failures goes with --then", hint="leave it out")
        return ThenUnit()
    then = ThenUnit(template, flags["allow_failures"])
    then.check()
    return then


def _output_of(out: Path | None, default: Callable[[], str], flags: Mapping[str, Any]) -> OutputOptions:
    out_dir: Path | None = flags["out_dir"]
    if out_dir is not None and out is not None:
        raise UsageError("--out and --out-dir name two outputs", hint="leave one of them out")
    if out_dir is not None and (flags["text_only"] or flags["out_order"] != "input"):
        flag = "--text-only" if flags["text_only"] else "--out-order"
        raise UsageError(f"{flag} does not go with --out-dir: each answer is a file with its text")
    options = OutputOptions(
        Path(), flags["out_order"], flags["force"], flags["safe_cells"], flags["text_only"],
        is_default=out is None and out_dir is None,
    )  # fmt: skip
    options = options.to(default() if options.is_default else str(out) if out_dir is None else f"{out_dir}/")
    _must_not_mix(options, as_json=flags["as_json"])
    return options


def _must_not_mix(output: OutputOptions, *, as_json: bool) -> None:
    if output.is_stdout and as_json:
        raise UsageError(
            "--json and the results would both go to standard output", hint="name a file with --out"
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


def run_ready(
    ready: ReadyJob, detachment: Detachment | None = None, *, progress: str, quiet: bool, as_json: bool
) -> int:
    """Run a job, print its summary and return the exit code. A job that is complete needs no run and no key. With a `detachment`, it
    runs in the background and prints nothing.
    """
    config, store, job, flags = ready
    _must_not_mix(flags.output, as_json=as_json)
    # If the process died after the last answer but before the end of the job, a run that sends nothing ends the job.
    then = then_of(job, flags)
    is_whole = not then.template or store.index_of(job.id, then.id) is not None
    is_open = job.good < job.total and not run_kind_of(job).tolerates_failures
    if is_open or job.state != "complete" or flags.only_units or not is_whole:
        display = display_for(_shown_as(progress, flags), quiet=quiet) if detachment is None else None
        with (
            logged(config, job, flags) as log,
            _run_log(detachment, config, job, flags) as run_log,
            _events(config, job, flags) as events,
        ):
            logs = [one for one in (log, run_log) if one is not None]
            displays = [one for one in (display, events) if one is not None]
            ending, lines, as_data = _watched_run(ready, displays, logs, as_json=as_json)
        if detachment is None:
            if not as_json:
                _show_then(store, store.job(job.name) or job, flags, quiet=quiet)
            _show(lines, as_data, _exit_code(store, job, flags, ending), quiet=quiet, as_json=as_json)
        return _exit_code(store, job, flags, ending)
    with logged(config, job, flags) as log, _events(config, job, flags):
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
        say(f"  results: {output_text(flags.output)}")
    return EXIT_CODES["complete"]


def _shown_as(progress: str, flags: RunFlags) -> str:
    if progress == "auto" and flags.output.is_stdout and sys.stdout.isatty():
        return "plain"  # A live display would overwrite the rows.
    return progress


def _watched_run(
    ready: ReadyJob, displays: Sequence[Display], logs: Sequence[LogFile], *, as_json: bool
) -> tuple[RunResult, list[str], dict[str, Any]]:
    """Run a job with what watches it from outside."""
    config, store, job, flags = ready

    def show(text: str) -> None:
        for display in (*logs, *displays):
            display.say(text)

    def warn(text: str) -> None:  # The displays are closed by then.
        for log in logs:
            log.say(text)
        if displays:
            say(text)

    with watched(config, job, flags, show, warn) as watch:
        ready = ready._replace(flags=msgspec.structs.replace(flags, trace=watch.trace))
        done = _run(ready, displays, logs, watch.observers, as_json=as_json)
        watch.ended(job.name, done[0].state, _exit_code(store, job, flags, done[0]))
    return done


def _run(
    ready: ReadyJob,
    displays: Sequence[Display],
    logs: Sequence[LogFile],
    observers: Sequence[Observer],
    *,
    as_json: bool,
) -> tuple[RunResult, list[str], dict[str, Any]]:
    """Run a job; returns how it ended, its summary, and the same as JSON if that is needed."""
    config, store, job, flags = ready
    folder = job_folder(config, job.name)
    before = _without_again(store, job, flags)
    clear_summary(folder)
    try:
        ending = run(config, store, job, flags, [*logs, *displays], observers)
    except HeadwayError as error:
        _add_next_step(error, config, store, job)
        raise
    finally:
        for display in displays:
            display.close()
    after = store.job(job.name) or job
    as_data = _run_json(config, store, before, after, ending) if as_json or logs else {}
    lines = _summary(config, store, (before, after), ending, flags.output)
    code = _exit_code(store, job, flags, ending)
    write_summary(folder, PrintedSummary(ending.state, code, lines))
    for log in logs:
        log.finished(lines, as_data)
    return ending, lines, as_data


def _exit_code(store: Store, job: Job, flags: RunFlags, ending: RunResult) -> int:
    """The exit code of a run. If it was for named units, only these count."""
    named = store.states(job.id, flags.only_units).values()
    if named and all(status in GOOD for status in named):
        return EXIT_CODES["complete"]
    after = store.job(job.name) or job
    if ending.state == "parked" and run_kind_of(job).is_enough(store, after):
        return EXIT_CODES["complete"]
    return EXIT_CODES[ending.state]


def _show(lines: list[str], as_data: dict[str, Any], code: int, *, quiet: bool, as_json: bool) -> None:
    """Print the summary."""
    if as_json:
        print_json(as_data)
        return
    if not quiet or code == STOPPED_EARLY:
        for line in quiet_lines(lines, code) if quiet else lines:
            say(line)


@contextmanager
def _run_log(
    detachment: Detachment | None, config: Config, job: Job, flags: RunFlags
) -> Iterator[LogFile | None]:
    """The log of a run in the background."""
    if detachment is None:
        yield None
        return
    log = detachment.log(config, job, flags.log_style)
    try:
        yield log
    except BaseException as error:
        if log.is_in_use:  # Otherwise the error is shown on the terminal.
            log.failed(error)
        raise
    finally:
        log.close()


def _without_again(store: Store, job: Job, flags: RunFlags) -> Job:
    """The job before a run, without the answers of units that this run is to run again."""
    counts = dict(job.counts)
    for status in store.states(job.id, flags.only_units).values():
        if status in GOOD:
            counts[status] -= 1
    return msgspec.structs.replace(job, counts=counts)


def _show_then(store: Store, job: Job, flags: RunFlags, *, quiet: bool) -> None:
    """Print the answer about all results."""
    then = then_of(job, flags)
    if quiet or not then.template or flags.output.is_stdout:
        return
    text = answer_to(store, job, then)
    if text is not None:
        echo_text(text.rstrip("\n"))
    elif job.good < job.total and not then.allow_failures:
        say(
            "--then was not run: not every unit has succeeded (--allow-failures runs it over those that have)"
        )


def _add_next_step(error: HeadwayError, config: Config, store: Store, job: Job) -> None:
    """If an error ended a run that had begun, say how to resume the job."""
    if error.exit_code == EXIT_CODES["failed"] and not isinstance(error, JobTaken):
        with suppress(HeadwayError):
            after = store.job(job.name) or job
            error.next_step = next_step(config, store, after, "interrupted")


@contextmanager
def logged(config: Config, job: Job, flags: RunFlags) -> Iterator[LogFile | None]:
    """The log of a run, or None without --log-file. It records an error that ends the run."""
    path = flags.log_file
    if path is None:
        yield None
        return
    if str(path.absolute()) in (job.input, config.db):
        raise UsageError(f"--log-file {path} is a file of the job itself", hint="name another file")
    log = LogFile(path, flags.log_style, job=job.name, open_store=lambda: open_store(config, read_only=True))
    try:
        yield log
    except BaseException as error:
        log.failed(error)
        raise
    finally:
        log.close()
        if log.write_error:
            say(f"{path}: some lines could not be written: {log.write_error}")


@contextmanager
def _events(config: Config, job: Job, flags: RunFlags) -> Iterator[EventFile | None]:
    """The file of a flow's events, or None without --events. What is recorded and not in the file is added at once."""
    if flags.events is None:
        yield None
        return
    if str(flags.events.absolute()) in (job.input, config.db):
        raise UsageError(f"--events {flags.events} is a file of the job itself", hint="name another file")
    from headway.display.flows.event_file import EventFile

    events = EventFile(flags.events, lambda: open_store(config), job)
    try:
        yield events
    finally:
        events.close()
        if events.write_error:
            say(
                f"{flags.events}: some events could not be written: {events.write_error} (the next run with --events adds them)"
            )


def _summary(
    config: Config, store: Store, jobs: tuple[Job, Job], ending: RunResult, out: OutputOptions
) -> list[str]:
    """The summary of a run, with the command that continues the job. `jobs`: the job before and after the run."""
    before, job = jobs
    report = job_report(store, job, ending.state)
    stops = stops_left(store, job)
    return summary_lines(
        RunSummary(
            job=report,
            ending=ending,
            stops=stop_lines(stops, config, os.environ),
            lane_budgets_spent=bool(spent_budgets(job)),
            uses=uses_by_key(store, job),
            cached=cached_units(store, job),
            examples=failure_examples(store, job, report.failures),
            models=compared_models(store, job),
            out=output_text(out),
            next_step="" if ending.state == "complete" else next_step(config, store, job, ending.state),
            earlier=before.good,
            is_resumed=before.started_utc is not None,
            to_retry=() if stops else units_to_retry(store, job),
            worktrees=kept_count(config, job.name),
            is_local=_is_local(config, store, job),
        )
    )


def _is_local(config: Config, store: Store, job: Job) -> bool:
    """Whether all units of a job are for programs."""
    names = {route.provider for route in store.routes(job.id)}
    known = with_agents(config, names).providers
    return bool(names) and all(name in known and is_program(known[name]) for name in names)


def _run_json(config: Config, store: Store, before: Job, job: Job, ending: RunResult) -> dict[str, Any]:
    """The job and this run in one JSON object."""
    command = None if ending.state == "complete" else resume_command(config, store, job, ending.state)
    fields = flat(run_report(store, before, job, ending, command))
    models = {name: model.fields() for name, model in compared_models(store, job).items()}
    return flat(fields.pop("job"), fields, {"per_model": models} if models else {})
