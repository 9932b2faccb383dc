"""Samples of a run's lanes over time, and the seconds that each lane waited, by reason.

The sampler is shown a snapshot whenever one is made anyway, and puts at most one sample a second into the present batch; samples wait
for a commit that happens anyway. Their number is bounded: beyond it, the samples before are thinned and new ones come half as often.
Nothing here is done for each unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

from headway.core.lanes.lane import LaneState
from headway.core.lanes.learning.rate_finder import LEARNED
from headway.core.lanes.meters.growth_cap import GROWTH_CAP
from headway.core.lanes.meters.meter import MINIMUM_GAP, Meter
from headway.core.model import DAY_S, MINUTE_S
from headway.core.reasons import WaitCode
from headway.core.snapshot import LaneView, Snapshot
from headway.engine.flights import LaneHandle
from headway.stores.samples import LaneSample, RunSample, SampleState
from headway.stores.write_batch import WriteBatch

#: Samples of a job, over all of its lanes, and the most and fewest of one lane. Thinning leaves half of them: with 20 lanes, a page shows
#: 600 columns of a run of any length. All samples of a job take up to 2 MB.
MOST_ROWS: Final = 24_000
MOST_TICKS: Final = 1_200
FEWEST_TICKS: Final = 100

#: The places of token dimensions in `core.model.DIMENSIONS`.
_TOKEN_PLACES: Final = (1, 2, 3)
_SEARCHING: Final = (LEARNED, GROWTH_CAP)
_NONE_CHARGED: Final = (0, 0.0, 0.0, 0.0, 0)


class LaneSampler:
    """The samples of one run, which go on from those of earlier runs of the job. `now` is the engine's clock, in every method."""

    def __init__(self, lanes: Mapping[str, LaneHandle], earlier: SampleState, now: float) -> None:
        self._lanes = lanes
        self._earlier = earlier
        self._ticks, self._step = list(earlier.ticks), earlier.step
        self._looked_at = now
        self._charges: dict[str, TokenCharges] = {}

    def look(self, snapshot: Snapshot, utc: float, batch: WriteBatch) -> None:
        """Count the waits since the last look, and add a sample if one is due."""
        self._count_waits(snapshot, batch)
        tick = int(utc) // self._step * self._step
        last = self._ticks[-1] if self._ticks else -1
        if tick > last or tick < last - self._step:  # Or the clock was set back.
            self._sample(snapshot, tick, utc, batch)

    def finish(self, snapshot: Snapshot, utc: float, batch: WriteBatch) -> None:
        """The last sample of the run."""
        self._count_waits(snapshot, batch)
        self._sample(snapshot, int(utc) // self._step * self._step, utc, batch)

    def _count_waits(self, snapshot: Snapshot, batch: WriteBatch) -> None:
        waited_s, self._looked_at = snapshot.at - self._looked_at, snapshot.at
        if waited_s <= 0.0:
            return
        for view in snapshot.lanes:
            wait, handle = view.wait, self._lanes.get(view.key)
            if wait is not None and handle is not None and view.remaining:
                key = handle.id, str(wait.code), wait.message if wait.code is WaitCode.PACE else ""
                batch.waits[key] = batch.waits.get(key, 0.0) + waited_s

    def _sample(self, snapshot: Snapshot, tick: int, utc: float, batch: WriteBatch) -> None:
        samples = tuple(
            self._lane_sample(view, handle)
            for view in snapshot.lanes
            if (handle := self._lanes.get(view.key)) is not None
        )
        if not samples:
            return
        if not self._ticks or self._ticks[-1] != tick:
            self._ticks.append(tick)
        drop: tuple[int, ...] = ()
        if len(self._ticks) > most_ticks(len(samples)):
            drop = tuple(self._ticks[1:-1:2])
            self._ticks = [*self._ticks[:-1:2], tick]
        batch.samples.append(RunSample(tick, self._step, utc, samples, drop))
        if drop:  # As far apart as those that are left, also if the run was shown less often than it could be sampled.
            gaps = sorted(later - earlier for earlier, later in pairwise(self._ticks))
            self._step = max(2 * self._step, gaps[len(gaps) // 2])

    def _lane_sample(self, view: LaneView, handle: LaneHandle) -> LaneSample:
        starts, tokens, tokens_in, tokens_out, refused = self._earlier.counters.get(handle.id, _NONE_CHARGED)
        limits: list[float | None] = [None] * 4
        level = None
        if (lane := handle.lane) is not None:
            charged = self._charges.setdefault(view.key, TokenCharges()).look(lane)
            tokens, tokens_in, tokens_out = (
                tokens + charged[0],
                tokens_in + charged[1],
                tokens_out + charged[2],
            )
            limits = [lowest_limit(lane.limits.meters, place) for place in range(4)]
            level = min((_left(meter, self._looked_at) for meter in lane.limits.meters), default=None)
        return LaneSample(
            handle.id, starts + view.started, tokens, tokens_in, tokens_out, refused + view.refused, view.in_flight, view.window,
            view.queued, view.remaining, limits[0], limits[1], limits[2], limits[3], level,
        )  # fmt: skip


def most_ticks(lanes: int) -> int:
    """The most samples of a job with so many lanes."""
    return max(FEWEST_TICKS, min(MOST_TICKS, MOST_ROWS // lanes))


def lowest_limit(meters: Iterable[Meter], place: int) -> float | None:
    """The lowest limit of a dimension for a minute. A limit for a day may be used up at once, so it is none for a minute."""
    rates = [meter.rate for meter in meters if meter.place == place and meter.period_s < DAY_S]
    return min(rates) * MINUTE_S if rates else None


def _left(meter: Meter, now: float) -> float:
    """What is left of a limit, from 0 to 1. A gap between starts leaves nothing to use at once."""
    if meter.name == MINIMUM_GAP:
        return 1.0
    depth_s = meter.ceiling_s if meter.levelled else meter.depth_s
    return max(0.0, min(1.0, meter.level(now, depth_s) / (meter.rate * depth_s))) if depth_s > 0.0 else 1.0


class TokenCharges:
    """What the token meters of a lane were charged so far: estimates at the start of a request, corrected by its usage. A dimension
    without a meter counts as it was reserved.
    """

    __slots__ = ("_charged", "_reserved", "_used_s")

    def __init__(self) -> None:
        self._charged = [0.0, 0.0, 0.0]
        self._reserved = [0.0, 0.0, 0.0]
        #: The seconds of refill that the meter of each dimension was charged at the last look; None: it had none.
        self._used_s: list[float | None] = [None, None, None]

    def look(self, lane: LaneState) -> list[float]:
        """Tokens, input tokens and output tokens up to now."""
        means = lane.traffic.mean_costs()
        for n, place in enumerate(_TOKEN_PLACES):
            meter = _counted_by(lane.limits.meters, place)
            reserved = means[place] * lane.traffic.started
            used_s = self._used_s[n]
            if meter is None or used_s is None:
                self._charged[n] += max(0.0, reserved - self._reserved[n])
            else:
                self._charged[n] += max(0.0, meter.used_s - used_s) * meter.rate
            self._used_s[n] = None if meter is None else meter.used_s
            self._reserved[n] = reserved
        return list(self._charged)


def _counted_by(meters: Iterable[Meter], place: int) -> Meter | None:
    """The meter that counts all use of a dimension: one for our part of a limit counts the same again, and one that searches for a rate
    is replaced again and again.
    """
    for meter in meters:
        counts = meter.whole is None and meter.name not in _SEARCHING and meter.period_s < DAY_S
        if counts and meter.place == place:
            return meter
    return None
