"""The claims of others on our lanes, kept from look to look: each look brings only what has changed, and who is here.

After a time without the store, or a lost connection, those that were here before count for a moment longer: if the server was away for all of
us, we may be the first one back, and must not take everything.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from headway.core.lanes.job_share import Claim
from headway.stores.claims import ClaimNews
from headway.stores.records import StoredClaim

#: After a gap: how long those count that were here before it.
LINGER_S: Final = 2.0
#: The claims of a claimant that has gone are forgotten after this time.
FORGET_S: Final = 60.0

#: No job has a larger weight.
MOST_WEIGHT: Final = 100.0

_decode = msgspec.json.Decoder(Claim).decode


class OtherClaim(NamedTuple):
    """One claim, and the name of its job."""

    claimed: StoredClaim
    claim: Claim


class OtherClaims:
    """What others want of the lanes of a store."""

    def __init__(self) -> None:
        #: The number of the latest change that was read.
        self.known = 0
        self._on_lane: dict[int, dict[int, OtherClaim]] = {}
        self._lanes_named: dict[str, set[int]] = {}
        self._present: frozenset[int] = frozenset()
        self._lingering: frozenset[int] = frozenset()
        self._linger_until = 0.0
        self._gone_at: dict[int, float] = {}

    @property
    def number(self) -> int:
        """How many others are here."""
        return len(self._present)

    def linger(self, now: float) -> None:
        """Nothing was read for a while: those that were here before may be back in a moment."""
        self._lingering, self._linger_until = self._present | self._lingering, now + LINGER_S

    def take(self, news: ClaimNews, now: float) -> list[OtherClaim]:
        """Take what a look has brought; returns the claims that have changed."""
        if news.anew:
            self.linger(now)
        self.known = news.known if news.anew else max(self.known, news.known)
        changed = []
        for claimed in news.changed:
            on_lane = self._on_lane.setdefault(claimed.lane, {})
            before = on_lane.get(claimed.claimant)
            if before is None or before.claimed != claimed:
                claim = _readable(claimed.claim)
                if claim is None:
                    on_lane.pop(claimed.claimant, None)
                    continue
                on_lane[claimed.claimant] = one = OtherClaim(claimed, claim)
                self._lanes_named.setdefault(claimed.lane_name, set()).add(claimed.lane)
                changed.append(one)
        for claimant in self._present - news.present:
            self._gone_at[claimant] = now
        self._present = news.present
        if now >= self._linger_until:
            self._lingering = frozenset()
        self._forget(now)
        return changed

    def on(self, lane: int, name: str, *, of_program: bool) -> list[OtherClaim]:
        """The claims on a lane that count now, by job. A lane that a Python program has named is the same as each lane of that name."""
        here = self._present | self._lingering
        found = [one for claimant, one in self._on_lane.get(lane, {}).items() if claimant in here]
        for other in self._lanes_named.get(name, set()) - {lane}:
            found += [
                one
                for claimant, one in self._on_lane[other].items()
                if claimant in here and (of_program or one.claimed.of_program)
            ]
        return sorted(found, key=lambda one: one.claim.job)

    def _forget(self, now: float) -> None:
        """A claimant that comes back writes all of its claims again."""
        for claimant, gone_at in list(self._gone_at.items()):
            if claimant in self._present:
                del self._gone_at[claimant]
            elif now - gone_at > FORGET_S:
                del self._gone_at[claimant]
                for claims in self._on_lane.values():
                    claims.pop(claimant, None)


def _readable(data: bytes) -> Claim | None:
    """A claim; None if it is damaged or of a Headway that writes them differently: it must not end our run."""
    try:
        claim = _decode(data)
    except msgspec.DecodeError:
        return None
    is_sound = 0.0 < claim.weight <= MOST_WEIGHT and 0.0 <= claim.use <= 1.0 and claim.taken >= 0
    return claim if is_sound else None
