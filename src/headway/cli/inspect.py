"""`headway jobs`, `status`, `show`, `export`, `lanes`: look at the records, change nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from headway.cli.limits import ask_jobs, limit_options, limits_by_name
from headway.cli.options import json_option, must_be_sheet, output_name, safe_cells_option, where_options
from headway.display.terminal import echo, echo_json

#: Lanes are written down every five seconds: what is older is nobody's present.
STALE_S: Final = 15.0


@click.command("jobs", short_help="List the jobs.", epilog="Example: headway jobs --json")
@json_option
@where_options
def jobs(config: Path | None, db: str | None, as_json: bool) -> None:
    """List every job in the database, the newest first."""
    from headway.cli import python_jobs, session

    settings = session.settings(config, db)
    with session.existing_store(settings) as store:
        found = [(job, session.state_of(settings, job)) for job in store.jobs()]
        if as_json:
            session.print_json([session.facts(store, job, state) for job, state in found])
            return
    if not found:
        echo("there are no jobs yet — 'headway run FILE' starts one")
        return
    rows = [
        (job.name, state, f"{job.good:,}/{job.total:,}", f"{job.ended - job.good:,}", session.when(job.started_utc), python_jobs.made_by(job) if python_jobs.is_python_job(job) else _input(job.input))
        for job, state in found
    ]  # fmt: skip
    _table(("job", "state", "succeeded", "failed", "started", "input"), rows)


@click.command(
    "status", short_help="How a job stands, lane by lane.", epilog="Example: headway status --json"
)
@click.argument("job", required=False)
@json_option
@where_options
def status(job: str | None, config: Path | None, db: str | None, as_json: bool) -> None:
    """Show how JOB (the latest where none is named) stands: totals, lanes, failures by kind, and what it waits for."""
    from headway.cli import session
    from headway.stores.records import LIVE

    settings = session.settings(config, db)
    with session.existing_store(settings) as store:
        chosen = session.chosen(store, job)
        state = session.state_of(settings, chosen)
        live = state in LIVE
        lanes = session.lanes_of(store, chosen)
        if not live:
            lanes = {name: session.without_process(counts) for name, counts in lanes.items()}
        progress = _progress(settings, chosen.name) if live else None
        unknown = (
            store.unknown(chosen.id) if any(session.UNKNOWN in counts for counts in lanes.values()) else []
        )
        if as_json:
            facts = session.facts(store, chosen, state)
            facts["live"] = live
            facts["stopped"] = session.stopped(store, chosen, progress)
            session.print_json({**facts, "per_lane": lanes, "progress": progress, "unknown": [one.custom_id for one in unknown]})  # fmt: skip
            return
        _show_status(settings, store, chosen, state, lanes, progress, unknown)


def _show_status(
    settings: Any, store: Any, job: Any, state: str, lanes: Any, progress: Any, unknown: Any
) -> None:
    from headway.cli import python_jobs, session
    from headway.cli.resume_hint import next_step
    from headway.core.reasons import WaitCode
    from headway.display.account import cost_of, held, spent
    from headway.display.words import count, duration, short, units
    from headway.reason_text import wait_text
    from headway.reports.holds import holds_of

    echo(f"job {job.name}: {state}, {job.good:,} of {job.total:,} succeeded")
    a_program = python_jobs.is_python_job(job)
    lines = [f"  input {job.input}, results {job.out}", f"  {count(job.attempts, 'attempt')}, {spent(job)}"]
    for line in (*(python_jobs.status_lines(job) if a_program else lines), *session.compared(store, job)):
        echo(line)
    if state == "paused":
        echo("  nothing starts until 'headway resume'")
    elif progress is not None and progress["totals"]["eta_s"] is not None:
        echo(f"  about {duration(progress['totals']['eta_s'])} left")
    for line in (*session.cached_lines(store, job), *session.failure_lines(store, job)):
        echo(line)
    if unknown:
        names = ", ".join(one.custom_id for one in unknown[:5]) + (", …" if len(unknown) > 5 else "")
        echo("  no process runs this job now: the last one ended without a word")
        echo(
            f"  {units(len(unknown))} may have been sent; the outcome is unknown until the job is resumed: {names}"
        )
    for name, reason in sorted(session.stopped(store, job, progress).items()):
        echo(f"  {name} stopped: {reason}")
    for name, hold in sorted(holds_of(store, job).items()):
        echo(f"  {name} was {held(hold.held_s, hold.holds, hold.reason)}")
    waits = {} if progress is None else progress["lanes"]
    uses = session.uses_of(store, job)
    for name, counts in sorted(lanes.items()):
        parts = ", ".join(f"{n:,} {what}" for what, n in counts.items())
        if name in uses and (cost := cost_of(uses[name])):
            parts += f"; {cost}"
        wait = session.wait_of(waits[name]) if name in waits else None
        if wait is not None and wait.until:
            parts += f"; waits until {session.when(wait.until)}: {short(wait_text(wait))}"
        elif wait is not None and wait.code in (WaitCode.BREAKER, WaitCode.PROBE):
            parts += f"; waits: {short(wait_text(wait))}"
        echo(f"  {name}: {parts}")
    if state not in ("running", "paused", "complete"):
        onward = python_jobs.next_step(job, state) if a_program else next_step(settings, store, job, state)
        echo(f"  {onward}")


def _progress(settings: Any, job: str) -> Any:
    """What the running process wrote last."""
    from headway.stores.files import read_own
    from headway.stores.lock import JOB_LEVELS
    from headway.wiring.places import folder_of

    try:
        return msgspec.json.decode(read_own(folder_of(settings, job) / "progress.json", JOB_LEVELS))
    except (OSError, msgspec.DecodeError):
        return None


@click.command(
    "show", short_help="Everything about one unit.", epilog="Example: headway show requests-3fa2c1 row-17"
)
@click.argument("job")
@click.argument("unit")
@json_option
@where_options
def show(job: str, unit: str, config: Path | None, db: str | None, as_json: bool) -> None:
    """Show what UNIT (an id of the input, or an index) of JOB sent, what came back, and every attempt at it."""
    from headway.batch.output import lines_of
    from headway.cli import python_jobs, session

    settings = session.settings(config, db)
    with session.existing_store(settings) as store:
        chosen = session.chosen(store, job)
        index = session.unit_of(store, chosen, unit)
        path, body = store.request(chosen.id, index)
        result = msgspec.json.decode(next(lines_of(store, chosen, index, index)))
        attempts = store.attempts(chosen.id, index)
        notes = store.notes_of(chosen.id, index)
        repairs = [_repair(one) for one in store.repairs_of(chosen.id, index)]
        route = store.results(chosen.id, index - 1, 1)[0]
        source = store.cache.source(chosen.id, index)
    facts = {
        "job": chosen.name,
        "unit": index,
        "custom_id": route.custom_id,
        "provider": route.provider,
        "model": route.model,
        "request": {"path": path, "body": msgspec.Raw(body)},
        "result": result,
        "attempts": attempts,
        "notes": notes,
        "repairs": repairs,
        "answer_of": source,
    }
    if as_json:
        more = python_jobs.facts(chosen, route.custom_id, result) if python_jobs.is_python_job(chosen) else {}
        session.print_json({**facts, **more})
        return
    if python_jobs.is_python_job(chosen):
        _show_head(facts, f"lane {route.provider}", attempts)
        python_jobs.show_unit(chosen, body, result, told=bool(notes))
        return
    _show_head(facts, f"{route.provider}/{route.model} {path}", attempts)
    _show_exchange(facts)


def _repair(repair: Any) -> dict[str, Any]:
    """An answer that did not fit the job's schema, and what was asked next."""
    asked = None if repair.request is None else msgspec.Raw(repair.request)
    return {"attempt": repair.number, "answer": msgspec.Raw(repair.answer), "request": asked}


def _show_head(facts: dict[str, Any], where: str, attempts: list[Any]) -> None:
    """Which unit it is, and every attempt at it."""
    from headway.cli import session
    from headway.display.attempt_details import show_details

    status = facts["result"]["headway"]["status"]
    echo(f"{facts['custom_id']} (unit {facts['unit']} of {facts['job']}): {status}")
    echo(f"  {where}")
    for attempt in attempts:
        how = attempt.outcome + (f" ({attempt.kind}: {attempt.message})" if attempt.kind else "")
        took = ""
        if attempt.started_utc and attempt.finished_utc:
            took = f" in {attempt.finished_utc - attempt.started_utc:.2f} s"
        code = f", HTTP {attempt.status_code}" if attempt.status_code else ""
        found = f"; limit found in {attempt.rate_limit['source']}" if attempt.rate_limit else ""
        echo(f"  attempt {attempt.number}, {session.when(attempt.started_utc)}: {how}{took}{code}{found}")
        show_details(facts["notes"].get(attempt.number, {}))


def _show_exchange(facts: dict[str, Any]) -> None:
    """What was sent, and what came back."""
    from headway.batch.answer import answer_of

    result = facts["result"]
    if (source := facts["answer_of"]) is not None:
        whose = "a job that is gone" if source.job is None else f"job {source.job}"
        echo(f"  answered without a call: it has the answer of {source.custom_id or source.index} in {whose}")
    echo("request:")
    echo_json(bytes(facts["request"]["body"]), indent=True)
    for repair in facts["repairs"]:
        echo(f"answer of attempt {repair['attempt']}, which did not fit:")
        echo(answer_of(bytes(repair["answer"])))
    answer = result["response"]["body"] if result["response"] else result["error"]
    echo("answer:" if result["response"] else "error:")
    echo_json(answer, indent=True)


@click.command(
    "export", short_help="Write a job's results from the store.", epilog="Example: headway export > out.jsonl"
)
@click.argument("job", required=False)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    callback=output_name,
    metavar="FILE",
    help="Instead of standard output: .jsonl, or a table as .csv, .tsv or .parquet.",
)
@click.option("--force", is_flag=True, help="Replace FILE where it exists.")
@safe_cells_option
@json_option
@where_options
def export(
    job: str | None,
    out: Path | None,
    force: bool,
    safe_cells: bool,
    config: Path | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Write one row for each unit of JOB (the latest where none is named) as it stands, in input order: JSON lines,
    whether --json is given or not, or a table where --out names one (.csv, .tsv, .parquet).
    """
    from headway.batch.output import lines, must_be_writable_table
    from headway.batch.output_lock import OutputLock, real_path
    from headway.batch.recipe import is_table
    from headway.batch.sheet import write_sheet
    from headway.cli import session
    from headway.errors import UsageError
    from headway.safe_text import escaped
    from headway.stores.files import Replacement

    if safe_cells:
        must_be_sheet(out)
    settings = session.settings(config, db)
    with session.existing_store(settings) as store:
        chosen = session.chosen(store, job)
        if out is None:
            on_terminal = sys.stdout.isatty()
            for line in lines(store, chosen):
                sys.stdout.buffer.write(escaped(line.decode()).encode() if on_terminal else line)
            sys.stdout.buffer.flush()
            return
        if is_table(out):
            must_be_writable_table(out)
        target = real_path(out)
        with OutputLock(target, chosen.name, make=False):
            if out.exists() and not force:
                raise UsageError(f"{out} exists", hint="replace it with --force")
            try:
                with Replacement(target) as fresh:
                    if is_table(out):
                        write_sheet(fresh.file, target.name, store, chosen, safe=safe_cells)
                    else:
                        fresh.file.writelines(lines(store, chosen))
                    fresh.commit()
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                raise UsageError(f"--out {out} cannot be written: {why}", hint="name another file") from None
    session.say(f"wrote {out}")


@click.command(
    "lanes", short_help="What is known of every lane.", epilog="Example: headway lanes --rpm alpha/gpt-x=600"
)
@limit_options("Let the jobs that run now keep LANE to N {} from here on. 0: any number.".format, "LANE=N")
@click.option(
    "--reopen",
    multiple=True,
    metavar="LANE",
    help="Let them try LANE again now, whatever it waits for; where no job runs, clear the hold on record.",
)
@json_option
@where_options
def lanes(config: Path | None, db: str | None, as_json: bool, reopen: tuple[str, ...], **flags: Any) -> None:
    """Show every lane that was ever used: limits told, configured or found, how much was left, window, holds, and
    which limit binds. Rates are a minute's.

    With a limit or --reopen, tell the jobs that run now instead; LANE is a lane as it is shown here, or a provider.
    Limits for later runs are in headway.toml.
    """
    from headway.cli import session
    from headway.display.account import use_facts
    from headway.stores.records import Use

    settings = session.settings(config, db)
    limits = limits_by_name(flags)
    if limits or reopen:
        session.existing_store(settings).close()
        asked = ask_jobs(settings, limits, reopen)
        if as_json:
            session.print_json(msgspec.to_builtins(asked))
        else:
            echo("\n".join(map(str, asked)))
        return
    with session.existing_store(settings) as store:
        found, uses = store.lanes(), store.use_by_lane()
    facts = [
        {
            "lane": lane.name,
            "key": lane.key,
            "updated_utc": lane.updated_utc,
            "spent": use_facts(uses.get(lane.id) or Use()),
            "learned": _decoded(lane.record),
            "seen": _seen_as_json(lane.view),
        }
        for lane in found
    ]
    if as_json:
        session.print_json(facts)
        return
    if not facts:
        echo("no lane has been used yet")
    for lane, fact in zip(found, facts, strict=True):
        _show_lane(fact, _seen_wait(lane.view), uses.get(lane.id))


def _decoded(data: bytes | None) -> Any:
    return None if data is None else msgspec.json.decode(data)


def _seen_as_json(data: bytes | None) -> Any:
    """How a lane looked last, with words for what it waits for."""
    from headway.reason_text import wait_text

    seen = _decoded(data)
    if (wait := _seen_wait(data)) is not None:
        seen["wait"] = {"reason": wait_text(wait), "until": wait.until}
    return seen


def _seen_wait(data: bytes | None) -> Any:
    """What a lane waited for when its process wrote it down."""
    from headway.core.reasons import Wait
    from headway.stores.older_reasons import lane_wait

    stored = None if data is None else _decoded(data)["wait"]
    if stored is None:
        return None
    return msgspec.convert(stored, Wait) if "code" in stored else lane_wait(**stored)


def _show_lane(lane: dict[str, Any], wait: Any, use: Any) -> None:
    import time

    from headway.cli import session
    from headway.core.finder import LEARNED
    from headway.core.portion import OUR_PART
    from headway.display.account import cost_of

    seen, learned = lane["seen"], lane["learned"]
    echo(f"{lane['lane']}  ({lane['key']}, as of {session.when(lane['updated_utc'])})")
    if seen is None or learned is None:
        echo("  not used yet")
        return
    if line := _lane_wait(wait, time.time() - (lane["updated_utc"] or 0.0)):
        echo(f"  {line}")
    for meter in seen["meters"]:
        if (meter["name"] == LEARNED and not learned.get("found")) or meter["name"].endswith(OUR_PART):
            continue  # Not known yet; or one job's alone, whichever looked last.
        if meter["name"] == LEARNED:
            echo(
                f"  pace found so far: {meter['limit']:,.0f} {meter.get('dimension', 'requests').replace('_', ' ')} a minute"
            )
            continue
        echo(f"  {_meter(meter)}")
    window = "open" if seen["window"] is None else f"{seen['window']}"
    echo(
        f"  window {window}, {seen['in_flight']} in flight, {seen['refused']:,} refused of {seen['started']:,}"
    )
    if seen["started"]:
        echo(f"  latest run: {_held_back(seen)}")
    if use is not None and (cost := cost_of(use)):
        echo(f"  spent over all jobs: {cost}")
    if seen["others"]:
        echo(f"  somebody else on this key uses about {seen['others']:.0%}")
    until = learned.get("held_until_utc")
    if until and until > time.time():
        echo(f"  held until {session.when(until)}: {learned.get('hold_reason', '')}")


def _held_back(seen: dict[str, Any]) -> str:
    """What held it back, in the words that its run ended with."""
    from headway.core.snapshot import LaneView
    from headway.display.account import held_back

    return held_back(msgspec.convert({**seen, "wait": None}, LaneView))


def _lane_wait(wait: Any, age_s: float) -> str:
    """What a lane waits for, as its process wrote it down so long ago: where it is stopped, or waits even now."""
    import time

    from headway.cli import session
    from headway.core.reasons import WaitCode
    from headway.display.words import short
    from headway.reason_text import wait_text

    if wait is None:
        return ""
    code, reason, until = wait.code, short(wait_text(wait)), wait.until
    if code is WaitCode.STOPPED:
        return reason
    if until is not None and until > time.time():
        return f"waits until {session.when(until)}: {reason}"
    return f"waits: {reason}" if code in (WaitCode.BREAKER, WaitCode.PROBE) and age_s < STALE_S else ""


def _meter(meter: dict[str, Any]) -> str:
    """One limit. A day's has no depth to speak of: all of it may go at once."""
    from headway.display.words import duration

    told = "reported" if meter["reported"] else "configured or found"
    left = min(meter["limit"], max(0.0, meter["level"]))
    depth = "" if meter["name"].endswith("per day") else f", {duration(meter['depth_s'])} deep"
    return f"{meter['limit']:,.0f} {meter['name']} ({told}), {left:,.0f} left{depth}"


def _input(path: str) -> str:
    return "standard input" if path == "-" else Path(path).name


def _table(names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in (names, *rows)) for column in range(len(names))]
    for row in (names, *rows):
        echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
