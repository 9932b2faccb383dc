"""One run of a flow in virtual time: the real run of the flow over the real scheduler, against assumed providers.

Of very long lists only a part runs; what the rest would take is added in proportion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

import msgspec

from headway.core.model import Unit, Usage
from headway.engine.run_spec import UnitRoute
from headway.engine.units.unit_cursors import unit_of
from headway.flows.running.steps.node_run import NextUnit, UnitEnd
from headway.flows.simulated.planned_spec import planned_spec, unit_counts
from headway.flows.simulated.virtual_flow import FlowUnit, NextUnits, VirtualFlow, real_order
from headway.flows.spec import FlowSpec
from headway.forecast.answer_model import DrawnUsage
from headway.forecast.assumed_provider import assumed_provider, set_buckets
from headway.forecast.flow_figures import FlowSurvey, NodeKnowledge
from headway.forecast.program_forecasts import factors_of
from headway.forecast.trial import LONGEST_S, evenly, restored_scheduler, truth_of
from headway.sim.scenario import LaneWork, Scenario, SimLane
from headway.sim.workload import Truth, Workload
from headway.sim.world import World
from headway.stores.records import PendingUnit

#: Units of a trial; of longer flows a part runs.
MOST: Final = 10_000
#: A list is not shortened below this.
SHORTEST_LIST: Final = 20
#: Assumed before the first run of a program: how long a tool takes, how long an agent works, and by which factors that may be off.
FIRST_TOOL_S: Final = 1.0
FIRST_AGENT_S: Final = 60.0
FIRST_PROGRAM_DOUBT: Final = (0.1, 10.0)
_VARIANTS: Final = ("estimate", "low", "high")


class NodeTrial(msgspec.Struct):
    """The units of a node in one trial: how many of how many ran, their usage, and when they ran."""

    units: int = 0
    ran: int = 0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    cost_usd: float = 0.0
    start_s: float = 0.0
    end_s: float = 0.0

    @property
    def span_s(self) -> float:
        """From the first start to the last end, if all units ran."""
        return (self.end_s - self.start_s) * (self.units / self.ran if self.ran else 0.0)


class FlowTrial(msgspec.Struct, frozen=True):
    """The result of one trial, by path of node. `spec` is what ran."""

    spec: FlowSpec
    nodes: dict[str, NodeTrial]
    makespan_s: float


def try_flow(plan: FlowSurvey, variant: str, utc: float) -> FlowTrial:
    """Run the flow once."""
    whole = {name: one.count for name, one in plan.sizes.items()}
    counts = dict(unit_counts(planned_spec(plan.spec, whole)))
    share = min(1.0, MOST / max(1, sum(counts.values())))
    sizes = {name: _shortened(count, share) for name, count in whole.items()}
    spec = planned_spec(plan.spec, sizes)
    run = _Trial(plan, variant, dict(unit_counts(spec)))
    lanes = plan.lanes
    scheduler = restored_scheduler(lanes, plan.options, variant, utc)
    accounts = {
        key: assumed_provider(lane, lanes[key], variant, 0.0) for key, lane in scheduler.lanes.items()
    }
    workload = Workload([], [])
    world = World(
        Scenario({key: SimLane(LaneWork(1), provider) for key, (provider, _) in accounts.items()}),
        workload,
        1,
    )
    for key, (_, buckets) in accounts.items():
        set_buckets(world.providers[key], buckets)
    order = _WithoutDone(real_order(spec, plan.concurrency), plan.done if share == 1.0 else frozenset())
    flow = VirtualFlow(order, scheduler, run.unit, workload)
    world.run(flow, LONGEST_S)
    run.note_times(flow.units)
    if share < 1.0:
        run.extrapolate(counts)
    return FlowTrial(spec, run.nodes, max((unit.ended_at or 0.0 for unit in flow.units), default=0.0))


def _shortened(count: int, share: float) -> int:
    return count if share == 1.0 else min(count, max(SHORTEST_LIST, round(count * share)))


class _WithoutDone:
    """The order of units without those that have ended in an earlier run."""

    def __init__(self, order: NextUnits, done: frozenset[str]) -> None:
        self._order, self._done = order, done

    def advance(self, ends: Mapping[str, UnitEnd]) -> list[NextUnit]:
        units: list[NextUnit] = []
        following = self._order.advance(ends)
        while following:
            ended = {unit.id: UnitEnd() for unit in following if unit.id in self._done}
            units += [unit for unit in following if unit.id not in ended]
            following = self._order.advance(ended) if ended else []
        return units


class _Trial:
    """Makes the units of one trial and sums up their usage."""

    def __init__(self, plan: FlowSurvey, variant: str, counts: Mapping[str, int]) -> None:
        self._plan, self._variant, self._counts = plan, variant, counts
        self.nodes = {path: NodeTrial() for path in counts}
        self._numbers = {path: number for number, path in enumerate(counts)}
        self._chances: dict[str, Callable[[], float]] = {
            path: _chances(count, number)
            for (path, count), number in zip(counts.items(), self._numbers.values(), strict=True)
        }

    def unit(self, index: int, following: NextUnit) -> tuple[Unit, Truth]:
        """Draw a unit."""
        path = following.node
        node, sums = self._plan.nodes[path], self.nodes[path]
        sums.ran += 1
        sums.units += 1
        if node.program:
            return self._program_unit(index, path, node, sums)
        factors = node.answer_model.variants[self._variant]
        drawn = node.answer_model.draw(node.chars, node.max_tokens, factors, self._chances[path])
        sums.input_tokens += drawn.input_tokens
        sums.output_tokens += drawn.output_tokens
        if node.price is not None:
            sums.cost_usd += node.price.cost(_usage(drawn))
        pending = PendingUnit(index, node.chars, node.max_tokens, 0, -1 - self._numbers[path])
        return unit_of(pending, UnitRoute(node.lane)), truth_of(drawn, node.max_tokens)

    def _program_unit(
        self, index: int, path: str, node: NodeKnowledge, sums: NodeTrial
    ) -> tuple[Unit, Truth]:
        place = _VARIANTS.index(self._variant)
        took = sorted(run.took_s for run in node.runs)
        paid = [run.cost_usd for run in node.runs if run.cost_usd is not None]
        if paid:
            sums.cost_usd += sum(paid) / len(paid) * factors_of(paid, self._counts[path])[place]
        if not took:
            took, factors = [FIRST_TOOL_S if node.tool else FIRST_AGENT_S], (1.0, *FIRST_PROGRAM_DOUBT)
        else:
            factors = factors_of(took, self._counts[path])
        seconds = took[int(self._chances[path]() * len(took))] * factors[place]
        unit = Unit(index, node.lane, expected_s=seconds, exclusive=node.exclusive)
        return unit, Truth(Usage(), 0.0, 0.0, 0.0, seconds, seconds)

    def note_times(self, units: list[FlowUnit]) -> None:
        """When the units of each node were handed out, and ended."""
        for unit in units:
            node = self.nodes[unit.node]
            first = node.end_s == 0.0 or unit.ready_at < node.start_s
            node.start_s = unit.ready_at if first else node.start_s
            node.end_s = max(node.end_s, unit.ended_at or unit.ready_at)

    def extrapolate(self, counts: Mapping[str, int]) -> None:
        """Add the usage of the units that did not run."""
        for path, node in self.nodes.items():
            more = counts[path] / node.ran if node.ran else 0.0
            node.units = counts[path]
            node.input_tokens *= more
            node.output_tokens *= more
            node.cost_usd *= more


def _usage(drawn: DrawnUsage) -> Usage:
    return Usage(drawn.input_tokens, drawn.output_tokens, drawn.cached_tokens)


def _chances(count: int, seed: int) -> Callable[[], float]:
    """Two draws for each unit, evenly spaced; at random beyond those that were counted."""
    more = Random(seed).random
    drawn = evenly(max(1, count), seed)

    def chance() -> float:
        try:
            return drawn()
        except StopIteration:
            return more()

    return chance
