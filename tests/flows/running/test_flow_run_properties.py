"""Random flows, failures, orders of ends and resumes, against a simple sequential model: same state, same units."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.flows.running.test_flow_run import flow, node

from headway.flows.running.flow_run import FlowRun
from headway.flows.running.node_run import NextUnit, UnitEnd
from headway.flows.spec import AUTO, Dependency, FlowSpec, ForEach, MaxFailures, NodeSpec

ITEMS = ["x", "y", "z"]


@st.composite
def flows(draw: st.DrawFn) -> FlowSpec:
    """Up to six nodes. Each may wait for earlier ones by an edge or for their fields; some are `for_each`, some conditional."""
    nodes: list[NodeSpec] = []
    for number in range(draw(st.integers(1, 6))):
        after: list[Dependency] = []
        for before in nodes:
            how = draw(st.sampled_from(["none", "none", "edge", "field", "both"]))
            fields = before.writes if how in ("field", "both") else ()
            if how != "none":
                after.append(Dependency(id=before.id, edge=how != "field", fields=fields))
        reads = tuple(name for one in after for name in one.fields)
        each = None
        if draw(st.booleans()):
            each = ForEach(
                source="$.items",
                concurrency=draw(st.sampled_from([AUTO, 1, 2])),
                max_failures=MaxFailures(draw(st.integers(0, 2))),
            )
        when = draw(st.sampled_from(["", "", "", "length($.items) > 2", "length($.items) > 3"]))
        nodes.append(node(f"n{number}", *after, reads=reads, for_each=each, when=when))
    return flow(*nodes, concurrency=draw(st.sampled_from([AUTO, 1, 2])))


def answer_to(unit: NextUnit) -> dict[str, Any]:
    """An answer that has everything that the unit sees."""
    return {"unit": unit.id, "saw": unit.state, "item": unit.item}


def sequential(spec: FlowSpec, failing: frozenset[str]) -> tuple[dict[str, Any], set[str]]:
    """The model: nodes one by one in the order of the flow, with plain dictionaries."""
    state: dict[str, Any] = {"items": ITEMS}
    outcome: dict[str, str] = {}
    executed: set[str] = set()
    for one in spec.nodes.values():
        for before in one.after:
            end = outcome[before.id]
            if end == "success" or (
                end == "condition" and not before.edge and all(name in state for name in before.fields)
            ):
                continue
            outcome[one.id] = "condition" if end == "condition" else "skipped"
            break
        else:
            if one.when and not len(ITEMS) > int(one.when[-1]):
                outcome[one.id] = "condition"
                continue
            seen = {name: state[name] for name in one.reads if name in state}
            units = (
                [(one.id, None)]
                if one.for_each is None
                else [(f"{one.id}[{n}]", item) for n, item in enumerate(ITEMS)]
            )
            executed |= {unit for unit, _ in units}
            good = [{"unit": unit, "saw": seen, "item": item} for unit, item in units if unit not in failing]
            tolerated = 0 if one.for_each is None else one.for_each.max_failures.count
            if len(units) - len(good) > tolerated:
                outcome[one.id] = "failed"
                continue
            outcome[one.id] = "success"
            [field] = one.writes
            state[field] = good[0] if one.for_each is None else good
    return state, executed


@settings(max_examples=300, deadline=None)
@given(flows(), st.data())
def test_any_order_of_ends_and_any_resume_gives_the_result_of_the_sequential_model(
    spec: FlowSpec, data: st.DataObject
) -> None:
    ids = [
        one.id if one.for_each is None else f"{one.id}[{n}]" for one in spec.nodes.values() for n in range(3)
    ]
    failing = data.draw(st.frozensets(st.sampled_from(ids), max_size=4))
    run = FlowRun(spec, {"items": ITEMS})
    recorded: dict[str, UnitEnd] = {}
    started: dict[str, NextUnit] = {}
    pending = list(run.advance())
    while pending:
        started |= {unit.id: unit for unit in pending}
        unit = pending.pop(data.draw(st.integers(0, len(pending) - 1)))
        assert unit.id not in recorded
        end = UnitEnd(error="broke") if unit.id in failing else UnitEnd(answer=answer_to(unit))
        recorded[unit.id] = end
        pending += run.advance({unit.id: end})
        if data.draw(st.integers(0, 4)) == 0:  # Killed, and resumed with what was recorded.
            run = FlowRun(spec, {"items": ITEMS})
            again = run.advance(dict(data.draw(st.permutations(list(recorded.items())))))
            assert {one.id for one in again} >= {one.id for one in pending}
            assert all(started[one.id] == one for one in again if one.id in started)
            pending = again
    state, executed = sequential(spec, failing)
    assert run.state() == state
    assert set(recorded) == executed
    assert run.status in ("success", "partial", "failed")
