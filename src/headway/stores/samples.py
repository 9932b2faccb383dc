"""How a job went over time: samples of its lanes, and the seconds that each lane waited, by reason.

A run adds samples to its write batches (`engine.recording.lane_sampler`). Their number is bounded: when there are too many, a sample
thins those before it. Counters go on over all runs of a job, so that removing a sample loses no count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from headway.stores.database import Database
from headway.stores.row_conversion import json_of

if TYPE_CHECKING:
    from headway.stores.write_batch import WriteBatch


class LaneSample(msgspec.Struct, frozen=True, gc=False):
    """One lane at an instant. Counters are those of the job, over all runs; limits are for a minute, None: none is known.

    `level` is what is left of the limit that has least left (0 to 1).
    """

    lane: int
    starts: int
    tokens: float
    input_tokens: float
    output_tokens: float
    refused: int
    in_flight: int
    window: int | None
    queued: int
    remaining: int
    request_limit: float | None
    token_limit: float | None
    input_limit: float | None
    output_limit: float | None
    level: float | None


class RunSample(msgspec.Struct, frozen=True, gc=False):
    """All lanes of a run at an instant. `drop`: the ticks of samples that are removed, because there are too many."""

    tick: int
    step: int
    at_utc: float
    lanes: tuple[LaneSample, ...]
    drop: tuple[int, ...] = ()


class SampleTotals(msgspec.Struct, frozen=True, gc=False):
    """A job at an instant: the units that had ended, and the known cost."""

    tick: int
    at_utc: float
    ended: int
    cost_usd: float


class LaneWait(msgspec.Struct, frozen=True, gc=False):
    """How long a lane of a job waited for one reason. `for_limit` is the limit that set the pace, where one did."""

    lane: str
    reason: str
    for_limit: str
    seconds: float


class SampleState(msgspec.Struct, frozen=True):
    """What a run continues: the ticks of the samples, their step, and the last counters of each lane by its number: starts, tokens,
    input tokens, output tokens, refusals.
    """

    ticks: tuple[int, ...]
    step: int
    counters: dict[int, tuple[int, float, float, float, int]]


class Samples:
    """The samples in one store."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def state(self, job: int) -> SampleState:
        """What the next run of a job continues."""
        rows = self._db.execute("sample_ticks", (job,))
        counters = {lane: tuple(sums) for lane, *sums, _ in self._db.execute("last_samples", (job,))}
        step = max((step for _, step in rows), default=1)
        return SampleState(tuple(tick for tick, _ in rows), step, counters)

    def totals(self, job: int, since_utc: float = 0.0) -> list[SampleTotals]:
        """The samples since this time and the last one before it, by time."""
        return [SampleTotals(*row) for row in self._db.execute("run_samples", (job, int(since_utc)))]

    def of_lanes(self, job: int, first_tick: int = 0) -> list[tuple[str, int, LaneSample]]:
        """(the lane's name, tick, sample), by lane and tick."""
        rows = self._db.execute("lane_samples", (job, first_tick))
        return [(name, tick, LaneSample(*values)) for name, tick, *values in rows]

    def waits(self, job: int) -> list[LaneWait]:
        """The seconds that lanes of a job waited, by lane and reason, the longest first."""
        return [LaneWait(*row) for row in self._db.execute("lane_waits", (job,))]


#: The statements that remove the samples of a job.
FORGET_SAMPLES: Final = ("forget_run_samples", "forget_lane_samples", "forget_lane_waits")


def add_samples(db: Database, batch: WriteBatch) -> None:
    """Record the samples and waits of a batch, inside its transaction and after its counters."""
    job = batch.job
    for sample in batch.samples:
        db.execute("add_run_sample", (sample.tick, sample.step, sample.at_utc, job))
        for of_lane in sample.lanes:
            number, *values = msgspec.structs.astuple(of_lane)
            db.execute("add_lane_sample", (job, number, sample.tick, *values))
        if sample.drop:
            db.execute("drop_run_samples", (job, json_of(sample.drop)))
            db.execute("drop_lane_samples", (job, json_of(sample.drop)))
    for (lane, reason, for_limit), seconds in batch.waits.items():
        db.execute("add_lane_wait", (job, lane, reason, for_limit, seconds))
