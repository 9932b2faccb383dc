"""A run of a flow in memory: what starts when, and how it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headway.flows.running.flow_run import FlowRun
from headway.flows.running.node_run import UnitEnd
from headway.flows.spec import (
    AUTO,
    Dependency,
    FlowSpec,
    ForEach,
    LoopSpec,
    MaxFailures,
    NodeSpec,
    OnError,
    PipelineSpec,
    StateField,
)


def node(name: str, *after: str | Dependency, **fields: Any) -> NodeSpec:
    deps = tuple(one if isinstance(one, Dependency) else Dependency(id=one, edge=True) for one in after)
    fields.setdefault("writes", (f"{name}_out",))
    return NodeSpec(id=name, kind=fields.pop("kind", "tool"), after=deps, **fields)


def flow(*nodes: NodeSpec, concurrency: int = AUTO, **more: Any) -> FlowSpec:
    fields = {
        name: StateField(name=name, merge="array_append" if one.for_each else "last_wins")
        for one in nodes
        for name in one.writes
    }
    fields |= more.pop("fields", {})
    order = more.pop("order", tuple(one.id for one in nodes))
    return FlowSpec(
        name="f", path=Path("f.yaml"), concurrency=concurrency, fields=fields,
        nodes={one.id: one for one in nodes}, step_order=order, **more,
    )  # fmt: skip


def good(answer: Any = 1, cost_usd: float = 0.0) -> UnitEnd:
    return UnitEnd(answer=answer, cost_usd=cost_usd)


BAD = UnitEnd(error="it broke")


def ids(units: list[Any]) -> list[str]:
    return [unit.id for unit in units]


def test_a_node_starts_when_its_own_predecessors_have_ended() -> None:
    run = FlowRun(flow(node("slow"), node("quick"), node("after_quick", "quick")), {})
    assert ids(run.advance()) == ["slow", "quick"]
    assert ids(run.advance({"quick": good()})) == ["after_quick"]
    run.advance({"after_quick": good(), "slow": good(2)})
    assert (run.status, run.state()) == ("success", {"slow_out": 2, "quick_out": 1, "after_quick_out": 1})


def test_runtime_concurrency_counts_nodes() -> None:
    run = FlowRun(flow(node("a"), node("b"), node("c"), concurrency=1), {})
    assert ids(run.advance()) == ["a"]
    assert ids(run.advance({"a": good()})) == ["b"]
    assert ids(FlowRun(run.spec, {}, concurrency=2).advance()) == ["a", "b"]


def test_a_unit_sees_its_reads_its_args_its_item_and_its_index() -> None:
    each = ForEach(source="$.names", concurrency=2)
    run = FlowRun(
        flow(node("greet", for_each=each, reads=("tone",), args={"n": 1})),
        {"names": ["A", "B", "C"], "tone": "dry"},
    )
    first, second = run.advance()
    assert (first.id, first.state, first.args, first.item, first.index) == (
        "greet[0]",
        {"tone": "dry"},
        {"n": 1},
        "A",
        0,
    )
    assert second.item == "B"
    assert ids(run.advance({"greet[1]": good("b")})) == ["greet[2]"]
    run.advance({"greet[2]": good("c"), "greet[0]": good("a")})
    assert run.state()["greet_out"] == ["a", "b", "c"]


def test_an_empty_source_is_success_and_a_missing_one_an_error() -> None:
    spec = flow(node("a", for_each=ForEach(source="$.xs")), node("b", "a"))
    run = FlowRun(spec, {"xs": []})
    assert ids(run.advance()) == ["b"]
    assert run.state()["a_out"] == []
    for inputs, why in (({}, "is missing"), ({"xs": 3}, "is not a list")):
        broken = FlowRun(spec, inputs)
        assert broken.advance() == []
        assert why in broken.nodes()["a"].reason
        assert (broken.nodes()["b"].status, broken.status) == ("skipped", "failed")


def test_failures_within_the_tolerance_are_success() -> None:
    each = ForEach(source="$.xs", concurrency=AUTO, max_failures=MaxFailures(percent=50))
    run = FlowRun(flow(node("a", for_each=each), node("b", "a")), {"xs": [1, 2]})
    run.advance()
    assert ids(run.advance({"a[0]": BAD, "a[1]": good("x")})) == ["b"]
    assert (run.nodes()["a"].status, run.nodes()["a"].failed, run.state()["a_out"]) == ("success", 1, ["x"])


def test_failures_outside_the_tolerance_skip_what_follows_and_write_nothing() -> None:
    each = ForEach(source="$.xs", concurrency=AUTO)
    run = FlowRun(flow(node("a", for_each=each), node("b", "a"), node("c", "b"), node("d")), {"xs": [1, 2]})
    run.advance()
    assert run.advance({"a[0]": BAD, "a[1]": good("x"), "d": good()}) == []
    reports = run.nodes()
    assert reports["a"].reason == "1 of 2 iterations failed: it broke"
    assert (reports["b"].reason, reports["c"].reason) == ("a failed", "b was skipped")
    assert (run.status, run.state().get("a_out")) == ("partial", None)


def test_fail_run_starts_nothing_more_and_what_is_in_flight_finishes() -> None:
    run = FlowRun(flow(node("a", on_error=OnError(policy="fail_run")), node("b"), node("c", "b")), {})
    run.advance()
    assert run.advance({"a": BAD}) == []
    assert run.status == "running"
    assert run.advance({"b": good()}) == []
    assert (run.status, run.stopped) == ("failed", "a failed: it broke")
    assert run.state() == {"b_out": 1}


def test_conditions_skip_and_a_join_needs_one_branch() -> None:
    reads = [Dependency(id=name, fields=("text",)) for name in ("short", "long")]
    spec = flow(
        node("short", when="$.n < 5", writes=("text",)), node("long", when="$.n >= 5", writes=("text",)),
        node("join", *reads, reads=("text",)),
    )  # fmt: skip
    run = FlowRun(spec, {"n": 7})
    assert ids(run.advance()) == ["long"]
    [join] = run.advance({"long": good("…")})
    assert join.state == {"text": "…"}
    run.advance({"join": good()})
    assert run.status == "success"
    assert run.nodes()["short"].reason == "its condition is false: $.n < 5"


def test_last_wins_follows_the_order_of_the_flow_not_of_the_ends() -> None:
    for order in (("a", "b"), ("b", "a")):
        run = FlowRun(flow(node("a", writes=("x",)), node("b", writes=("x",))), {})
        run.advance()
        for name in order:
            run.advance({name: good(name)})
        assert run.state() == {"x": "b"}


def test_a_set_once_conflict_names_both_writers() -> None:
    fields = {"x": StateField(name="x", merge="set_once")}
    run = FlowRun(flow(node("a", writes=("x",)), fields=fields), {"x": 1})
    run.advance()
    run.advance({"a": good(2)})
    assert run.nodes()["a"].reason == "'x' can be set once, but the input and a both write it"
    assert run.state() == {"x": 1}


def test_answers_must_have_the_shape_of_the_writes() -> None:
    run = FlowRun(flow(node("a", writes=("x", "y")), node("b", writes=("z",))), {})
    run.advance()
    run.advance({"a": good({"x": 1, "q": 2}), "b": good({"z": 5})})
    assert (
        run.nodes()["a"].reason == "a: the answer must have exactly the keys x, y; it is without y and with q"
    )
    assert run.state() == {"z": 5}


def test_stages_of_different_items_overlap_and_a_failure_ends_its_item() -> None:
    fields = {"done": StateField(name="done", merge="array_append")}
    pipeline = PipelineSpec(id="p", source="$.xs", stages=("first", "second"), concurrency=2)
    second = node("second", "first", reads=("first_out",), writes=("done",), group="p")
    spec = flow(node("first", group="p"), second, pipelines={"p": pipeline}, order=("p",), fields=fields)
    run = FlowRun(spec, {"xs": ["A", "B", "C"]})
    assert ids(run.advance()) == ["first#0", "first#1"]
    [unit] = run.advance({"first#1": good("b")})
    assert (unit.id, unit.state, unit.item) == ("second#1", {"first_out": "b"}, "B")
    assert ids(run.advance({"second#1": good("bb")})) == ["first#2"]
    run.advance({"first#0": BAD, "first#2": good("c")})
    run.advance({"second#2": good("cc")})
    assert (run.status, run.state()["done"]) == ("partial", ["bb", "cc"])


def test_a_loop_runs_until_its_condition_is_true() -> None:
    loop = LoopSpec(id="l", body=("improve", "check"), until="$.check_out >= 2", max_iters=9)
    check = node("check", "improve", reads=("improve_out",), group="l")
    spec = flow(node("improve", group="l"), check, node("end", "l"), loops={"l": loop}, order=("l", "end"))
    run = FlowRun(spec, {})
    for turn in range(2):
        assert ids(run.advance({f"check#{turn - 1}": good(turn)} if turn else {})) == [f"improve#{turn}"]
        assert ids(run.advance({f"improve#{turn}": good()})) == [f"check#{turn}"]
    assert ids(run.advance({"check#1": good(2)})) == ["end"]


def test_a_loop_stops_at_its_budget_and_at_a_failure() -> None:
    loop = LoopSpec(id="l", body=("a",), max_iters=9, budget_usd=1.0)
    spec = flow(node("a", group="l"), loops={"l": loop}, order=("l",))
    run = FlowRun(spec, {})
    run.advance()
    assert ids(run.advance({"a#0": good(cost_usd=0.6)})) == ["a#1"]
    assert run.advance({"a#1": good(cost_usd=0.6)}) == []
    assert run.status == "success"
    failing = FlowRun(spec, {})
    failing.advance()
    assert failing.advance({"a#0": BAD}) == []
    assert failing.status == "failed"


def test_a_human_node_holds_no_place() -> None:
    run = FlowRun(flow(node("ok", kind="human", writes=()), node("b"), node("c", "ok"), concurrency=1), {})
    assert ids(run.advance()) == ["ok", "b"]
    run.advance({"b": good()})
    assert (run.status, run.waiting) == ("waiting", ["ok"])
    assert ids(run.advance({"ok": good(None)})) == ["c"]


def test_a_resumed_run_takes_all_recorded_ends_at_once() -> None:
    spec = flow(node("a"), node("b", "a"), node("c", "b"), concurrency=1)
    assert ids(FlowRun(spec, {}).advance({"b": good(), "a": good()})) == ["c"]
