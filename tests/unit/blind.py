"""A provider that tells nothing: one bucket of requests, a fixed time to each answer, and bare refusals."""

from __future__ import annotations

from typing import Final

from tests.unit.drive import Run, Step, failed, lane_spec, ok, play, units

from headway.core.commands import Start
from headway.core.events import Finished
from headway.core.lanes.learning.rate_finder import RateFinder
from headway.core.model import Costs, Estimate, Kind, LaneLimits
from headway.sim.virtual_bucket import VirtualBucket

#: A unit of a hundred tokens, and what it costs.
PLAIN: Final = Estimate(input_tokens=80.0, output_tokens=20.0)
COSTS: Final[Costs] = (1.0, 100.0, 80.0, 20.0)
#: How long a refusal takes.
REFUSAL_S: Final = 0.05


class Blind:
    """A lane of which nothing is known, in front of a bucket that is `rate` a second and `depth_s` deep."""

    def __init__(
        self, rate: float, depth_s: float, answer_s: float = 0.3, refusal_s: float = REFUSAL_S
    ) -> None:
        self.run = Run(units(30_000, estimate=PLAIN), lane_spec(limits=LaneLimits()))
        self.bucket = VirtualBucket(rate, depth_s)
        self.answer_s, self.refusal_s = answer_s, refusal_s
        self.accepted: list[float] = []
        self.refused: list[float] = []
        self.changes: list[tuple[float, float]] = []

    def change(self, at: float, rate: float) -> None:
        """From that instant on the limit is another one."""
        self.changes.append((at, rate))

    def play(self, until: float) -> list[tuple[float, Step]]:
        """Run from instant 0 on."""
        return play(self.run, self._answer, until=until)

    def _answer(self, start: Start, now: float) -> tuple[float, Finished]:
        while self.changes and self.changes[0][0] <= now:
            self.bucket.scale(self.changes.pop(0)[1], now)
        if self.bucket.short_by(1.0, now) > 0.0:
            self.refused.append(now)
            return self.refusal_s, failed(start.unit.index, Kind.RATE)
        self.bucket.charge(1.0, now)
        self.accepted.append(now)
        return self.answer_s, ok(start.unit.index)

    def used(self, since: float, until: float) -> float:
        """The share of what flowed in that was used."""
        count = sum(since <= at < until for at in self.accepted)
        return count / (self.bucket.rate * (until - since))

    @property
    def finder(self) -> RateFinder:
        finder = self.run.lane().limits.finder
        assert finder is not None
        return finder
