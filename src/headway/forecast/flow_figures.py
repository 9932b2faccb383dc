"""The records of the forecast of a flow: what is known of its nodes before it runs, and figures for each node."""

from __future__ import annotations

import msgspec

from headway.core.model import Price
from headway.flows.spec import FlowSpec
from headway.forecast.answer_model import ASSUMED, AnswerModel
from headway.forecast.figures import LaneKnowledge, Range, RunOptions
from headway.forecast.list_sizes import ListSize
from headway.stores.records import ProgramRun


class NodeKnowledge(msgspec.Struct, frozen=True):
    """What is known of the units of a node. `program`: a tool, or an agent CLI; otherwise an LLM answers."""

    lane: str
    #: Provider and model.
    name: str
    program: bool = False
    tool: bool = False
    runs: list[ProgramRun] = []
    answer_model: AnswerModel = ASSUMED
    price: Price | None = None
    #: The characters of a request, and the limit of its answer.
    chars: int = 0
    max_tokens: int = 0
    #: Its units run one at a time with those of the same number; 0: with any other.
    exclusive: int = 0
    #: From how many earlier units of this node the figures are learned.
    learned_from: int = 0


class FlowSurvey(msgspec.Struct, frozen=True):
    """A flow that is to be forecast. `nodes` and `sizes` are by path; `done` are the units that have ended already."""

    spec: FlowSpec
    nodes: dict[str, NodeKnowledge]
    sizes: dict[str, ListSize]
    lanes: dict[str, LaneKnowledge]
    options: RunOptions = RunOptions()
    #: Nodes at a time, if not as the file says.
    concurrency: int | None = None
    done: frozenset[str] = frozenset()


class NodeForecast(msgspec.Struct, frozen=True):
    """The figures of one node. `assumed` says what its number of units was taken from; "": it is known.

    `start_s` is when its first unit starts, in the likely case; `time_s` how long it takes from then to its last end.
    """

    kind: str
    units: int
    assumed: str
    input_tokens: Range
    output_tokens: Range
    cost_usd: Range | None
    start_s: float
    time_s: Range
    critical: bool
    learned_from: int
    program: bool


class FlowForecast(msgspec.Struct, frozen=True):
    """The forecast of a flow. `path` are the steps that determine its time, and `path_s` what they take one after the other."""

    nodes: dict[str, NodeForecast]
    units: int
    input_tokens: Range
    output_tokens: Range
    cost_usd: Range | None
    time_s: Range
    path: list[str]
    path_s: float
    simulated: int
    notes: list[str]
    unpriced: list[str] = []
