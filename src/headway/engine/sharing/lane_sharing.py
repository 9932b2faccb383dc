"""Other jobs of the same store that use the same lanes now: each job records its claims and reads those of the others.

Every job computes its own share (`core.lanes.job_share`), so no job depends on another one to go on. A claim is renewed while
its lane has something to start or in flight. A claim that is not renewed no longer counts: the share of a killed job goes to
the others within seconds. A job that ends removes its claims.

A lane is the same for two jobs if it has the same key. A lane that a Python program has named (`headway.map(lane="alpha/gpt-x")`) has
no key in common with others: it is the same as every lane of that name in the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from headway.core.events import HoldAccount, Share
from headway.core.lanes.job_share import (
    TURN_S,
    WHOLE,
    AccountHold,
    Claim,
    Grant,
    claim_of,
    grant_of,
    opening_claim,
    owed_to,
    promised,
)
from headway.core.lanes.lane import LaneState
from headway.core.scheduler import Scheduler
from headway.engine.flights import LaneHandle
from headway.stores.records import JobEvent, StoredClaim
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

#: How often a job reads what others want, and commands from other terminals (DESIGN promises 250 ms).
LISTEN_S: Final = 0.2
#: How often a claim that has not changed is renewed, and how long it counts without that.
RENEW_S: Final = 1.0
STALE_S: Final = 4.0
#: A job that uses less of a lane, and wants no more, is not reported.
REPORTED_USE: Final = 0.05

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Claim).decode


class LaneSharing:
    """One job among others on its lanes; or a client, whose work comes one by one (`comes_later`)."""

    def __init__(
        self,
        job: int,
        weight: float,
        lanes: Mapping[str, LaneHandle],
        *,
        of_program: bool = False,
        comes_later: bool = False,
    ) -> None:
        self._job = job
        self._weight = weight
        self._handles = lanes
        self._of_program, self._comes_later = of_program, comes_later
        #: Whether work that no lane knows of yet waits for our share.
        self.expects_work = False
        self._granted: dict[str, Grant] = {}
        self._claimed: dict[str, tuple[Claim, float]] = {}
        self._company: dict[str, tuple[str, ...]] = {}

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
        shares: list[Share] = []
        notes: list[JobEvent] = []
        for key, handle in self._handles.items():
            lane = scheduler.lanes[key]
            mine = claim_of(scheduler, lane, self._job, self._weight, now, comes_later=self._comes_later)
            if self.expects_work:
                mine = msgspec.structs.replace(mine, hungry=True)
            elif self._of_program:
                mine = opening_claim(mine, lane)
            if lane.hold.scope and lane.account.name and lane.hold.until > now:
                mine = msgspec.structs.replace(mine, hold=_hold_of(lane, utc - now))
            others = [
                (claimed.name, _decode(claimed.claim))
                for claimed in claims_of_others
                if self._is_same(handle, claimed)
            ]
            claims = [claim for _, claim in others]
            grant = grant_of(mine, claims, lane.limits.settings.max_concurrency, turn=int(utc // TURN_S))
            self._claim(batch, handle, promised(mine, lane, grant), utc, beside_others=bool(claims))
            owed = {} if lane.traffic.started else owed_to(claims)
            if owed or grant.differs(self._granted.get(key, Grant())):
                self._granted[key] = grant
                shares.append(Share(key, grant, owed))
            here = tuple(name for name, claim in others if claim.hungry or claim.use >= REPORTED_USE)
            if here != self._company.get(key, ()):
                self._company[key] = here
                notes.append(JobEvent(utc, handle.name, "shared", _company_text(here, grant)))
        return shares, notes

    def held_elsewhere(
        self, claims_of_others: list[StoredClaim], scheduler: Scheduler, now: float, utc: float
    ) -> list[HoldAccount]:
        """Holds of our accounts that other jobs were told of, and that are news to us."""
        ours = {lane.account.name for lane in scheduler.lanes.values()} - {""}
        if not ours:
            return []
        holds = (_decode(claimed.claim).hold for claimed in claims_of_others)
        return [
            HoldAccount(hold.account, hold.model, hold.scope, now + hold.until_utc - utc, hold.reason)
            for hold in holds
            if hold is not None and hold.account in ours and hold.until_utc > utc
        ]

    def _is_same(self, handle: LaneHandle, claimed: StoredClaim) -> bool:
        """Whether a claim is on this lane."""
        if claimed.lane == handle.id:
            return True
        return (self._of_program or claimed.of_program) and claimed.lane_name == handle.name

    def announce(self, batch: WriteBatch, scheduler: Scheduler, now: float, utc: float) -> None:
        """Record our claims before the first look at others: of two jobs that begin at once, at least one sees the other."""
        for key, handle in self._handles.items():
            mine = claim_of(scheduler, scheduler.lanes[key], self._job, self._weight, now)
            self._claim(batch, handle, mine, utc)

    def _claim(
        self, batch: WriteBatch, handle: LaneHandle, mine: Claim, utc: float, *, beside_others: bool = False
    ) -> None:
        """Record a claim when it changes, and renew it while the lane is used. Others want to know more of it."""
        before, at_utc = self._claimed.get(handle.key, (None, 0.0))
        changed = before is None or mine.differs(before, beside_others=beside_others)
        wants = mine.hungry or mine.use > 0.0 or mine.taken or (before is not None and before.use > 0.0)
        if changed or (wants and abs(utc - at_utc) >= RENEW_S):
            self._claimed[handle.key] = (mine, utc)
            batch.claims[handle.id] = (_encode(mine), utc)


def _hold_of(lane: LaneState, offset_s: float) -> AccountHold:
    hold, account = lane.hold, lane.account
    return AccountHold(account.name, account.model, hold.scope, hold.until + offset_s, hold.reason)


def _company_text(here: tuple[str, ...], grant: Grant) -> str:
    if not here:
        return "no other job uses this lane any more: this job has all of its limits again"
    others = f"{len(here)} other jobs use"
    if len(here) == 1:
        others = f"job {here[0]} uses" if here[0] else "a Python client uses"
    part = "all" if grant.part == WHOLE else f"{grant.part:.0%}"
    return f"{others} this lane, too: this job has {part} of its limits"
