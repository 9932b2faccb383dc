"""The records of a forecast: figures with ranges."""

from __future__ import annotations

import msgspec

from headway.core.lanes.lane_memory import LaneRecord
from headway.core.model import Costs, LaneSpec, Price
from headway.engine.run_spec import UnitGroups
from headway.forecast.answer_model import AnswerModel


class Range(msgspec.Struct, frozen=True):
    """An estimate and its range."""

    estimate: float
    low: float
    high: float

    @classmethod
    def of(cls, estimate: float, *others: float) -> Range:
        """The range of an estimate and other values."""
        return cls(estimate, min(estimate, *others), max(estimate, *others))

    def __add__(self, other: Range) -> Range:
        return Range(self.estimate + other.estimate, self.low + other.low, self.high + other.high)


class LaneForecast(msgspec.Struct, frozen=True):
    """The forecast of one lane. `binding` is the limit that determines the time; `learned_from` is how many answers it was learned from."""

    name: str
    requests: int
    input_tokens: Range
    output_tokens: Range
    #: None: a price is not known.
    cost_usd: Range | None
    time_s: Range
    binding: str
    #: The expected number of 429s.
    refused: int
    learned_from: int
    #: The sum of `max_tokens`, and how many requests have none.
    max_output_tokens: int
    open_ended: int
    #: A program or an agent: its tokens are not predicted.
    program: bool = False
    #: Whether `time_s` is known: of programs only after a first unit.
    time_known: bool = True


class Forecast(msgspec.Struct, frozen=True):
    """The forecast of a job. `simulated` is how many of its requests were simulated."""

    lanes: list[LaneForecast]
    requests: int
    input_tokens: Range
    output_tokens: Range
    cost_usd: Range | None
    time_s: Range
    simulated: int
    notes: list[str]
    #: Models without a known price: `cost_usd` does not include them.
    unpriced: list[str] = []
    #: Whether the time of every lane is known.
    time_known: bool = True


class ForecastRoute(msgspec.Struct, frozen=True):
    """A route of the job: its lane, its price, and the model of its answers."""

    lane: str
    price: Price | None
    answer_model: AnswerModel
    #: Provider and model, as an input names them.
    name: str = ""
    #: What sets its price, and where.
    price_place: str = ""


class LaneKnowledge(msgspec.Struct, frozen=True):
    """What is known of a lane before the run: its settings, its record, and its recent starts `(seconds ago, costs)`."""

    spec: LaneSpec
    name: str
    kind: str
    record: LaneRecord | None = None
    starts: list[tuple[float, Costs]] = []


class RunOptions(msgspec.Struct, frozen=True):
    """The flags and settings of the run that influence its time."""

    concurrency: int = 0
    serial: bool = False
    delay_s: float = 0.0
    #: Agents work side by side, even if they may write: `--worktree` or `--shared-directory`.
    side_by_side: bool = False
    #: Units of which only some groups are in flight at once: the files of a review.
    groups: UnitGroups | None = None
