"""How the commands that run a job run it, show it, and sum it up."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from headway.batch.output_lock import OutputLock, real_path
from headway.batch.recipe import is_table
from headway.cli.options import must_be_sheet
from headway.cli.resume_hint import next_command, next_step, used_up
from headway.cli.session import (
    cached_lines,
    compared,
    facts,
    failure_lines,
    print_json,
    say,
    stop_reasons,
    stopped,
)
from headway.config import Config, dotenv_of, parse_duration, variables_of
from headway.core.model import Kind
from headway.core.reasons import AccountRefused, EndReason, NeverAnswered
from headway.display.account import (
    budget_facts,
    budget_line,
    lane_lines,
    limit_facts,
    saved,
    saved_facts,
    spent,
)
from headway.display.jsonl import JsonDisplay
from headway.display.log_file import LogFile
from headway.display.plain import PIPE_S, TERMINAL_S, PlainDisplay
from headway.display.words import duration, units
from headway.engine.endings import Ending
from headway.engine.observer import Display
from headway.errors import InputError, UsageError
from headway.stores.records import Job, Use
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
    """Who shows the run on stderr: a live view on a terminal, lines elsewhere."""
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
        told = run_facts(config, store, job, after, ending) if as_json or log is not None else {}
        if log is not None:
            log.finished(summary(config, store, after, ending, flags.out), told)
    if as_json:
        print_json(told)
    elif not quiet:
        for line in summary(config, store, after, ending, flags.out):
            say(line)
    return EXIT_CODES[ending.state]


def _tell_of_failed(watching: list[Display], job: Job, flags: RunFlags) -> None:
    """Whoever runs a job again tries again what failed before: that is said, since it may cost again."""
    if failed := job.counts["failed"] + job.counts["timed_out"]:
        they = "only they are" if flags.only_failed else "they are"
        _tell_all(watching, f"{units(failed)} failed before: {they} tried again; what succeeded stays")


def _tell_all(watching: list[Display], text: str) -> None:
    for one in watching:
        one.say(text)


@contextmanager
def logged(config: Config, job: Job, flags: RunFlags) -> Iterator[LogFile | None]:
    """The log of a run, where one is wanted: it has the error too that the run ends with."""
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
        job = store.job(job.name) or job  # Another process may have finished it a moment ago.
        # One that died between its last answer and its end is ended by a run that sends nothing.
        if job.good < job.total or job.state != "complete":
            return run_job(config, store, job, flags, **shown)
        with logged(config, job, flags) as log:
            rewrite(config, job, flags)
            if log is not None:
                log.say(f"job {job.name} is done: nothing was sent, its results are written again")
    if shown["as_json"]:
        print_json({**facts(store, job, job.state), "saved": saved_facts(job)})
    elif not shown["quiet"]:
        say(f"job {job.name} is done: nothing was sent, its results are written again from the store")
        say(f"  {saved(job)}")
        say(f"  results: {_shown(flags.out)}")
    return EXIT_CODES["complete"]


_ENDS: Final = {
    "complete": "done",
    "failed": "done, with failures",
    "stopped": "stopped: a lane cannot go on",
    "deadline": "stopped: --max-duration is over",
    "budget": "stopped: the budget is used up",
    "parked": "parked: a lane is held for longer than --max-hold",
    "interrupted": "interrupted",
    "cancelled": "cancelled",
}


def summary(config: Config, store: Store, job: Job, ending: Ending, out: Path) -> list[str]:
    """What a person wants to know at the end, and the command that goes on from here."""
    view = ending.view
    how = "stopped: a lane's budget is used up" if used_up(job) else _ENDS[ending.state]
    lines = [f"{how}: {job.good:,} of {job.total:,} succeeded in {duration(view.elapsed_s)}"]
    lines += _stopped_lines(config, store, job)
    lines.append(f"  {spent(job)}")
    if ending.state == "budget" and not used_up(job) and (line := budget_line(view)):
        lines.append(f"  {line}")
    lines += [f"  {line}" for line in lane_lines(view, _uses_by_key(store, job))]
    lines += cached_lines(store, job)
    lines += compared(store, job)
    lines += failure_lines(store, job)
    lines.append(f"  results: {_shown(out)}")
    if ending.state != "complete":
        lines.append(f"  {next_step(config, store, job, ending.state)}")
    return lines


def _stopped_lines(config: Config, store: Store, job: Job) -> list[str]:
    """The lanes that cannot go on, and what to do: before everything else, since the figures follow from it."""
    reasons = stop_reasons(store, job)
    return [
        f"  {name} stopped: {text}{_about_key(config, name, reasons[name]) or about_address(config, name, reasons[name])}"
        for name, text in sorted(stopped(store, job, None).items())
    ]


def run_facts(config: Config, store: Store, before: Job, job: Job, ending: Ending) -> dict[str, Any]:
    """The same as data: the job, and what this run was like."""
    return {
        **facts(store, job, ending.state),
        "elapsed_s": round(ending.view.elapsed_s, 3),
        "saved": saved_facts(before),
        "limits": limit_facts(ending.view),
        "budget": budget_facts(ending.view),
        "next": None if ending.state == "complete" else next_command(config, store, job, ending.state),
    }


def _uses_by_key(store: Store, job: Job) -> dict[str, Use]:
    """What the job's lanes came to, by their keys: several models may share one."""
    keys = {lane.id: lane.key for lane in store.lanes()}
    found: dict[str, Use] = {}
    for use in store.use_by_route(job.id).values():
        if use.lane in keys:
            found.setdefault(keys[use.lane], Use()).add(use)
    return found


def _about_key(config: Config, lane: str, reason: EndReason) -> str:
    """Where the key is that a provider does not take."""
    provider = config.providers.get(lane.partition("/")[0])
    if provider is None or provider.workers is not None or not isinstance(reason, AccountRefused):
        return ""
    if reason.kind is not Kind.AUTH:
        return ""
    if reason.wrong_path:
        return f" — check base_url, which is {provider.base_url}: it ends before the endpoint, with or without /v1"
    found = variables_of(provider, os.environ, dotenv_of(config))
    if found:
        return f" — check the key in {found}, and that it may use this model"
    return f" — no key was sent: {provider.api_key_env} is not set; export it or put it in .env beside headway.toml"


def about_address(config: Config, lane: str, reason: EndReason) -> str:
    """Where the address stands at which nobody ever answered, and what looks into it."""
    provider = config.providers.get(lane.partition("/")[0])
    if provider is None or not isinstance(reason, NeverAnswered) or reason.kind is not Kind.TRANSIENT:
        return ""
    where = f"base_url is {provider.base_url}"
    if config.path is not None:
        where += f" in [providers.{provider.name}] of {_shown(config.path)}"
    return f" — {where}; 'headway doctor' looks whether anybody answers there"


def _shown(path: Path) -> str:
    """Relative to where the user is, if that is shorter."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def tell_bad_rows(error: InputError) -> None:
    """Every bad row before the one line that sums them up."""
    for problem in error.problems:
        say(problem)
