"""`--rpm NAME=6000` and its kin: limits by name on a command line, and how a running job is told of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.config import Config
    from headway.stores.base import Store

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
    """name → limit → value, out of NAME=VALUE; `check` is told each flag and the name in it."""
    found: dict[str, dict[str, float]] = {}
    for limit in LIMITS:
        for said in flags[limit]:
            flag = f"--{limit.replace('_', '-')} {said}"
            name, given, value = said.rpartition("=")
            if not given:
                raise UsageError(f"{flag}: NAME=N is meant", hint=f"for example alpha={said or 6000}")
            check(flag, name)
            found.setdefault(name, {})[limit] = _number(flag, value, whole=limit == "max_concurrency")
    return found


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


def ask_jobs(config: Config, limits: dict[str, dict[str, float]], reopen: Sequence[str]) -> list[Wish]:
    """Tell the jobs that run now of new limits for their lanes, and of lanes to try again; what was asked of whom."""
    from headway.cli import session
    from headway.wiring.places import store_at

    with store_at(config.db) as store:
        live = {job.name: job.id for job in store.jobs() if session.is_live(config, job)}
        if not live:
            raise UsageError(
                "no job is running", hint="limits for later runs are in headway.toml: [providers.NAME.limits]"
            )
        wishes = _wishes(_in_use(store, live), limits, reopen)
        for wish in wishes:
            for what, args in (("limits", {"limits": wish.limits}), ("reopen", {})):
                if wish.limits if what == "limits" else wish.reopen:
                    store.ask(live[wish.job], what, {"lane": wish.lane, **args}, time.time())
    return wishes


def _in_use(store: Store, live: Mapping[str, int]) -> list[tuple[str, str]]:
    """(job, lane) of what runs now, by what the jobs have claimed."""
    names = {lane.id: lane.name for lane in store.lanes()}
    claims = store.claims(0, 0.0, float("inf"))
    return sorted((claimed.name, names[claimed.lane]) for claimed in claims if claimed.name in live)


def _wishes(
    in_use: list[tuple[str, str]], limits: dict[str, dict[str, float]], reopen: Sequence[str]
) -> list[Wish]:
    """A lane is meant by its name, or by that of its provider."""
    lanes = sorted({lane for _, lane in in_use})
    for name in (*limits, *reopen):
        if not any(_means(name, lane) for lane in lanes):
            known = f"one of {', '.join(lanes)}" if lanes else "'headway lanes' shows them"
            raise UsageError(f"no job that is running uses a lane '{name}'", hint=known)
    wishes = []
    for job, lane in in_use:
        new = {limit: n for name, more in limits.items() if _means(name, lane) for limit, n in more.items()}
        again = any(_means(name, lane) for name in reopen)
        if new or again:
            wishes.append(Wish(job, lane, new, again))
    return wishes


def _means(name: str, lane: str) -> bool:
    return name in (lane, lane.partition("/")[0])
