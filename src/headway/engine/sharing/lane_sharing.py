"""Others of the same store that use the same lanes now: each records its claims and reads those of the others.

Every process computes its own share (`core.lanes.job_share`), so none depends on another one to go on. What it computes is a grant for
some seconds (`grant_term`): it is renewed by each exchange of claims, and who cannot reach the store starts nothing when it ends. Then its
claims no longer count, too, and its share goes to the others; so does that of a killed process. A job that ends removes its claims.

A process that comes back draws anew: it records all of its claims again, reads those of the others, and begins with empty buckets where it
shares a lane, because the others may have used everything meanwhile.

A lane is the same for two jobs if it has the same key. A lane that a Python program has named (`headway.map(lane="alpha/gpt-x")`) has
no key in common with others: it is the same as every lane of that name in the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

import msgspec

from headway.core.events import Event, Granted, HoldAccount, HoldLane, Share
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
from headway.engine.recording.store_clock import StoreClock
from headway.engine.sharing.grant_term import GrantTerm
from headway.engine.sharing.other_claims import OtherClaim, OtherClaims
from headway.stores.claims import ClaimNews
from headway.stores.records import JobEvent
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

#: How often a job looks for commands from other terminals (DESIGN promises 250 ms), and at the claims of others if they are few
#: (`job_share.read_every_s`).
LISTEN_S: Final = 0.2
#: How often a claimant says that it is here, and records how a claim has drifted.
RENEW_S: Final = 1.0
#: A job that uses less of a lane, and wants no more, is not reported.
REPORTED_USE: Final = 0.05
#: Of more jobs than these only the number is reported, when it has doubled or halved.
REPORTED_NAMES: Final = 3

_encode = msgspec.json.Encoder().encode


class Look(NamedTuple):
    """What a look at the claims of others has shown: events for the scheduler, and for the records where the company has changed."""

    events: list[Event]
    notes: list[JobEvent]


class _Moment(NamedTuple):
    """When a look is taken, by both clocks; whether it is the first with a grant after some time without; where claims are recorded."""

    now: float
    utc: float
    anew: bool
    batch: WriteBatch


class LaneSharing:
    """One job among others on its lanes; or a client, whose work comes one by one (`comes_later`)."""

    def __init__(
        self,
        job: int,
        weight: float,
        lanes: Mapping[str, LaneHandle],
        clock: StoreClock,
        *,
        of_program: bool = False,
        comes_later: bool = False,
    ) -> None:
        self._job = job
        self._weight = weight
        self._handles = lanes
        self._clock = clock
        self._of_program, self._comes_later = of_program, comes_later
        #: Whether work that no lane knows of yet waits for our share.
        self.expects_work = False
        self._term, self._others = GrantTerm(), OtherClaims()
        #: Whether nothing was to start, so that nobody looked; and whether our grant has ended otherwise.
        self._rested, self._was_away = True, False
        self._seen_at = self._looked_at = float("-inf")
        self._granted: dict[str, Grant] = {}
        self._claimed: dict[str, tuple[Claim, float]] = {}
        self._company: dict[str, tuple[str, ...]] = {}

    # -- reading ------------------------------------------------------------------------------------------------------

    def is_due(self, now: float) -> bool:
        """Whether it is time to look again: at intervals, and when our grant ends soon and a look would renew it."""
        if self._term.is_renewable(now):
            return True
        return _is_over(now - self._looked_at, read_every_s(1 + self._others.number, LISTEN_S))

    def read(self, store: Store) -> ClaimNews:
        """What others claim. May be called by another thread."""
        self._term.asks()
        self._clock.compare(store.clock_ahead_s)
        return store.claims.news(self._job, self._others.known, self._clock.utc())

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def is_granted(self) -> bool:
        """Whether the latest look has renewed our grants."""
        return not (self._was_away or self._rested)

    def rest(self) -> None:
        """Nothing is to start, so there are no more looks for now."""
        self._rested = True

    def look(self, news: ClaimNews, batch: WriteBatch, scheduler: Scheduler, now: float) -> Look:
        """Renew our claims and compute our shares."""
        self._looked_at = now
        if news.anew:
            self._claimed.clear()  # A crash of the server may have undone them.
        if self._term.is_over(now):
            self._claimed.clear()  # The others have forgotten them.
            if not (self._rested or self._was_away):
                self._was_away = True
                self._others.linger(now)
        self._term.heard()
        is_granted = not self._term.is_over(now)
        moment = _Moment(now, self._clock.utc(), self._was_away and is_granted, batch)
        changed = self._others.take(news, now)
        look = Look([], [])
        for key, handle in self._handles.items():
            self._share(handle, scheduler, scheduler.lanes[key], moment, look)
        look.events.extend(self._held_elsewhere(changed, scheduler, moment))
        if is_granted:
            self._rested = self._was_away = False
            look.events.append(Granted(self._term.until))
        if _is_over(now - self._seen_at, RENEW_S) or not is_granted:
            self._renew(batch, now, moment.utc)
        return look

    def announce(self, batch: WriteBatch, scheduler: Scheduler, now: float) -> None:
        """Record our claims before the first look at others: of two jobs that begin at once, at least one sees the other."""
        utc = self._clock.utc()
        for key, handle in self._handles.items():
            mine = claim_of(scheduler, scheduler.lanes[key], self._job, self._weight, now)
            self._claim(handle, mine, _Moment(now, utc, False, batch))
        self._renew(batch, now, utc)

    def _share(
        self, handle: LaneHandle, scheduler: Scheduler, lane: LaneState, moment: _Moment, look: Look
    ) -> None:
        """Our share of one lane."""
        key = handle.key
        mine = self._claim_of(scheduler, lane, moment)
        others = self._others.on(handle.id, handle.name, of_program=self._of_program)
        claims = [other.claim for other in others]
        turn = int(moment.utc // TURN_S)
        grant = grant_of(mine, claims, lane.limits.settings.max_concurrency, turn)
        self._claim(handle, promised(mine, lane, grant), moment, beside_others=bool(claims))
        owed = {} if lane.traffic.started else owed_to(claims)
        here = tuple(
            other.claimed.name for other in others if other.claim.hungry or other.claim.use >= REPORTED_USE
        )
        anew = moment.anew and bool(here) and lane.traffic.started > 0
        if owed or anew or grant.differs(self._granted.get(key, Grant())):
            self._granted[key] = grant
            look.events.append(Share(key, grant, owed, anew))
        if _is_other_company(here, self._company.get(key, ())):
            self._company[key] = here
            look.notes.append(JobEvent(moment.utc, handle.name, "shared", _company_text(here, grant)))

    def _claim_of(self, scheduler: Scheduler, lane: LaneState, moment: _Moment) -> Claim:
        """What we want of a lane now."""
        mine = claim_of(scheduler, lane, self._job, self._weight, moment.now, comes_later=self._comes_later)
        if self.expects_work:
            mine = msgspec.structs.replace(mine, hungry=True)
        elif self._of_program:
            mine = opening_claim(mine, lane)
        if lane.hold.until > moment.now:
            mine = msgspec.structs.replace(mine, hold=_hold_of(lane, moment.utc - moment.now))
        return mine

    def _held_elsewhere(
        self, changed: Iterable[OtherClaim], scheduler: Scheduler, moment: _Moment
    ) -> list[Event]:
        """Holds that others were told of: of our lanes, and of our accounts. Only new ones, because a user may have lifted the hold."""
        held: list[Event] = []
        accounts = {lane.account.name for lane in scheduler.lanes.values()} - {""}
        for claimed, claim in changed:
            hold = claim.hold
            if hold is None or hold.until_utc <= moment.utc:
                continue
            until = moment.now + hold.until_utc - moment.utc
            if hold.account in accounts:
                held.append(HoldAccount(hold.account, hold.model, hold.scope, until, hold.reason))
            elif not hold.scope:
                held += [
                    HoldLane(key, until, hold.reason)
                    for key, handle in self._handles.items()
                    if handle.id == claimed.lane
                ]
        return held

    # -- our claims ---------------------------------------------------------------------------------------------------

    def _claim(
        self, handle: LaneHandle, mine: Claim, moment: _Moment, *, beside_others: bool = False
    ) -> None:
        """Record a claim when it changes, and from time to time as it drifts. Others want to know more of it."""
        before, at = self._claimed.get(handle.key, (None, 0.0))
        changed = before is None or mine.differs(before, beside_others=beside_others)
        if changed or (before is not None and _is_over(moment.now - at, RENEW_S) and mine.drifted(before)):
            self._claimed[handle.key] = (mine, moment.now)
            moment.batch.claims[handle.id] = _encode(mine)

    def _renew(self, batch: WriteBatch, now: float, utc: float) -> None:
        """Say that we are here."""
        self._seen_at = now
        batch.seen_utc = utc
        batch.after_commit.append(partial(self._term.renewed, now))


def _is_over(since_s: float, interval_s: float) -> bool:
    """Whether so much time is an interval. What is due once a second must not wait for the next second because a look came a bit early."""
    return since_s >= interval_s - LISTEN_S / 2.0


def _hold_of(lane: LaneState, offset_s: float) -> AccountHold:
    hold, account = lane.hold, lane.account
    name = account.name if hold.scope else ""
    return AccountHold(
        name, account.model if name else "", hold.scope if name else "", hold.until + offset_s, hold.reason
    )


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
