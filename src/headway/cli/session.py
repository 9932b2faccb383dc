"""What the commands around jobs have in common: settings, the store, which job is meant, how it stands."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.config import (
    Config,
    dotenv_of,
    load,
    variables_of,
    with_insecure_http,
    with_overrides,
)
from headway.config.env_file import exposed
from headway.core.reasons import EndReason, RunBudgetSpent, Wait
from headway.display.account import hold_facts, use_facts
from headway.display.terminal import echo, echo_json
from headway.display.words import clock, count, duration, money, short
from headway.errors import UsageError
from headway.reason_text import stop_text, unit_error
from headway.reports.holds import holds_of
from headway.stores.cache import Saved
from headway.stores.lock import held
from headway.stores.older_reasons import lane_wait
from headway.stores.records import LIVE, Job, Use
from headway.stores.sqlite.mounts import network_warning
from headway.stores.store import Store
from headway.wiring.places import folder_of, look_at
from headway.wiring.predictions import comparison

_RUN_KEYS: Final = (
    "concurrency",
    "max_attempts",
    "timeout",
    "max_duration",
    "max_cost",
    "max_hold",
    "weight",
    "cache",
)


def settings(config: Path | None, db: str | None, **flags: Any) -> Config:
    """The configuration under the flags of a command."""
    loaded = load(config, Path.cwd(), os.environ)
    if flags.get("insecure_http"):
        loaded = with_insecure_http(loaded)
    return with_overrides(loaded, db=db, **{name: flags.get(name) for name in _RUN_KEYS})


def tell_config(config: Config) -> None:
    """Say where settings and keys come from, in at most two lines."""
    _tell_place(config)
    if dotenv_of(config) and (warning := exposed(config.root / ".env")):
        say(f"warning: {' — '.join(warning)}")


def _tell_place(config: Config) -> None:
    """Name a config from outside the working directory, and the hosts that get a key because of it."""
    if config.path is None or config.path.absolute().parent == Path.cwd():
        return
    dotenv = dotenv_of(config)
    providers = config.providers.values()
    hosts = dict.fromkeys(one.host for one in providers if variables_of(one, os.environ, dotenv))
    say(f"settings: {config.path}; " + (f"keys go to {', '.join(hosts)}" if hosts else "no key is sent"))


def tell_place(config: Config) -> None:
    """Warn of a database on a network file system."""
    if "://" not in config.db and (found := network_warning(Path(config.db))) is not None:
        say(f"warning: {'; '.join(found)}")


def with_cap_of(config: Config, job: Job, said: float | None, *, quiet: bool) -> Config:
    """A cap is the job's: what its last run was told holds until somebody says another, or 0."""
    cap = job.settings.get("run", {}).get("max_cost_usd", 0.0)
    if not cap or said is not None or config.run.max_cost_usd:
        return config
    if not quiet:
        say(f"the job's cap of ${cap:,.10g} still holds (--max-cost sets another, --max-cost 0 none)")
    return with_overrides(config, max_cost=cap)


def must_have_provider(config: Config) -> None:
    """Said once, and not of every row."""
    if not config.providers:
        raise UsageError(
            "there is no provider",
            hint="'headway init' writes a headway.toml; or set OPENAI_API_KEY or ANTHROPIC_API_KEY",
        )


def existing_store(config: Config) -> Store:
    """The records, for a command that only looks."""
    return look_at(config)


def chosen(store: Store, name: str | None) -> Job:
    """The job that is meant: by its name or the beginning of it; a file's name is the latest job of that file, and no
    name at all the latest of all.
    """
    jobs = [job for job in store.jobs() if job.state != "ingesting"]
    if not jobs:
        raise UsageError("there are no jobs yet", hint="'headway run FILE' starts one")
    if name is None:
        return _latest(jobs)
    exact = [job for job in jobs if job.name == name]
    versions = [job for job in jobs if re.fullmatch(re.escape(name) + r"-[0-9a-f]{6}(-\d+)?", job.name)]
    close = exact or versions or [job for job in jobs if job.name.startswith(name)]
    if len(close) == 1 or (close and not exact and close == versions):
        return _latest(close)
    if close:
        raise UsageError(
            f"'{name}' may be {', '.join(job.name for job in close[:5])}", hint="write more of it"
        )
    raise UsageError(f"there is no job '{name}'", hint="'headway jobs' lists them")


def _latest(jobs: list[Job]) -> Job:
    """The one that somebody worked on last."""
    return max(jobs, key=lambda job: (job.state in LIVE, job.finished_utc or job.created_utc, job.id))


def is_live(config: Config, job: Job) -> bool:
    """Whether some process is running the job right now."""
    return held(folder_of(config, job.name) / "lock")


def must_hear(job: Job) -> None:
    """A Python program that runs a job of its own hears no commands."""
    if job.kind != "batch":
        raise UsageError(
            f"job {job.name} is a Python program's ({job.kind} of {job.input}), which hears no commands",
            hint="stop that program with Ctrl-C or SIGTERM: what is finished stays finished",
        )


def state_of(config: Config, job: Job) -> str:
    """The job's state; one that says running while nobody runs it was left by a process that died."""
    if job.state in ("running", "paused") and not is_live(config, job):
        return "interrupted"
    return job.state


def unit_of(store: Store, job: Job, name: str) -> int:
    """Which unit is meant: by its id, or by its index."""
    index = store.index_of(job.id, name)
    if index is not None:
        return index
    if name.isdecimal() and int(name) < job.total:
        return int(name)
    raise UsageError(
        f"job '{job.name}' has no unit '{name}'", hint=f"an id of the input, or an index below {job.total}"
    )


def say(text: str) -> None:
    """One line on stderr."""
    echo(text, err=True)


def tell(text: str, told: dict[str, Any], as_json: bool) -> int:
    """The whole result of a command that had nothing to run, for people or for programs; its exit code."""
    if as_json:
        echo_json(told)
    else:
        say(text)
    return 0


def print_json(value: Any) -> None:
    """For programs, and still readable."""
    echo_json(value, indent=True)


def facts(store: Store, job: Job, state: str) -> dict[str, Any]:
    """A job as plain data."""
    return {
        "job": job.name,
        "state": state,
        "input": job.input,
        "out": job.out,
        "total": job.total,
        **job.counts,
        "pending": job.total - job.ended,
        **use_facts(job),
        "saved_by_cache": _saved(store, job),
        "lanes": {name: use_facts(use) for name, use in uses_of(store, job).items()},
        "created_utc": job.created_utc,
        "started_utc": job.started_utc,
        "finished_utc": job.finished_utc,
        "holds": {
            lane: hold_facts(held.held_s, held.holds, held.reason)
            for lane, held in holds_of(store, job).items()
        },
        "prediction": comparison(store, job),
        "failures": [
            {"code": code, "units": n, "first": first, "message": message}
            for code, n, first, message in (store.failures(job.id) if job.ended > job.good else [])
        ],
    }


def compared(store: Store, job: Job) -> list[str]:
    """What was predicted for the job and what it came to, where anything was."""
    told = comparison(store, job)
    if told is None:
        return []
    predicted = told.predicted
    expected, came_to = duration(predicted.time_s[0]), duration(told.took_s)
    if predicted.cost_usd is not None:
        expected += f" and {money(predicted.cost_usd[0])}"
        came_to += f" and {money(told.cost_usd)}"
    return [f"  predicted {expected}; {'took' if told.over else 'so far'} {came_to}"]


def _saved(store: Store, job: Job) -> dict[str, Any]:
    saved = store.cache.saved(job.id) if job.counts["cached"] else Saved()
    told: dict[str, Any] = msgspec.structs.asdict(saved)
    return {name: told[name] for name in ("input_tokens", "output_tokens", "cost_usd")}


def cached_lines(store: Store, job: Job) -> list[str]:
    """What was answered from the cache, and what that saved."""
    if not job.counts["cached"]:
        return []
    saved = store.cache.saved(job.id)
    return [f"  {saved.units:,} answered without a call: {saved_words(saved)} not spent"]


def saved_words(saved: Saved) -> str:
    """Tokens, and money as far as prices are known."""
    cost = f", {money(saved.cost_usd)}" if saved.cost_usd else ""
    return f"{count(saved.input_tokens, 'token')} in, {saved.output_tokens:,} out{cost}"


def uses_of(store: Store, job: Job) -> dict[str, Use]:
    """What each of the job's lanes came to, by provider/model."""
    uses = store.use_by_route(job.id)
    return {route.name: uses[route.id] for route in store.routes(job.id) if route.id in uses}


def failure_lines(store: Store, job: Job) -> list[str]:
    """Failures by kind, with one example each."""
    if job.ended == job.good:
        return []
    lines = []
    for code, n, first, message in store.failures(job.id):
        example = store.results(job.id, first - 1, 1)[0].custom_id
        lines.append(f"  {n:,} × {code or 'failed'}, for example {example}: {short(message)}")
    return lines


def when(utc: float | None) -> str:
    """A stored instant for people."""
    return "–" if utc is None else clock(utc)


def stopped(store: Store, job: Job, progress: Any) -> dict[str, str]:
    """Why lanes cannot go on, as a running process says or the latest run left it."""
    if progress is not None:
        waits = {name: wait_of(lane) for name, lane in progress["lanes"].items()}
        return {name: stop_text(wait.stop) for name, wait in waits.items() if wait and wait.stop}
    return {name: _left_text(reason) for name, reason in stop_reasons(store, job).items()}


def stop_reasons(store: Store, job: Job) -> dict[str, EndReason]:
    """The lanes that the latest run could not go on with, and why."""
    if job.ended >= job.total:
        return {}
    names = {str(route.id): route.name for route in store.routes(job.id)}
    return {
        names[route]: reason
        for route, reason in job.unfinished.items()
        if not isinstance(reason, RunBudgetSpent) and unit_error(reason)[0] not in ("interrupted", "deadline")
    }


def _left_text(reason: EndReason) -> str:
    code, message = unit_error(reason)
    return f"{code}: {short(message)}"


def wait_of(lane: dict[str, Any]) -> Wait | None:
    """What a lane of the progress file waits for."""
    if lane["wait"] is None:
        return None
    if "wait_reason" in lane:
        return msgspec.convert({**lane["wait_reason"], "until": lane["wait_until_utc"]}, Wait)
    return lane_wait(lane["wait"], lane["wait_until_utc"])


#: What units are whose process died with them, until somebody goes on with the job.
UNKNOWN: Final = "unknown"


def without_process(counts: dict[str, int]) -> dict[str, int]:
    """Counts of a job that nobody runs: what was under way is so no more, and nobody knows how it went."""
    left = sum(counts.get(status, 0) for status in ("assigned", "running"))
    rest = {what: n for what, n in counts.items() if what not in ("assigned", "running")}
    return {**rest, UNKNOWN: left} if left else rest


def lanes_of(store: Store, job: Job) -> dict[str, dict[str, int]]:
    """Counts by status, for each lane. Where there is only one, and nobody left it in the middle, the job has them."""
    routes = store.routes(job.id)
    if len(routes) > 1 or job.state in LIVE:
        return store.per_lane(job.id)
    counts = {"pending": job.total - job.ended, **job.counts}
    return {route.name: {what: n for what, n in counts.items() if n} for route in routes}
