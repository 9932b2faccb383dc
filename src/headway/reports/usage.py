"""Usage, cost and savings of jobs, lanes and runs."""

from __future__ import annotations

import msgspec

from headway.stores.answer_cache import CallsSaved
from headway.stores.records import Job, UsageTotals
from headway.stores.store import Store


class RepeatedUse(msgspec.Struct, frozen=True):
    """Attempts that were paid for and gave no answer."""

    attempts: int
    tokens: int
    cost_usd: float | None


class UnsureUse(msgspec.Struct, frozen=True):
    """Attempts whose usage is unknown, and the most that they may have cost."""

    attempts: int
    most_usd: float


class UseReport(msgspec.Struct, frozen=True):
    """The usage of attempts. A cost of None is unknown."""

    attempts: int
    refused: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    unpriced_attempts: int
    repeated: RepeatedUse
    unsure: UnsureUse

    @property
    def costs(self) -> bool:
        """Whether anything was or may have been spent."""
        return bool(self.cost_usd or self.unsure.most_usd)


class SavedReport(msgspec.Struct, frozen=True):
    """What a run need not send again: finished units, their cost and tokens."""

    units: int
    cost_usd: float | None
    tokens: int


class CacheSavings(msgspec.Struct, frozen=True):
    """What the cache saved."""

    input_tokens: int
    output_tokens: int
    cost_usd: float


def use_report(use: Job | UsageTotals) -> UseReport:
    """The usage of a job, or of some of its attempts."""
    known_usd = use.known_usd
    return UseReport(
        attempts=use.attempts,
        refused=use.refused,
        input_tokens=use.input_tokens,
        output_tokens=use.output_tokens,
        cost_usd=known_usd,
        unpriced_attempts=use.unpriced,
        repeated=RepeatedUse(
            use.repeated, use.repeated_tokens, None if known_usd is None else use.repeated_usd
        ),
        unsure=UnsureUse(use.unsure, use.unsure_usd),
    )


def saved_report(job: Job) -> SavedReport:
    """What earlier runs of a job have done."""
    return SavedReport(job.good, None if job.known_usd is None else job.saved_usd, job.saved_tokens)


def cached_units(store: Store, job: Job) -> CallsSaved:
    """The units of a job that were answered from the cache, and what that saved."""
    return store.cache.saved(job.id) if job.counts["cached"] else CallsSaved()


def uses_by_name(store: Store, job: Job) -> dict[str, UseReport]:
    """The usage of each of a job's lanes, by provider/model."""
    uses = store.use_by_route(job.id)
    totals: dict[str, UsageTotals] = {}
    for route in store.routes(job.id):
        if route.id in uses:
            totals.setdefault(route.name, UsageTotals()).add(uses[route.id])
    return {name: use_report(use) for name, use in totals.items()}


def uses_by_key(store: Store, job: Job) -> dict[str, UseReport]:
    """The same by the lane's key: several models may share one."""
    keys = {lane.id: lane.key for lane in store.lanes()}
    totals: dict[str, UsageTotals] = {}
    for use in store.use_by_route(job.id).values():
        if use.lane in keys:
            totals.setdefault(keys[use.lane], UsageTotals()).add(use)
    return {key: use_report(use) for key, use in totals.items()}
