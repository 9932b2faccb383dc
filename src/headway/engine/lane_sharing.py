"""Other jobs of the store that work on the same lanes now: what this one wants is written down, what they want is read.

Every job reckons its part by itself (`core.portion`), so nobody has to be there for the others to go on. A claim is renewed while its
lane has something to start or in flight. One that is not renewed is nobody's: who was killed leaves its part to the others
within seconds. A job that ends takes its claims back with that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from headway.core.events import Share
from headway.core.lanes.job_share import TURN_S, WHOLE, Claim, Grant, claim_of, grant_of, promised
from headway.core.scheduler import Scheduler
from headway.engine.flights import LaneHandle
from headway.stores.batch import Batch
from headway.stores.records import JobEvent, StoredClaim
from headway.stores.store import Store

#: How often a claim that has not changed is renewed, and how long it counts without that.
RENEW_S: Final = 1.0
STALE_S: Final = 4.0
#: Who uses less, and wants no more, is not worth a word.
WORTH_SAYING: Final = 0.05

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
        """What other jobs want of lanes now. May be called from another thread."""
        return store.claims(self._job, utc - STALE_S, utc + STALE_S)

    def look(
        self, claims_of_others: list[StoredClaim], batch: Batch, scheduler: Scheduler, now: float, utc: float
    ) -> tuple[list[Share], list[JobEvent]]:
        """Renew what is claimed here, and see what the others leave: what is new of that, and of who they are."""
        theirs: dict[int, list[StoredClaim]] = {}
        for claimed in claims_of_others:
            theirs.setdefault(claimed.lane, []).append(claimed)
        news: list[Share] = []
        told: list[JobEvent] = []
        for key, handle in self._handles.items():
            lane = scheduler.lanes[key]
            mine = claim_of(scheduler, lane, self._job, self._weight, now)
            others = [(claimed.name, _decode(claimed.claim)) for claimed in theirs.get(handle.id, ())]
            claims = [claim for _, claim in others]
            grant = grant_of(mine, claims, lane.limits.max_concurrency, turn=int(utc // TURN_S))
            self._claim(batch, handle, promised(mine, lane, grant), utc)
            if grant.differs(self._granted[key]):
                self._granted[key] = grant
                news.append(Share(key, grant))
            here = tuple(name for name, claim in others if claim.hungry or claim.use >= WORTH_SAYING)
            if here != self._company[key]:
                self._company[key] = here
                told.append(JobEvent(utc, handle.name, "shared", _told(here, grant)))
        return news, told

    def announce(self, batch: Batch, scheduler: Scheduler, now: float, utc: float) -> None:
        """Say what this job will take before it looks at the others: of two that begin at once, one sees the other."""
        for key, handle in self._handles.items():
            mine = claim_of(scheduler, scheduler.lanes[key], self._job, self._weight, now)
            self._claim(batch, handle, mine, utc)

    def _claim(self, batch: Batch, handle: LaneHandle, mine: Claim, utc: float) -> None:
        """Write down what is wanted: when that changes, and now and then as long as it is anything."""
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


def _told(here: tuple[str, ...], grant: Grant) -> str:
    if not here:
        return "no other job works here any more: all of its limits are this job's again"
    others = f"job {here[0]} works" if len(here) == 1 else f"{len(here)} other jobs work"
    part = "all" if grant.part == WHOLE else f"{grant.part:.0%}"
    return f"{others} here, too: {part} of its limits is this job's"
