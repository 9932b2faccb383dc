"""A lane that nobody tells its limit stays alive and sane, whatever the hidden limit is.

The provider here is a bucket of some rate and depth, of requests or of tokens, or a cap on what is in flight; it says
no, and nothing else. Then nothing breaks, every invariant holds, every unit succeeds, refusals stay few enough that no
unit runs out of patience, and the pace never collapses: the run takes no more than eight times what it must. How close
to the bound a lane comes is for the bench; this holds for every limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappush

from hypothesis import given
from hypothesis import strategies as st

from headway.core import commands, events
from headway.core.invariants import check
from headway.core.model import Costs, Estimate, Hint, Kind, LaneSpec, Outcome, Unit, Usage
from headway.core.scheduler import Scheduler
from headway.core.unit_source import FedScheduler, ListSource
from headway.core.unit_states import Status

from . import strategies as make
from .bucket import Bucket
from .budgets import thorough
from .lanebook import require
from .loop import Loop, Script

UNITS = 300
#: A run may take this many times its bound, and so long more to find it.
SLOW, FINDING_S = 8.0, 200.0
CHECK_EVERY = 20


@dataclass(frozen=True)
class Hidden:
    """What the provider does not tell."""

    place: int
    per_minute: float
    depth_s: float
    most: int
    latency_s: float
    first_s: float | None
    tokens: float
    retry_after_s: float | None

    @property
    def costs(self) -> Costs:
        return (1.0, self.tokens, self.tokens, 0.0)

    @property
    def deep_s(self) -> float:
        """Deep enough for one unit at least."""
        return max(self.depth_s, 1.5 * self.costs[self.place] * 60.0 / self.per_minute)

    @property
    def bound_s(self) -> float:
        """The least that all units take."""
        work_s = UNITS * self.costs[self.place] * 60.0 / self.per_minute - self.deep_s
        return max(work_s, UNITS * self.latency_s / self.most) + self.latency_s


class Provider(Loop):
    """A loop whose answers come from a hidden limit instead of a script."""

    def __init__(self, hidden: Hidden, fed: FedScheduler) -> None:
        super().__init__(fed, Script())
        self.hidden = hidden
        self.bucket = Bucket(hidden.place, hidden.per_minute, 60.0, hidden.deep_s, 0.0)
        self.busy = 0

    def _call(self, happened: tuple[events.Event, ...]) -> None:
        self.busy -= sum(
            isinstance(event, events.Finished) and event.outcome.kind is None for event in happened
        )
        super()._call(happened)
        if len(self.calls) % CHECK_EVERY == 0:
            check(self.scheduler)

    def _send(self, unit: Unit, attempt: int) -> None:
        hidden, key = self.hidden, (unit.index, attempt)
        cost = hidden.costs[hidden.place]
        if self.busy >= hidden.most or self.bucket.level(self.now) < cost / self.bucket.rate:
            hint = Hint(retry_after_s=hidden.retry_after_s)
            refused = events.Finished(unit.index, Outcome(Kind.RATE, hint=hint))
            heappush(self._heap, (self.now + 0.05, *key, 1, refused))
            return
        self.busy += 1
        self.bucket.take(cost, self.now)
        if hidden.first_s is not None:
            heappush(self._heap, (self.now + hidden.first_s, *key, 0, events.RequestAccepted(unit.index)))
        done = events.Finished(unit.index, Outcome(usage=Usage(hidden.tokens)))
        heappush(self._heap, (self.now + hidden.latency_s, *key, 1, done))


hiddens = st.builds(
    Hidden,
    place=make.pick([0, 1]),
    per_minute=make.pick([600.0, 60.0, 6000.0]),
    depth_s=make.pick([1.0, 10.0, 60.0]),
    most=make.pick([1000, 3, 20]),
    latency_s=make.pick([1.0, 0.2, 10.0]),
    first_s=make.pick([None, 0.1]),
    tokens=make.pick([1.0, 5.0]),
    retry_after_s=make.pick([None, 1.0]),
)


@thorough(80)
@given(hidden=hiddens)
def test_a_blind_lane_lives_with_any_limit(hidden: Hidden) -> None:
    units = [Unit(index, "a", Estimate(input_tokens=hidden.tokens)) for index in range(UNITS)]
    loop = Provider(hidden, FedScheduler(Scheduler([LaneSpec("a")]), ListSource(units)))
    loop.run(SLOW * hidden.bound_s + FINDING_S)
    ended = [
        command.status for call in loop.calls for command in call.told if isinstance(command, commands.Finish)
    ]
    text = f"{len(ended)} of {UNITS} ended by {loop.now:.0f} s, the bound is {hidden.bound_s:.0f} s: {hidden}"
    require(ended == [Status.SUCCEEDED] * UNITS, "blind", text)
    require(loop.done, "blind", text)
