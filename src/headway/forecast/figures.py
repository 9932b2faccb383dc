"""The records of a forecast: plain figures, each with the range that it is expected in."""

from __future__ import annotations

import msgspec

from headway.core.lanes.lane_memory import LaneRecord
from headway.core.model import Costs, LaneSpec, Price
from headway.forecast.habits import Habits


class Range(msgspec.Struct, frozen=True):
    """What is likely, and what it should stay between."""

    estimate: float
    low: float
    high: float

    @classmethod
    def of(cls, estimate: float, *others: float) -> Range:
        """Around an estimate."""
        return cls(estimate, min(estimate, *others), max(estimate, *others))

    def __add__(self, other: Range) -> Range:
        return Range(self.estimate + other.estimate, self.low + other.low, self.high + other.high)


class LaneForecast(msgspec.Struct, frozen=True):
    """What one lane will take. `binding` is the limit that the time comes from; `learned_from` how many answers taught."""

    name: str
    requests: int
    input_tokens: Range
    output_tokens: Range
    #: None: a price is not known.
    cost_usd: Range | None
    time_s: Range
    binding: str
    #: 429s to be met on the way.
    refused: int
    learned_from: int
    #: What `max_tokens` allows in all, and how many requests have none.
    max_output_tokens: int
    open_ended: int


class Forecast(msgspec.Struct, frozen=True):
    """What a job will take. `simulated` is how many of its requests were tried out one by one."""

    lanes: list[LaneForecast]
    requests: int
    input_tokens: Range
    output_tokens: Range
    cost_usd: Range | None
    time_s: Range
    simulated: int
    notes: list[str]
    #: Models whose price is not known: `cost_usd` is without them.
    unpriced: list[str] = []


class ForecastRoute(msgspec.Struct, frozen=True):
    """A route of the job: whom its rows go to, in which lane, at what price, and what answers there are like."""

    lane: str
    price: Price | None
    habits: Habits
    #: Provider and model, as an input names them.
    name: str = ""

    @property
    def price_table(self) -> str:
        """Where in headway.toml its price would stand."""
        provider, _, model = self.name.partition("/")
        return f'[providers.{provider}.models."{model}".prices]'


class LaneKnowledge(msgspec.Struct, frozen=True):
    """What is known of a lane before it runs: its settings, its record, and what was started lately `(seconds ago, costs)`."""

    spec: LaneSpec
    name: str
    kind: str
    record: LaneRecord | None = None
    starts: list[tuple[float, Costs]] = []


class RunOptions(msgspec.Struct, frozen=True):
    """How the run would go about it: flags and settings that matter for the time."""

    concurrency: int = 0
    serial: bool = False
    delay_s: float = 0.0
