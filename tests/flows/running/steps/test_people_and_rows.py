"""`human` nodes wait and hold nothing; `dataset` nodes end at once with a list that is read when it is needed."""

from __future__ import annotations

from tests.flows.running.steps.memory_run import BAD, Good, MemoryRun, flow, loop, node, pipeline

from headway.flows.lazy_list import LazyList
from headway.flows.spec import AUTO, Dependency, ForEach

ROWS = {"data": [{"n": n} for n in range(1_000)]}


def test_a_human_node_is_not_handed_out_and_holds_no_place() -> None:
    run = MemoryRun(flow(node("ok", kind="human"), node("b"), node("c", "ok"), concurrency=1))
    assert run.advance() == ["b"]
    assert run.run.waiting == ["ok"]
    run.advance({"b": Good()})
    assert (run.run.status, run.run.nodes()["ok"].status) == ("waiting", "waiting")
    assert run.advance({"ok": Good("fine")}) == ["c"]
    assert (run.run.waiting, run.state["ok_out"]) == ([], "fine")


def test_a_human_node_asks_with_what_it_sees() -> None:
    run = MemoryRun(flow(node("ok", kind="human", reads=("x",), args={"n": 1})), {"x": 5})
    run.advance()
    [asked] = run.run.asked()
    assert (asked.id, asked.node, asked.state, asked.args) == ("ok", "ok", {"x": 5}, {"n": 1})


def test_a_rejection_is_a_failure() -> None:
    run = MemoryRun(flow(node("ok", kind="human"), node("c", "ok")))
    run.advance()
    assert run.advance({"ok": BAD}) == []
    assert (run.run.nodes()["c"].reason, run.run.status) == ("ok failed", "failed")


def test_items_that_wait_for_people_hold_no_place_in_their_pipeline() -> None:
    spec = flow(
        node("draft", group="p"), node("ok", "draft", kind="human", group="p"), node("send", "ok", group="p"), node("other"),
        pipelines=pipeline("p", "draft", "ok", "send", items=(1, 2, 3), concurrency=1), concurrency=1,
    )  # fmt: skip
    run = MemoryRun(spec)
    assert run.advance() == ["draft#0"]
    assert run.advance({"draft#0": Good()}) == ["draft#1"]
    assert run.advance({"draft#1": Good()}) == ["draft#2"]
    assert run.advance({"draft#2": Good()}) == [
        "other"
    ]  # All items wait, so the pipeline holds no place either.
    run.advance({"other": Good()})
    assert (run.run.status, run.run.waiting) == ("waiting", ["ok#0", "ok#1", "ok#2"])
    statuses = {path: report.status for path, report in run.run.nodes().items()}
    assert statuses == {"draft": "success", "ok": "waiting", "send": "pending", "other": "success"}
    assert run.advance({"ok#1": Good()}) == ["send#1"]
    assert run.run.status == "running"


def test_a_loop_waits_for_people() -> None:
    spec = flow(
        node("a", group="l"), node("ok", "a", kind="human", group="l"), node("other"),
        loops=loop("l", "a", "ok", until="$.ok_out == 'enough'"), concurrency=1,
    )  # fmt: skip
    run = MemoryRun(spec)
    assert run.advance() == ["a#0"]
    assert run.advance({"a#0": Good()}) == ["other"]
    assert run.advance({"ok#0": Good("more")}) == ["a#1"]


def test_an_inner_flow_that_waits_for_people_holds_no_place() -> None:
    inner = flow(node("a"), node("ok", "a", kind="human"))
    sub = node(
        "sub", kind="flow", inner=inner, writes=("ok_out",), for_each=ForEach(items=(1, 2), concurrency=1)
    )
    run = MemoryRun(flow(sub, node("b"), concurrency=1))
    assert run.advance() == ["sub[0]/a"]
    assert run.advance({"sub[0]/a": Good()}) == ["sub[1]/a"]
    assert run.advance({"sub[1]/a": Good()}) == ["b"]
    assert run.run.waiting == ["sub[0]/ok", "sub[1]/ok"]
    assert run.run.nodes()["sub"].status == "waiting"
    run.advance({"b": Good()})
    run.advance({"sub[1]/ok": Good("two")})
    run.advance({"sub[0]/ok": Good("one")})
    assert (run.run.status, run.state["ok_out"]) == ("success", ["one", "two"])


def test_an_approval_that_comes_before_its_turn_waits() -> None:
    run = MemoryRun(flow(node("a"), node("ok", "a", kind="human"), node("c", "ok")))
    run.advance({"ok": Good()})
    assert run.advance({"a": Good()}) == ["c"]


def test_a_data_set_ends_at_once_with_a_lazy_list() -> None:
    data = node("data", kind="dataset", writes=("rows",))
    each = node(
        "a", Dependency(id="data", fields=("rows",)), for_each=ForEach(source="$.rows", concurrency=3)
    )
    run = MemoryRun(flow(data, each, concurrency=1), rows=ROWS)
    assert [unit.item for unit in run.units()] == [{"n": 0}, {"n": 1}, {"n": 2}]
    rows = run.run.state()["rows"]
    assert isinstance(rows, LazyList)
    assert (len(rows), rows[999], rows[-1], rows == ROWS["data"]) == (1_000, {"n": 999}, {"n": 999}, True)
    report = run.run.nodes()["data"]
    assert (report.status, report.units) == ("success", 0)


def test_a_data_set_needs_no_place() -> None:
    run = MemoryRun(flow(node("a"), node("data", kind="dataset"), concurrency=1), rows=ROWS)
    assert run.advance() == ["a"]
    assert run.run.nodes()["data"].status == "success"


def test_conditions_read_data_sets() -> None:
    data = node("data", kind="dataset", writes=("rows",))
    read = Dependency(id="data", fields=("rows",))
    big = node("big", read, when="length($.rows) > 999 && $.rows[0].n == 0")
    run = MemoryRun(flow(data, big, node("small", read, when="length($.rows) < 5")), rows=ROWS)
    assert run.advance() == ["big"]


def test_the_rows_of_a_data_set_of_an_inner_flow_are_found_by_its_path() -> None:
    inner = flow(
        node("data", kind="dataset", writes=("rows",)),
        node(
            "a", Dependency(id="data", fields=("rows",)), for_each=ForEach(source="$.rows", concurrency=AUTO)
        ),
    )
    sub = node(
        "sub", kind="flow", inner=inner, writes=("a_out",), for_each=ForEach(items=(1, 2), concurrency=1)
    )
    run = MemoryRun(flow(sub), rows={"sub/data": ["x", "y"]})
    assert [(unit.id, unit.item) for unit in run.units()] == [("sub[0]/a[0]", "x"), ("sub[0]/a[1]", "y")]


def test_a_pipeline_takes_the_rows_of_a_data_set() -> None:
    data = node("data", kind="dataset", writes=("xs",))
    spec = flow(
        data,
        node("a", group="p"),
        pipelines=pipeline("p", "a", concurrency=2, after=(Dependency(id="data", fields=("xs",)),)),
    )
    run = MemoryRun(spec, rows={"data": ["x", "y", "z"]})
    assert [(unit.id, unit.item) for unit in run.units()] == [("a#0", "x"), ("a#1", "y")]
