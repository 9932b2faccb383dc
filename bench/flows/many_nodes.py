"""10,000 nodes: reading and checking the file, the first units, and the CPU of the run of the flow for each unit."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.flows import graphs
from headway.flows.flow_file import load_flow
from headway.flows.running.steps.flow_run import FlowRun
from headway.flows.running.steps.node_run import UnitEnd
from headway.flows.simulated.planned_spec import PlannedValues

NODES: Final = 10_000
#: The issue says "in seconds".
PLANNING_BAR_S: Final = 10.0
UNIT_BAR_US: Final = 100.0
GRAPHS: Final[dict[str, Callable[[Path, int], Path]]] = {
    "layers of 100 nodes": lambda folder, count: graphs.layered(folder, count // 100, 100),
    "a chain": graphs.chain,
    "a tree by fields, a for_each in every tenth node": graphs.mixed,
}


class Graph(msgspec.Struct, frozen=True):
    """What one graph took."""

    name: str
    nodes: int
    units: int
    validate_s: float
    first_s: float
    run_s: float

    @property
    def planning_s(self) -> float:
        """Until the first units are known."""
        return self.validate_s + self.first_s

    @property
    def unit_us(self) -> float:
        """CPU of the run of the flow for each unit."""
        return self.run_s / self.units * 1e6


def measure(name: str, count: int = NODES) -> Graph:
    """Check a graph, and run it with ends that come at once, one at a time."""
    with TemporaryDirectory() as folder:
        path = GRAPHS[name](Path(folder), count)
        began = time.process_time()
        spec = load_flow(path)
        validated = time.process_time()
    run = FlowRun(spec, {}, PlannedValues(spec))
    queue = deque(run.advance())
    ready = time.process_time()
    units = 0
    while queue:
        units += 1
        queue += run.advance({queue.popleft().id: UnitEnd()})
    ended = time.process_time()
    if run.status != "success":
        raise RuntimeError(f"{name}: the run ended as {run.status}")
    return Graph(name, len(spec.nodes), units, validated - began, ready - validated, ended - ready)


def misses(graph: Graph) -> list[str]:
    """The missed bars."""
    missed = []
    if graph.planning_s > PLANNING_BAR_S:
        missed.append(
            f"{graph.nodes:,} nodes, {graph.name}: planning {graph.planning_s:.1f} s, the bar is {PLANNING_BAR_S:g}"
        )
    if graph.unit_us > UNIT_BAR_US:
        missed.append(
            f"{graph.nodes:,} nodes, {graph.name}: {graph.unit_us:.0f} µs of the run of the flow for a unit, the bar is {UNIT_BAR_US:g}"
        )
    return missed


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield f"### {NODES:,} nodes"
    yield ""
    yield "CPU to read and check the file and to know the first units, and CPU of the run of the flow (which units come next) for each unit, with ends"
    yield f"that come one at a time. Bars: {PLANNING_BAR_S:g} s, {UNIT_BAR_US:g} µs."
    yield ""
    yield "| graph | nodes | units | check, s | first units, s | µs a unit |"
    yield "|---|---|---|---|---|---|"
    for name in GRAPHS:
        print(f"flows: {NODES:,} nodes, {name} …", flush=True)
        graph = measure(name)
        missed += misses(graph)
        yield (
            f"| {graph.name} | {graph.nodes:,} | {graph.units:,} | {graph.validate_s:.2f} | {graph.first_s:.2f} "
            f"| {graph.unit_us:.0f} |"
        )
    yield ""
