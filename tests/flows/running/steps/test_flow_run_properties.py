"""Random flows with everything in them, random failures, any order of ends, kills and resumes, against the sequential model: the same final
state, the same units, and no unit twice.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any
from zlib import crc32

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.flows.running.steps.memory_run import Good, MemoryRun
from tests.flows.running.steps.random_flows import flows
from tests.flows.running.steps.sequential_model import COST, SequentialModel

from headway.flows.lazy_list import encode_value, plain
from headway.flows.running.flow_form import nodes_of
from headway.flows.running.steps.node_run import NextUnit, UnitEnd
from headway.flows.running.unit_ids import node_path, parse_unit
from headway.flows.spec import FlowSpec, NodeSpec, OnError

INPUTS: dict[str, Any] = {"xs": [5, 6, 7], "n": 3, "log": ["first"]}


class World:
    """Answers that follow from what a unit sees, so that a unit that sees something else answers something else."""

    def __init__(self, seed: int, failing: int) -> None:
        self.seed, self.failing = seed, failing
        self.seen: dict[str, bytes] = {}

    def answer(self, unit: str, seen: dict[str, Any]) -> dict[str, Any] | None:
        """The value of each field; None: it fails."""
        node: NodeSpec = seen["node"]
        shown = encode_value(
            {
                **seen,
                "node": node.id,
                "state": {name: plain(one) for name, one in seen["state"].items()},
                "item": plain(seen["item"]),
            }
        )
        assert self.seen.setdefault(unit, shown) == shown, unit
        if self.failing and crc32(f"{self.seed} {unit}".encode()) % self.failing == 0:
            return None
        return {field: self._value(shown + field.encode()) for field in node.writes}

    def _value(self, shown: bytes) -> Any:
        digest = crc32(shown, self.seed)
        return (digest % 5, [digest % 7, digest % 3], f"t{digest}", {"k": digest})[digest % 4]


def answered(world: World, unit: NextUnit, node: NodeSpec) -> Good | UnitEnd:
    seen = {
        "state": dict(unit.state),
        "item": unit.item,
        "index": unit.index,
        "args": unit.args,
        "node": node,
    }
    values = world.answer(unit.id, seen)
    if values is None:
        return UnitEnd("broke", COST)
    return Good(values, COST)


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(
    flows(),
    st.integers(0, 1_000),
    st.sampled_from([0, 3, 8]),
    st.randoms(use_true_random=False),
    st.booleans(),
    st.sampled_from([{}, {}, {"once": 1}]),
)
def test_any_order_of_ends_and_any_resume_gives_the_result_of_the_sequential_model(
    spec: FlowSpec, seed: int, failing: int, chance: Any, kills: bool, more: dict[str, Any]
) -> None:
    inputs = INPUTS | more
    nodes = {one.path: one.node for one in nodes_of(spec)}
    rows = {path: [path, 1, [2]] for path, node in nodes.items() if node.kind == "dataset"}
    world = World(seed, failing)
    run = MemoryRun(spec, inputs, rows=rows)
    pending: dict[str, NextUnit] = {}
    asked = take_started(run, pending, run.units())
    while pending or asked:
        unit = chance.choice([*pending, *asked])
        next_unit = pending.pop(unit, None) or asked[unit]
        assert unit not in run.ends
        end = answered(world, next_unit, nodes[next_unit.node])
        asked = take_started(run, pending, run.units({unit: end}))
        if kills and chance.random() < 0.25:
            asked = killed_and_resumed(run, pending, chance)
        must_be_bounded(spec, pending)
    model = SequentialModel(spec, inputs, world.answer, rows)
    status = model.run()
    event(f"{status}, {'with' if len(model.executed) > 5 else 'few'} units")
    assert {unit: not end.error for unit, end in run.ends.items()} == model.executed
    assert json.loads(encode_value(run.state)) == json.loads(encode_value(model.state()))
    assert run.run.status == status
    must_add_up(run, model)


def take_started(run: MemoryRun, pending: dict[str, NextUnit], units: list[NextUnit]) -> dict[str, NextUnit]:
    """Note what was handed out; returns what people are asked."""
    for unit in units:
        assert unit.id not in run.ends
        assert unit.id not in pending
        pending[unit.id] = unit
    return {unit.id: unit for unit in run.run.asked()}


def killed_and_resumed(run: MemoryRun, pending: dict[str, NextUnit], chance: Any) -> dict[str, NextUnit]:
    """Units that failed run again unless that was tolerated. What was in flight waits until it is handed out again."""
    pending.clear()
    for unit in [unit for unit, end in run.ends.items() if end.error and not run.run.stays_ended(unit)]:
        del run.ends[unit]
    order = list(run.ends)
    chance.shuffle(order)
    run.forget()
    run.run.take({unit: run.ends[unit] for unit in order[::2]})
    return take_started(run, pending, run.run.advance({unit: run.ends[unit] for unit in order[1::2]}))


def must_be_bounded(spec: FlowSpec, pending: Collection[str]) -> None:
    """No more steps, items and iterations run than may. It may be more after an approval, because what had waited for it goes on at once."""
    if any(one.node.kind == "human" for one in nodes_of(spec)):
        return
    parsed = [parse_unit(unit) for unit in pending]
    if spec.concurrency:
        assert len({spec.nodes[one.node].group or one.node for one in parsed}) <= spec.concurrency
    for pipeline in spec.pipelines.values():
        items = {one.turn for one in parsed if one.node in pipeline.stages}
        assert not pipeline.concurrency or len(items) <= pipeline.concurrency
    for execution in {(one.node, one.turn) for one in parsed}:
        node, ones = spec.nodes[execution[0]], [one for one in parsed if (one.node, one.turn) == execution]
        iterations = {one.iteration for one in ones}
        most = 1 if node.for_each is None else node.for_each.concurrency
        assert not most or len(iterations) <= most
        if node.inner is not None:
            for n in iterations:
                must_be_bounded(node.inner, [one.rest for one in ones if one.iteration == n])


def must_add_up(run: MemoryRun, model: SequentialModel) -> None:
    """The reports count what was executed."""
    reports = run.run.nodes()
    for path, report in reports.items():
        ends = [good for unit, good in model.executed.items() if node_path(unit) == path]
        if ends:
            assert (report.succeeded, report.failed) == (ends.count(True), ends.count(False))
        assert report.status in ("success", "failed", "skipped")
        assert run.run.in_flight(path) == 0


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(flows(), st.integers(0, 1_000), st.randoms(use_true_random=False), st.data())
def test_a_stopped_run_hands_out_nothing_more_and_is_the_same_when_it_is_rebuilt(
    spec: FlowSpec, seed: int, chance: Any, data: st.DataObject
) -> None:
    from msgspec.structs import replace

    fatal = data.draw(st.sampled_from(list(spec.nodes)))
    stopping = replace(spec.nodes[fatal], on_error=OnError(policy="fail_run"))
    spec = replace(spec, nodes=spec.nodes | {fatal: stopping})
    nodes = {one.path: one.node for one in nodes_of(spec)}
    rows = {path: [path, 1] for path, node in nodes.items() if node.kind == "dataset"}
    world, run, pending = World(seed, 3), MemoryRun(spec, INPUTS, rows=rows), dict[str, NextUnit]()
    asked = take_started(run, pending, run.units())
    while pending or (asked and not run.run.stopped):
        unit = chance.choice([*pending, *([] if run.run.stopped else asked)])
        next_unit = pending.pop(unit, None) or asked[unit]
        started = run.units({unit: answered(world, next_unit, nodes[next_unit.node])})
        assert not (started and run.run.stopped)
        asked = take_started(run, pending, started)
    if not run.run.stopped:
        return
    status, state, stopped = run.run.status, encode_value(run.state), run.run.stopped
    assert status == "failed"
    order = list(run.ends)
    chance.shuffle(order)
    assert run.resumed({unit: run.ends[unit] for unit in order}) == []
    assert (run.run.status, encode_value(run.state), run.run.stopped) == (status, state, stopped)
