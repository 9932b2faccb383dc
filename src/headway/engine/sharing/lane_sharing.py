"""Other jobs of the same store that use the same lanes now: each job records its claims and reads those of the others.

Every job computes its own share (`core.lanes.job_share`), so no job depends on another one to go on. A claim is renewed while
its lane has something to start or in flight. A claim that is not renewed no longer counts: the share of a killed job goes to
the others within seconds. A job that ends removes its claims.

A lane is the same for two jobs if it has the same key. A lane that a Python program has named (`headway.map(lane="alpha/gpt-x")`) has
no key in common with others: it is the same as every lane of that name in the store.
"""

from __future__ import annotations

from collections import Counter
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
    read_every_s,
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
#: Of more jobs than these only the number is reported, when it has doubled or halved.
REPORTED_NAMES: Final = 3

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
        #: The claims of the latest read, when that was, and how long they are used.
        self._latest: list[StoredClaim] = []
        self._read_utc, self._read_every_s = float("-inf"), LISTEN_S
        #: The claims of the latest look, decoded.
        self._seen: list[StoredClaim] | None = None
        self._by_lane: dict[int, list[tuple[str, Claim]]] = {}

    def is_due(self, utc: float) -> bool:
        """Whether the claims of others are to be read again."""
        return abs(utc - self._read_utc) > self._read_every_s - LISTEN_S / 2.0

    def claims(self, store: Store, utc: float) -> list[StoredClaim]:
        """The claims of other jobs; if they are many, perhaps those of the latest read. May be called from another thread."""
        if self.is_due(utc):
            self._latest = store.claims(self._job, utc - STALE_S, utc + STALE_S)
            on_lanes = Counter(claimed.lane for claimed in self._latest)
            self._read_utc = utc
            self._read_every_s = read_every_s(1 + max(on_lanes.values(), default=0), LISTEN_S)
        return self._latest

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
        is_news = claims_of_others is not self._seen
        if is_news:
            self._seen, self._by_lane = claims_of_others, self._grouped(claims_of_others)
        for key, handle in self._handles.items():
            lane = scheduler.lanes[key]
            mine = claim_of(scheduler, lane, self._job, self._weight, now, comes_later=self._comes_later)
            if self.expects_work:
                mine = msgspec.structs.replace(mine, hungry=True)
            elif self._of_program:
                mine = opening_claim(mine, lane)
            if lane.hold.scope and lane.account.name and lane.hold.until > now:
                mine = msgspec.structs.replace(mine, hold=_hold_of(lane, utc - now))
            if not (is_news or self._differs(handle, mine, utc)):
                continue
            others = self._by_lane.get(handle.id, [])
            claims = [claim for _, claim in others]
            grant = grant_of(mine, claims, lane.limits.settings.max_concurrency, turn=int(utc // TURN_S))
            self._claim(batch, handle, promised(mine, lane, grant), utc, beside_others=bool(claims))
            owed = {} if lane.traffic.started else owed_to(claims)
            if owed or grant.differs(self._granted.get(key, Grant())):
                self._granted[key] = grant
                shares.append(Share(key, grant, owed))
            here = tuple(name for name, claim in others if claim.hungry or claim.use >= REPORTED_USE)
            if _is_other_company(here, self._company.get(key, ())):
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

    def _differs(self, handle: LaneHandle, mine: Claim, utc: float) -> bool:
        """Whether our claim must be recorded although nothing is known of others that was not known before."""
        before, at_utc = self._claimed.get(handle.key, (None, utc))
        return before is None or mine.differs(before, beside_others=True) or abs(utc - at_utc) >= RENEW_S

    def _grouped(self, claims_of_others: list[StoredClaim]) -> dict[int, list[tuple[str, Claim]]]:
        """The claims on each of our lanes, with the names of their jobs."""
        ours = {handle.id: handle.id for handle in self._handles.values()}
        by_name = {handle.name: handle.id for handle in self._handles.values()}
        grouped: dict[int, list[tuple[str, Claim]]] = {}
        for claimed in claims_of_others:
            lane = ours.get(claimed.lane)
            if lane is None and (self._of_program or claimed.of_program):
                lane = by_name.get(claimed.lane_name)
            if lane is not None:
                grouped.setdefault(lane, []).append((claimed.name, _decode(claimed.claim)))
        return grouped

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


def _is_other_company(here: tuple[str, ...], before: tuple[str, ...]) -> bool:
    """Whether users should be told. Of many jobs a few come and go all the time."""
    few = len(here) <= REPORTED_NAMES or len(before) <= REPORTED_NAMES
    return here != before if few else not 0.5 < len(here) / len(before) < 2.0


def _company_text(here: tuple[str, ...], grant: Grant) -> str:
    if not here:
        return "no other job uses this lane any more: this job has all of its limits again"
    others = f"{len(here)} other jobs use"
    if len(here) == 1:
        others = f"job {here[0]} uses" if here[0] else "a Python client uses"
    part = "all" if grant.part == WHOLE else f"{grant.part:.0%}"
    return f"{others} this lane, too: this job has {part} of its limits"
