"""The forecast of a flow: the real run of the flow in virtual time, against assumed providers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headway.core.model import LaneLimits, LaneSpec, Price
from headway.flows.running.flow_form import nodes_of
from headway.flows.spec import AUTO, Dependency, FlowSpec, ForEach, LoopSpec, NodeSpec, PipelineSpec
from headway.forecast.answer_model import model_of
from headway.forecast.figures import LaneKnowledge
from headway.forecast.flow_figures import FlowForecast, FlowSurvey, NodeKnowledge
from headway.forecast.flow_forecast import forecast_flow
from headway.forecast.flow_trial import MOST
from headway.forecast.list_sizes import list_sizes
from headway.stores.records import ProgramRun, UsageSample

UTC = 1_000_000.0
#: Every request: 100 tokens in, 50 out, half a second, $0.0007.
SEEN = model_of([UsageSample(400, 0, 100, 50, 0, 0.5)] * 100)
PRICE = Price(2.0, 10.0)
LANES = {
    "llm": LaneKnowledge(LaneSpec("llm", LaneLimits(rpm=600, burst_s=1.0)), "x/m", "openai"),
    "tools": LaneKnowledge(LaneSpec("tools", LaneLimits(max_concurrency=16)), "tool:t", "python"),
}
AGENT = NodeKnowledge("llm", "x/m", answer_model=SEEN, price=PRICE, chars=400, learned_from=100)
TOOL = NodeKnowledge("tools", "tool:t", program=True, tool=True, runs=[ProgramRun(2.0, None)] * 9, learned_from=9)  # fmt: skip


def node(name: str, *after: str, each: int | None = None, group: str = "", kind: str = "tool") -> NodeSpec:
    return NodeSpec(
        id=name,
        kind=kind,  # type: ignore[arg-type]
        for_each=None if each is None else ForEach(items=tuple(range(each)), concurrency=AUTO),
        group=group,
        after=tuple(Dependency(id=one, edge=True) for one in after),
    )


def flow(*nodes: NodeSpec, concurrency: int = AUTO, steps: tuple[str, ...] = (), **groups: object) -> FlowSpec:  # fmt: skip
    names = steps or tuple(one.id for one in nodes)
    return msgspec.structs.replace(
        FlowSpec(name="f", path=Path("f.yaml"), concurrency=concurrency, step_order=names),
        nodes={one.id: one for one in nodes},
        **groups,
    )


def forecast(spec: FlowSpec, *agents: str, done: frozenset[str] = frozenset()) -> FlowForecast:
    nodes = {one.path: AGENT if one.path in agents else TOOL for one in nodes_of(spec)}
    sizes = list_sizes(spec, {}, {}, lambda path: None)
    return forecast_flow(FlowSurvey(spec, nodes, sizes, LANES, done=done), UTC)


def test_each_node_has_its_units_tokens_cost_and_time() -> None:
    found = forecast(flow(node("load"), node("ask", "load", each=100), node("end", "ask")), "ask")
    ask = found.nodes["ask"]
    assert (found.units, ask.units, ask.critical) == (102, 100, True)
    assert ask.input_tokens.estimate == pytest.approx(10_000)
    assert ask.output_tokens.estimate == pytest.approx(5_000)
    assert ask.cost_usd is not None
    assert found.cost_usd is not None
    assert ask.cost_usd.estimate == found.cost_usd.estimate == pytest.approx(0.07)
    assert ask.start_s == pytest.approx(2.0)
    # Ten a second, ten at once at the start.
    assert ask.time_s.estimate == pytest.approx(9.5, rel=0.1)
    assert found.time_s.estimate == pytest.approx(2.0 + 9.5 + 2.0, rel=0.1)
    assert found.time_s.low < found.time_s.estimate < found.time_s.high
    assert found.path == ["load", "ask", "end"]


def test_a_branch_beside_the_critical_path_takes_no_time() -> None:
    found = forecast(flow(node("a", each=48), node("b"), node("end", "a", "b")), "b")
    assert found.path == ["a", "end"]
    assert not found.nodes["b"].critical
    assert found.time_s.estimate == pytest.approx(6.0 + 2.0)


def test_the_work_grows_with_the_nodes_and_not_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    members, calls = FlowSpec.members, 0

    def counted(spec: FlowSpec, step_id: str) -> tuple[str, ...]:
        nonlocal calls
        calls += 1
        return members(spec, step_id)

    monkeypatch.setattr(FlowSpec, "members", counted)
    forecast(flow(*(node(f"n{n}") for n in range(200))))
    assert 0 < calls < 200 * 50


def test_one_node_at_a_time_is_noted() -> None:
    found = forecast(flow(node("a"), node("b"), concurrency=1))
    assert found.time_s.estimate == pytest.approx(4.0)
    assert any(note.startswith("one node at a time runs (runtime.concurrency)") for note in found.notes)


def test_agents_that_write_into_one_directory_work_one_at_a_time() -> None:
    spec = flow(node("a", each=3), node("b"))
    agent = msgspec.structs.replace(TOOL, tool=False, exclusive=1)
    sizes = list_sizes(spec, {}, {}, lambda path: None)
    found = forecast_flow(FlowSurvey(spec, {"a": agent, "b": agent}, sizes, LANES), UTC)
    assert found.time_s.estimate == pytest.approx(8.0)


def test_pipelines_loops_and_inner_flows() -> None:
    inner = flow(node("x"), node("y", "x", each=3))
    spec = flow(
        node("s1", group="pipe"),
        node("s2", "s1", group="pipe"),
        node("body", group="loop"),
        msgspec.structs.replace(node("sub", each=2, kind="flow"), inner=inner),
        steps=("pipe", "loop", "sub"),
        pipelines={"pipe": PipelineSpec(id="pipe", items=(1, 2, 3, 4), stages=("s1", "s2"), concurrency=1)},
        loops={"loop": LoopSpec(id="loop", body=("body",), max_iters=5)},
    )
    found = forecast(spec)
    assert {path: one.units for path, one in found.nodes.items()} == {
        "s1": 4,
        "s2": 4,
        "body": 5,
        "sub/x": 2,
        "sub/y": 6,
    }
    assert found.path == ["pipe"]
    assert found.time_s.estimate == pytest.approx(16.0, rel=0.01)


def test_the_units_that_have_ended_are_left_out() -> None:
    spec = flow(node("load"), node("ask", "load", each=100))
    done = frozenset(["load", *(f"ask[{n}]" for n in range(60))])
    found = forecast(spec, "ask", done=done)
    assert (found.units, found.nodes["ask"].units) == (40, 40)
    assert found.nodes["ask"].input_tokens.estimate == pytest.approx(4_000)


def test_of_a_long_list_a_part_is_simulated() -> None:
    size = 20 * MOST
    found = forecast(flow(node("ask", each=size)), "ask")
    assert found.units == size
    assert found.simulated <= MOST
    assert found.input_tokens.estimate == pytest.approx(100 * size, rel=0.01)
    assert found.time_s.estimate == pytest.approx(size / 10.0, rel=0.02)
