"""Other jobs of the same store that use the same lanes now: each job records its claims and reads those of the others.

Every job computes its own share (`core.lanes.job_share`), so no job depends on another one to go on. A claim is renewed while
its lane has something to start or in flight. A claim that is not renewed no longer counts: the share of a killed job goes to
the others within seconds. A job that ends removes its claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from headway.core.events import Share
from headway.core.lanes.job_share import TURN_S, WHOLE, Claim, Grant, claim_of, grant_of, promised
from headway.core.scheduler import Scheduler
from headway.engine.flights import LaneHandle
from headway.stores.records import JobEvent, StoredClaim
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

#: How often a claim that has not changed is renewed, and how long it counts without that.
RENEW_S: Final = 1.0
STALE_S: Final = 4.0
#: A job that uses less of a lane, and wants no more, is not reported.
REPORTED_USE: Final = 0.05

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Claim).decode


class LaneSharing:
    """One job among others on its lanes."""

    def __init__(self, job: int, weight: float, lanes: Mapping[str, LaneHandle]) -> None:
        self._job = job
        self._weight = weight
        self._handles = lanes
        self._granted = dict.fromkeys(lanes, Grant())
        self._claimed: dict[str, tuple[Claim, float]] = {}
        self._company: dict[str, tuple[str, ...]] = dict.fromkeys(lanes, ())

    def claims(self, store: Store, utc: float) -> list[StoredClaim]:
        """The claims of other jobs. May be called from another thread."""
        return store.claims(self._job, utc - STALE_S, utc + STALE_S)

    def look(
        self,
        claims_of_others: list[StoredClaim],
        batch: WriteBatch,
        scheduler: Scheduler,
        now: float,
        utc: float,
    ) -> tuple[list[Share], list[JobEvent]]:
        """Renew our claims and compute our shares; returns the shares that changed, and events for changed company."""
        theirs: dict[int, list[StoredClaim]] = {}
        for claimed in claims_of_others:
            theirs.setdefault(claimed.lane, []).append(claimed)
        shares: list[Share] = []
        notes: list[JobEvent] = []
        for key, handle in self._handles.items():
            lane = scheduler.lanes[key]
            mine = claim_of(scheduler, lane, self._job, self._weight, now)
            others = [(claimed.name, _decode(claimed.claim)) for claimed in theirs.get(handle.id, ())]
            claims = [claim for _, claim in others]
            grant = grant_of(mine, claims, lane.limits.max_concurrency, turn=int(utc // TURN_S))
            self._claim(batch, handle, promised(mine, lane, grant), utc)
            if grant.differs(self._granted[key]):
                self._granted[key] = grant
                shares.append(Share(key, grant))
            here = tuple(name for name, claim in others if claim.hungry or claim.use >= REPORTED_USE)
            if here != self._company[key]:
                self._company[key] = here
                notes.append(JobEvent(utc, handle.name, "shared", _company_text(here, grant)))
        return shares, notes

    def announce(self, batch: WriteBatch, scheduler: Scheduler, now: float, utc: float) -> None:
        """Record our claims before the first look at others: of two jobs that begin at once, at least one sees the other."""
        for key, handle in self._handles.items():
            mine = claim_of(scheduler, scheduler.lanes[key], self._job, self._weight, now)
            self._claim(batch, handle, mine, utc)

    def _claim(self, batch: WriteBatch, handle: LaneHandle, mine: Claim, utc: float) -> None:
        """Record a claim when it changes, and renew it while the lane is used."""
        before, at_utc = self._claimed.get(handle.key, (None, 0.0))
        if before is None:
            changed = True
        else:
            changed = (mine.hungry, mine.taken) != (before.hungry, before.taken)
            changed = changed or Grant(pace=mine.pace).differs(Grant(pace=before.pace))
        wants = mine.hungry or mine.use > 0.0 or mine.taken or (before is not None and before.use > 0.0)
        if changed or (wants and abs(utc - at_utc) >= RENEW_S):
            self._claimed[handle.key] = (mine, utc)
            batch.claims[handle.id] = (_encode(mine), utc)


def _company_text(here: tuple[str, ...], grant: Grant) -> str:
    if not here:
        return "no other job works here any more: this job has all of its limits again"
    others = f"job {here[0]} works" if len(here) == 1 else f"{len(here)} other jobs work"
    part = "all" if grant.part == WHOLE else f"{grant.part:.0%}"
    return f"{others} here, too: this job has {part} of its limits"
