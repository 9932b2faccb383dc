"""`flow` nodes: a flow inside a flow, once, for each item, in pipelines and loops."""

from __future__ import annotations

from typing import Any

from tests.flows.running.steps.memory_run import BAD, Good, MemoryRun, flow, loop, node, pipeline

from headway.flows.spec import (
    AUTO,
    Dependency,
    FlowSpec,
    ForEach,
    MaxFailures,
    NodeSpec,
    OnError,
    StateField,
)

READ = Dependency(id="fetch", fields=("fetch_out",))


def inner(**more: Any) -> FlowSpec:
    """`fetch` reads `topic`; `write` reads what it wrote."""
    return flow(
        node("fetch", reads=("topic",)), node("write", READ, reads=("fetch_out",), writes=("text",)),
        inputs=("topic",), **more,
    )  # fmt: skip


def sub(*after: Dependency, **settings: Any) -> NodeSpec:
    settings.setdefault("inner", inner())
    settings.setdefault("reads", ("topic",))
    return node("sub", *after, kind="flow", writes=("text",), **settings)


def test_its_units_are_units_of_the_job_and_its_fields_become_fields_of_the_outer_state() -> None:
    run = MemoryRun(
        flow(sub(), node("end", Dependency(id="sub", fields=("text",)), reads=("text",))), {"topic": "trains"}
    )
    [fetch] = run.units()
    assert (fetch.id, fetch.node, fetch.state) == ("sub/fetch", "sub/fetch", {"topic": "trains"})
    assert run.advance({"sub/fetch": Good("facts")}) == ["sub/write"]
    [end] = run.units({"sub/write": Good("text", cost_usd=0.5)})
    assert (end.id, end.state) == ("end", {"text": "text"})
    run.advance({"end": Good()})
    assert run.state == {"topic": "trains", "text": "text", "end_out": 1}
    reports = run.run.nodes()
    assert list(reports) == ["sub", "sub/fetch", "sub/write", "end"]
    assert {report.status for report in reports.values()} == {"success"}
    assert (reports["sub"].cost_usd, reports["sub/write"].cost_usd, reports["sub"].units) == (0.5, 0.5, 1)


def test_args_are_inputs_too() -> None:
    run = MemoryRun(flow(sub(reads=(), args={"topic": "ships"})))
    [fetch] = run.units()
    assert fetch.state == {"topic": "ships"}


def test_a_missing_input_is_an_error_of_the_node() -> None:
    run = MemoryRun(flow(sub(reads=()), node("b")))
    assert run.advance() == ["b"]
    assert run.run.nodes()["sub"].reason == "its flow needs a value of topic: add it to reads or args"


def test_an_inner_run_that_is_no_success_is_a_failure_with_its_reason() -> None:
    run = MemoryRun(flow(sub(), node("end", "sub")), {"topic": 1})
    run.advance()
    assert run.advance({"sub/fetch": BAD}) == []
    reports = run.run.nodes()
    assert reports["sub"].reason == "fetch failed: it broke"
    assert (reports["sub/write"].status, reports["sub/write"].reason) == ("skipped", "fetch failed")
    assert reports["end"].reason == "sub failed"
    assert run.run.status == "failed"


def test_for_each_runs_the_flow_for_each_item() -> None:
    """The item and the index are inputs, if the inner flow has such fields."""
    item = StateField(name="item")
    one = flow(node("fetch", reads=("item", "index")), fields={"item": item, "index": item})
    each = ForEach(items=("x", "y", "z"), concurrency=2)
    run = MemoryRun(flow(node("sub", kind="flow", inner=one, writes=("fetch_out",), for_each=each)))
    first, second = run.units()
    assert (first.id, first.state) == ("sub[0]/fetch", {"item": "x", "index": 0})
    assert second.id == "sub[1]/fetch"
    assert run.advance({"sub[1]/fetch": Good("b")}) == ["sub[2]/fetch"]
    run.advance({"sub[2]/fetch": Good("c"), "sub[0]/fetch": Good("a")})
    assert run.state == {"fetch_out": ["a", "b", "c"]}
    assert run.run.nodes()["sub/fetch"].units == 3


def test_tolerated_failures_of_flows_stay_ended_and_others_run_again() -> None:
    each = ForEach(items=(1, 2), concurrency=AUTO, max_failures=MaxFailures(count=1))
    for tolerance, stays in ((1, True), (0, False)):
        spec = flow(
            sub(for_each=ForEach(items=(1, 2), concurrency=AUTO, max_failures=MaxFailures(count=tolerance)))
        )
        run = MemoryRun(spec, {"topic": 1})
        run.advance()
        run.advance({"sub[0]/fetch": BAD, "sub[1]/fetch": Good()})
        run.advance({"sub[1]/write": Good()})
        assert run.run.stays_ended("sub[0]/fetch") is stays
    deep = flow(sub(inner=flow(node("fetch", for_each=each), node("b", writes=("text",)))))
    run = MemoryRun(deep, {"topic": 1})
    run.advance()
    run.advance({"sub/fetch[0]": BAD, "sub/fetch[1]": Good(), "sub/b": BAD})
    assert run.run.nodes()["sub"].status == "failed"
    assert run.run.stays_ended("sub/fetch[0]")
    assert not run.run.stays_ended("sub/b")


def test_a_flow_inside_a_pipeline_and_inside_a_loop() -> None:
    one = node("sub", kind="flow", inner=inner(), reads=("topic",), writes=("text",), group="g")
    texts = {"text": StateField(name="text", merge="array_append")}
    piped = MemoryRun(
        flow(one, pipelines=pipeline("g", "sub", items=(1, 2), concurrency=2), fields=texts), {"topic": 1}
    )
    assert piped.advance() == ["sub#0/fetch", "sub#1/fetch"]
    assert piped.advance({"sub#1/fetch": Good()}) == ["sub#1/write"]
    piped.advance({"sub#1/write": Good("second"), "sub#0/fetch": Good()})
    piped.advance({"sub#0/write": Good("first")})
    assert (piped.run.status, piped.state["text"]) == ("success", ["first", "second"])
    looped = MemoryRun(
        flow(one, loops=loop("g", "sub", max_iters=2, budget_usd=1.0), fields=texts), {"topic": 1}
    )
    looped.advance()
    looped.advance({"sub#0/fetch": Good(cost_usd=2.0)})
    assert looped.advance({"sub#0/write": Good("once")}) == []
    assert (looped.run.status, looped.state["text"]) == ("success", ["once"])


def test_the_concurrency_of_an_inner_flow_is_that_of_its_file() -> None:
    spec = flow(node("sub", kind="flow", inner=flow(node("a"), node("b"), concurrency=1), writes=("a_out",)))
    run = MemoryRun(spec, concurrency=5)
    assert run.advance() == ["sub/a"]
    assert run.advance({"sub/a": Good()}) == ["sub/b"]


def test_fail_run_inside_stops_the_inner_run_only() -> None:
    stopping = flow(node("a", on_error=OnError(policy="fail_run")), node("b"), node("c", "b"))
    run = MemoryRun(
        flow(node("sub", kind="flow", inner=stopping, writes=("a_out",)), node("d", "sub"), node("e"))
    )
    assert sorted(run.advance()) == ["e", "sub/a", "sub/b"]
    assert run.advance({"sub/a": BAD}) == []
    assert run.run.nodes()["sub"].status == "running"
    assert run.advance({"sub/b": Good()}) == []
    reports = run.run.nodes()
    assert (reports["sub"].reason, reports["d"].reason) == ("a failed: it broke", "sub failed")
    run.advance({"e": Good()})
    assert (run.run.status, run.run.stopped) == ("partial", "")


def test_a_fail_run_of_the_outer_flow_stops_inner_flows() -> None:
    run = MemoryRun(flow(node("a", on_error=OnError(policy="fail_run")), sub()), {"topic": 1})
    run.advance()
    run.advance({"a": BAD})
    assert run.advance({"sub/fetch": Good()}) == []
    assert run.run.status == "failed"


def test_a_resumed_run_goes_on_inside() -> None:
    each = ForEach(items=(1, 2, 3), concurrency=1)
    run = MemoryRun(flow(sub(for_each=each)), {"topic": 1})
    for unit in ("sub[0]/fetch", "sub[0]/write", "sub[1]/fetch"):
        run.recorded(unit, Good(unit))
    for order in (list(run.ends), list(reversed(run.ends))):
        assert run.resumed({unit: run.ends[unit] for unit in order}) == ["sub[1]/write"]


def test_a_list_of_an_inner_flow_is_a_source() -> None:
    each = ForEach(items=("x", "y"), concurrency=AUTO)
    one = flow(node("a", for_each=each))
    spec = flow(
        node("sub", kind="flow", inner=one, writes=("a_out",)),
        node("b", Dependency(id="sub", fields=("a_out",)), for_each=ForEach(source="$.a_out", concurrency=AUTO)),
    )  # fmt: skip
    run = MemoryRun(spec)
    run.advance()
    assert [unit.item for unit in run.units({"sub/a[0]": Good("X"), "sub/a[1]": Good("Y")})] == ["X", "Y"]
    assert run.state["a_out"] == ["X", "Y"]


def test_flows_inside_flows_inside_flows() -> None:
    deepest = flow(node("x"))
    middle = flow(node("m", kind="flow", inner=deepest, writes=("x_out",)))
    run = MemoryRun(
        flow(
            node(
                "t",
                kind="flow",
                inner=middle,
                writes=("x_out",),
                for_each=ForEach(items=(1, 2), concurrency=2),
            )
        )
    )
    assert run.advance() == ["t[0]/m/x", "t[1]/m/x"]
    run.advance({"t[0]/m/x": Good(1), "t[1]/m/x": Good(2)})
    assert (run.run.status, run.state) == ("success", {"x_out": [1, 2]})
    assert run.run.nodes()["t/m/x"].succeeded == 2
