"""Limits by name on a command line (`--rpm NAME=6000`), and requests to running jobs to change theirs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from headway.display.words import clock, short
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.config import Config
    from headway.stores.records import StoredLane
    from headway.stores.store import Store

#: flag → what it limits, as help calls it.
LIMITS: Final = {
    "rpm": "requests a minute",
    "tpm": "tokens a minute",
    "input_tpm": "input tokens a minute",
    "output_tpm": "output tokens a minute",
    "max_concurrency": "requests at once",
}
MOST: Final = 1e12


def limit_options(help_of: Callable[[str], str], metavar: str) -> Callable[[Any], Any]:
    """A flag for each limit, as often as there are names; `help_of` makes a sentence of what it limits."""

    def decorate(command: Any) -> Any:
        for name, words in reversed(LIMITS.items()):
            flag = f"--{name.replace('_', '-')}"
            command = click.option(flag, multiple=True, metavar=metavar, help=help_of(words))(command)
        return command

    return decorate


def limits_by_name(
    flags: dict[str, Any], check: Callable[[str, str], None] = lambda flag, name: None
) -> dict[str, dict[str, float]]:
    """name → limit → value, out of NAME=VALUE; `check` gets each flag and the name in it."""
    limits: dict[str, dict[str, float]] = {}
    for limit in LIMITS:
        for text in flags[limit]:
            flag = f"--{limit.replace('_', '-')} {text}"
            name, given, value = text.rpartition("=")
            if not given:
                raise UsageError(f"{flag}: NAME=N is meant", hint=f"for example alpha={text or 6000}")
            check(flag, name)
            limits.setdefault(name, {})[limit] = _number(flag, value, whole=limit == "max_concurrency")
    return limits


def _number(flag: str, text: str, *, whole: bool) -> float:
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= MOST:
        kind = "a whole number, for example 8" if whole else "a number, for example 6000"
        raise UsageError(f"{flag}: '{text}' is no limit", hint=f"{kind}; 0: any number")
    return value


class Wish(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a job that runs now is asked about one of its lanes."""

    job: str
    lane: str
    limits: dict[str, float] = {}
    reopen: bool = False

    def __str__(self) -> str:
        new = ", ".join(
            f"{value:,.10g} {LIMITS[limit]}" if value else f"any number of {LIMITS[limit]}"
            for limit, value in self.limits.items()
        )
        keep = f"keep {self.lane} to {new}" if new else ""
        again = f"try {self.lane} again" if self.reopen else ""
        return f"job {self.job} was asked to {' and to '.join(filter(None, (keep, again)))}"


class ReopenedLane(msgspec.Struct, frozen=True):
    """A lane that no job uses now, and the hold that was on record for it."""

    lane: str
    held_until_utc: float | None
    reason: str

    def __str__(self) -> str:
        if self.held_until_utc is None:
            return f"{self.lane}: no hold is on record, and no job that runs now uses it"
        return f"{self.lane}: the hold until {clock(self.held_until_utc)} is cleared ({short(self.reason)})"


def ask_jobs(
    config: Config, limits: dict[str, dict[str, float]], reopen: Sequence[str]
) -> list[Wish | ReopenedLane]:
    """Tell the jobs that run now of new limits and of lanes to try again, and clear recorded holds of other lanes."""
    from headway.cli import session
    from headway.jobs.kinds import kind_of, must_take_commands
    from headway.wiring.places import store_of

    with store_of(config) as store:
        live = {job.name: job.id for job in store.jobs() if session.is_live(config, job)}
        if limits and not live:
            raise UsageError(
                "no job is running", hint="limits for later runs are in headway.toml: [providers.NAME.limits]"
            )
        in_use = _in_use(store, live)
        programs = [job for job in store.jobs() if job.name in live and kind_of(job).command_refusal(job)]
        unused = [lane for lane in store.lanes() if lane.name not in {name for _, name in in_use}]
        _must_be_known(in_use, unused, limits, reopen)
        wishes = _wishes(in_use, limits, reopen)
        for wish in wishes:
            for what, args in (("limits", {"limits": wish.limits}), ("reopen", {})):
                if wish.limits if what == "limits" else wish.reopen:
                    store.ask(live[wish.job], what, {"lane": wish.lane, **args}, time.time())
        meant = [lane for lane in unused if any(_means(name, lane.name) for name in reopen)]
        for job in programs:
            if any(lane.key.startswith(f"{job.kind}:{job.name}:") for lane in meant):
                must_take_commands(job)
        return [*wishes, *(_reopen(store, lane) for lane in meant)]


def _reopen(store: Store, lane: StoredLane) -> ReopenedLane:
    """Clear the hold that is on record for a lane, and what it was seen to wait for."""
    from headway.core.lanes.lane_memory import LaneRecord, reopened

    if lane.record is None or lane.view is None:
        return ReopenedLane(lane.name, None, "")
    record = msgspec.json.decode(lane.record, type=LaneRecord)
    view = {**msgspec.json.decode(lane.view), "wait": None}
    store.keep_lane(lane.id, msgspec.json.encode(reopened(record)), msgspec.json.encode(view), time.time())
    return ReopenedLane(lane.name, record.held_until_utc, record.hold_reason)


def _must_be_known(
    in_use: list[tuple[str, str]], unused: list[StoredLane], limits: Iterable[str], reopen: Sequence[str]
) -> None:
    """A limit is for a lane that a running job uses; any lane can be reopened."""
    running = sorted({lane for _, lane in in_use})
    recorded = sorted({*running, *(lane.name for lane in unused)})
    for names, lanes, what in (
        (limits, running, "job that is running uses a"),
        (reopen, recorded, "job used a"),
    ):
        for name in names:
            if not any(_means(name, lane) for lane in lanes):
                known = f"one of {', '.join(lanes)}" if lanes else "'headway lanes' shows them"
                raise UsageError(f"no {what} lane '{name}'", hint=known)


def _in_use(store: Store, live: Mapping[str, int]) -> list[tuple[str, str]]:
    """(job, lane) of what runs now, by what the jobs have claimed."""
    names = {lane.id: lane.name for lane in store.lanes()}
    claims = store.claims(0, 0.0, float("inf"))
    return sorted((claimed.name, names[claimed.lane]) for claimed in claims if claimed.name in live)


def _wishes(
    in_use: list[tuple[str, str]], limits: dict[str, dict[str, float]], reopen: Sequence[str]
) -> list[Wish]:
    """A lane is meant by its name, or by that of its provider."""
    wishes = []
    for job, lane in in_use:
        new = {limit: n for name, more in limits.items() if _means(name, lane) for limit, n in more.items()}
        again = any(_means(name, lane) for name in reopen)
        if new or again:
            wishes.append(Wish(job, lane, new, again))
    return wishes


def _means(name: str, lane: str) -> bool:
    return name in (lane, lane.partition("/")[0])
