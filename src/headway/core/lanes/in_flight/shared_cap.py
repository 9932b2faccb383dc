"""A cap on attempts in flight that several jobs of one account find together.

The job that leads searches for it, as it does for a rate. It learns in its own window, whose ceiling is its own places: the cap
of the account is that ceiling plus what belongs to the others (`elsewhere`). The others keep to their places and learn
nothing by themselves: they count their refusals, and the leading job judges them (`refusals.of_others`).
"""

from __future__ import annotations

from operator import sub
from typing import TYPE_CHECKING, Final, NamedTuple

from headway.core.lanes.in_flight.window import OPEN, Window
from headway.core.model import Costs

if TYPE_CHECKING:
    from headway.core.lanes.job_share import Claim, Grant

#: After a congestion event, refusals of other jobs belong to it for so long: they must read of the slower pace, and its answers
#: must come back.
SETTLE_S: Final = 1.0
#: A refusal of another job is read so long after its attempt was sent, in the mean.
HEARD_AFTER_S: Final = 0.3


class SharedCap:
    """This job's places of a cap, beside other jobs."""

    __slots__ = (
        "_followed",
        "_heard",
        "crowded",
        "elsewhere",
        "event_at",
        "follows",
        "full",
        "places",
        "refused",
    )

    def __init__(self) -> None:
        #: How many may be in flight of a configured or found number; None: all of them.
        self.places: int | None = None
        #: Whether another job searches, and the cap that it has found.
        self.follows = False
        self._followed: int | None = None
        #: What of the found cap, or of the configured number, belongs to other jobs. While neither is known: what they have in flight.
        self.elsewhere = 0
        #: Whether the others use all of their places.
        self.full = True
        #: Congestion events while another job searched: of an unknown kind, and of too many in flight.
        self.refused = self.crowded = 0
        #: The latest claims of other jobs, by job; and when the latest congestion event of all was.
        self._heard: dict[int, Claim] = {}
        self.event_at = float("-inf")

    def found(self, window: Window) -> int | None:
        """The cap of the whole account, if one was found or is suspected."""
        if self.follows:
            return self._followed
        return None if window.ceiling >= OPEN else window.ceiling + self.elsewhere

    def allowed(self, most: int | None) -> int | None:
        """How many may be in flight of a configured number, and of the places; None: not limited by these."""
        if self.places is None:
            return most
        return self.places if most is None else min(most, self.places)

    def taken(self, window: Window, in_flight: int) -> int:
        """How many places this job has, less the attempts with which it tests whether there are more."""
        if self.follows or window.ceiling >= OPEN:
            return in_flight
        if window.size > window.ceiling:
            return max(0, in_flight - (window.size - window.ceiling))
        tests = window.suspected and in_flight == window.size + 1
        return in_flight - tests

    def take(self, grant: Grant, window: Window, most: int | None, ratio: float) -> None:
        """Keep to the places of a grant. `most` is the configured number; our part of all limits changes by `ratio`."""
        cap = self.found(window)
        if grant.follows or cap is None:
            cap = grant.cap
        self.places, self.follows, self._followed = grant.places, grant.follows, cap
        self.full = grant.full
        if grant.follows:
            self.elsewhere = 0
            if self.places is None:
                window.scale(most, ratio)
            else:
                window.keep_to(min(self.places, most or OPEN))
        elif cap is None:
            others = None if most is None or grant.places is None else max(0, most - grant.places)
            self.elsewhere = grant.elsewhere if others is None else others
            window.scale(self.allowed(most), ratio)
        else:
            ceiling = cap if grant.places is None else min(cap, grant.places)
            self.elsewhere = cap - ceiling
            window.move(most, ceiling)

    def configure(self, window: Window, most: int | None) -> None:
        """The configured number has changed."""
        if self.places is None or not (self.follows or window.ceiling >= OPEN):
            window.configure(most)
        else:
            # The maximum is what other jobs leave, so reaching it proves nothing.
            window.scale(self.allowed(most), 1.0)

    def hear(self, grant: Grant) -> OtherJobs:
        """What other jobs have sent and met since the last grant. A job that is new here says nothing yet."""
        before, self._heard = self._heard, {claim.job: claim for claim in grant.others}
        news = OtherJobs()
        for job, claim in self._heard.items():
            if job in before:
                news = news.plus(before[job], claim)
        return news


class OtherJobs(NamedTuple):
    """What other jobs have sent since they were last heard of, and whether they met congestion: unknown, or too many in flight."""

    refused: bool = False
    crowded: bool = False
    sent: tuple[Costs, ...] = ()

    def plus(self, before: Claim, claim: Claim) -> OtherJobs:
        """The same with what one job did between two claims."""
        sent = self.sent
        if claim.sent is not None and before.sent is not None:
            requests, tokens, tokens_in, tokens_out = map(sub, claim.sent, before.sent)
            sent = (*sent, (requests, tokens, tokens_in, tokens_out))
        return OtherJobs(
            self.refused or claim.refused > before.refused,
            self.crowded or claim.crowded > before.crowded,
            sent,
        )
