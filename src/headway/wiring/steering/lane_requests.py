"""Requests to running jobs about their lanes: other limits, or to try a lane again; and lanes that no running job uses."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from headway.config import Config
from headway.core.lanes.account import AccountKey
from headway.core.lanes.lane_memory import LaneRecord, reopened
from headway.display.formatting import clock, short
from headway.errors import UsageError
from headway.jobs.kinds import kind_of, must_take_commands
from headway.stores.records import StoredLane
from headway.stores.store import Store
from headway.wiring.steering.control_requests import is_live
from headway.wiring.steering.limit_names import LIMITS
from headway.wiring.store_access import open_store


class LaneRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request to a running job about one of its lanes."""

    job: str
    lane: str
    limits: dict[str, float] = {}
    reopen: bool = False

    def __str__(self) -> str:
        new = ", ".join(
            f"{value:,.10g} {LIMITS[limit]}" if value else f"unlimited {LIMITS[limit]}"
            for limit, value in self.limits.items()
        )
        keep = f"keep {self.lane} to {new}" if new else ""
        again = f"try {self.lane} again" if self.reopen else ""
        return f"asked job {self.job} to {' and to '.join(filter(None, (keep, again)))}"


class ReopenedLane(msgspec.Struct, frozen=True):
    """A lane that no running job uses, and its recorded hold, which was cleared."""

    lane: str
    held_until_utc: float | None
    reason: str

    def __str__(self) -> str:
        if self.held_until_utc is None:
            return f"{self.lane}: it has no recorded hold, and no running job uses it"
        return f"{self.lane}: cleared the hold until {clock(self.held_until_utc)} ({short(self.reason)})"


def send_requests(
    config: Config, limits: dict[str, dict[str, float]], reopen: Sequence[str]
) -> list[LaneRequest | ReopenedLane]:
    """Send new limits and lanes to reopen to the running jobs; clear the recorded holds of lanes that none of them uses."""
    with open_store(config) as store:
        live = {job.name: job.id for job in store.jobs() if is_live(config, job)}
        if limits and not live:
            raise UsageError(
                "no job is running", hint="set limits for later runs in headway.toml: [providers.NAME.limits]"
            )
        in_use = _in_use(store, live)
        python_jobs = [job for job in store.jobs() if job.name in live and kind_of(job).command_refusal(job)]
        unused = [lane for lane in store.lanes() if lane.name not in {name for _, name in in_use}]
        _check_names(in_use, unused, limits, reopen)
        requests = _requests(in_use, limits, reopen)
        for request in requests:
            for what, args in (("limits", {"limits": request.limits}), ("reopen", {})):
                if request.limits if what == "limits" else request.reopen:
                    store.add_command(live[request.job], what, {"lane": request.lane, **args}, time.time())
        chosen = [lane for lane in unused if any(_matches(name, lane.name) for name in reopen)]
        for job in python_jobs:
            if any(lane.key.startswith(f"{job.kind}:{job.name}:") for lane in chosen):
                must_take_commands(job)
        return [*requests, *(_reopen(store, lane) for lane in _with_accounts(chosen, unused))]


def _with_accounts(chosen: list[StoredLane], unused: list[StoredLane]) -> list[StoredLane]:
    """These lanes, and those that are held with them because they belong to the same account."""

    def account(lane: StoredLane) -> tuple[AccountKey, str]:
        record = (
            LaneRecord("", 0.0) if lane.record is None else msgspec.json.decode(lane.record, type=LaneRecord)
        )
        return AccountKey(record.account, record.account_model), record.hold_scope

    held = [account(lane) for lane in chosen]
    return [
        lane
        for lane in unused
        if lane in chosen or any(key.shares_hold(account(lane)[0], scope) for key, scope in held)
    ]


def _reopen(store: Store, lane: StoredLane) -> ReopenedLane:
    """Clear the recorded hold of a lane, and what it last waited for."""
    if lane.record is None or lane.view is None:
        return ReopenedLane(lane.name, None, "")
    record = msgspec.json.decode(lane.record, type=LaneRecord)
    view = {**msgspec.json.decode(lane.view), "wait": None}
    store.keep_lane(lane.id, msgspec.json.encode(reopened(record)), msgspec.json.encode(view), time.time())
    return ReopenedLane(lane.name, record.held_until_utc, record.hold_reason)


def _check_names(
    in_use: list[tuple[str, str]], unused: list[StoredLane], limits: Iterable[str], reopen: Sequence[str]
) -> None:
    """Raise for unknown names. Limits need a lane that a running job uses; any lane can be reopened."""
    running = sorted({lane for _, lane in in_use})
    recorded = sorted({*running, *(lane.name for lane in unused)})
    for names, lanes, what in (
        (limits, running, "running job uses"),
        (reopen, recorded, "job has used"),
    ):
        for name in names:
            if not any(_matches(name, lane) for lane in lanes):
                known = f"lanes: {', '.join(lanes)}" if lanes else "'headway lanes' lists the lanes"
                raise UsageError(f"no {what} lane '{name}'", hint=known)


def _in_use(store: Store, live: Mapping[str, int]) -> list[tuple[str, str]]:
    """(job, lane) of running jobs, from the claims that they have recorded. Python programs read no commands."""
    names = {lane.id: lane.name for lane in store.lanes()}
    claims = store.claims.news(0, 0, 0.0).changed
    return sorted(
        (claimed.name, names[claimed.lane])
        for claimed in claims
        if claimed.name in live and not claimed.of_program
    )


def _requests(
    in_use: list[tuple[str, str]], limits: dict[str, dict[str, float]], reopen: Sequence[str]
) -> list[LaneRequest]:
    """One request for each (job, lane) that the flags name, by the lane or by its provider."""
    requests = []
    for job, lane in in_use:
        new = {limit: n for name, more in limits.items() if _matches(name, lane) for limit, n in more.items()}
        again = any(_matches(name, lane) for name in reopen)
        if new or again:
            requests.append(LaneRequest(job, lane, new, again))
    return requests


def _matches(name: str, lane: str) -> bool:
    return name in (lane, lane.partition("/")[0])
