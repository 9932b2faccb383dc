"""What starts when, what is skipped, and how a run ends."""

from __future__ import annotations

import pytest
from tests.flows.running.steps.memory_run import BAD, Good, MemoryRun, flow, node

from headway.flows.spec import Dependency, ForEach, OnError


def test_a_node_starts_when_its_own_predecessors_have_ended() -> None:
    run = MemoryRun(flow(node("slow"), node("quick"), node("after_quick", "quick")))
    assert run.advance() == ["slow", "quick"]
    assert run.advance({"quick": Good()}) == ["after_quick"]
    run.advance({"after_quick": Good(), "slow": Good(2)})
    assert (run.run.status, run.state) == ("success", {"slow_out": 2, "quick_out": 1, "after_quick_out": 1})


def test_runtime_concurrency_counts_nodes() -> None:
    spec = flow(node("a"), node("b"), node("c"), concurrency=1)
    run = MemoryRun(spec)
    assert run.advance() == ["a"]
    assert run.advance({"a": Good()}) == ["b"]
    assert MemoryRun(spec, concurrency=2).advance() == ["a", "b"]


def test_runtime_concurrency_does_not_count_iterations() -> None:
    each = ForEach(items=("x", "y", "z"), concurrency=3)
    assert MemoryRun(flow(node("a", for_each=each), node("b"), concurrency=1)).advance() == [
        "a[0]",
        "a[1]",
        "a[2]",
    ]


def test_conditions_skip_and_a_join_needs_one_branch() -> None:
    reads = [Dependency(id=name, fields=("text",)) for name in ("short", "long")]
    spec = flow(
        node("short", when="$.n < 5", writes=("text",)), node("long", when="$.n >= 5", writes=("text",)),
        node("join", *reads, reads=("text",)),
    )  # fmt: skip
    run = MemoryRun(spec, {"n": 7})
    assert run.advance() == ["long"]
    [join] = run.units({"long": Good("…")})
    assert join.state == {"text": "…"}
    run.advance({"join": Good()})
    assert run.run.status == "success"
    assert run.run.nodes()["short"].reason == "its condition is false: $.n < 5"


def test_the_condition_of_an_edge_skips_what_follows_with_its_reason() -> None:
    edge = Dependency(id="a", edge=True, when="$.a_out > 3")
    run = MemoryRun(flow(node("a"), node("b", edge), node("c", "b")))
    run.advance()
    assert run.advance({"a": Good(1)}) == []
    reports = run.run.nodes()
    assert reports["b"].reason == "the condition of the edge from a is false: $.a_out > 3"
    assert reports["c"].reason == "b was skipped"
    assert run.run.status == "success"


def test_skips_cascade_with_the_reason() -> None:
    run = MemoryRun(flow(node("a"), node("b", "a"), node("c", "b"), node("d")))
    run.advance()
    run.advance({"a": BAD, "d": Good()})
    reports = run.run.nodes()
    assert [reports[name].status for name in "abcd"] == ["failed", "skipped", "skipped", "success"]
    assert (reports["b"].reason, reports["c"].reason) == ("a failed", "b was skipped")
    assert run.run.status == "partial"


def test_a_reader_of_what_a_failed_node_writes_is_skipped_although_the_field_has_a_value() -> None:
    read = Dependency(id="a", fields=("x",))
    run = MemoryRun(flow(node("a", writes=("x",)), node("b", read, reads=("x",))), {"x": 1})
    run.advance()
    run.advance({"a": BAD})
    assert run.run.nodes()["b"].reason == "a failed"


@pytest.mark.parametrize(("bad", "status"), [((), "success"), (("a",), "partial"), (("a", "b"), "failed")])
@pytest.mark.parametrize("concurrency", [0, 1, 2])
def test_the_status_is_the_same_for_every_concurrency(
    bad: tuple[str, ...], status: str, concurrency: int
) -> None:
    run = MemoryRun(flow(node("a"), node("b"), concurrency=concurrency))
    pending = run.advance()
    while pending:
        name = pending.pop()
        pending += run.advance({name: BAD if name in bad else Good()})
    assert run.run.status == status


def test_a_run_in_which_only_conditions_skip_is_a_success() -> None:
    run = MemoryRun(flow(node("a", when="$.n > 5"), node("b", "a")), {"n": 1})
    assert run.advance() == []
    assert run.run.status == "success"


def test_fail_run_starts_nothing_more_and_what_is_in_flight_finishes() -> None:
    run = MemoryRun(flow(node("a", on_error=OnError(policy="fail_run")), node("b"), node("c", "b")))
    run.advance()
    assert run.advance({"a": BAD}) == []
    assert run.run.status == "running"
    assert run.advance({"b": Good()}) == []
    assert (run.run.status, run.run.stopped) == ("failed", "a failed: it broke")
    assert run.state == {"b_out": 1}
    report = run.run.nodes()["c"]
    assert (report.status, report.reason) == ("skipped", "the run was stopped: a failed: it broke")


def test_after_fail_run_no_iteration_and_no_item_starts() -> None:
    each = ForEach(items=(1, 2, 3), concurrency=1)
    run = MemoryRun(flow(node("a", on_error=OnError(policy="fail_run")), node("b", for_each=each)))
    assert run.advance() == ["a", "b[0]"]
    assert run.advance({"a": BAD}) == []
    assert run.advance({"b[0]": Good()}) == []
    assert run.run.status == "failed"


def test_a_stopped_run_goes_on_when_it_is_resumed() -> None:
    run = MemoryRun(flow(node("a", on_error=OnError(policy="fail_run")), node("b"), node("c", "b")))
    run.advance()
    run.advance({"a": BAD, "b": Good()})
    del run.ends["a"]
    assert run.resumed() == ["a", "c"]


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a")])
def test_a_stopped_run_that_is_rebuilt_knows_what_had_ended(order: tuple[str, ...]) -> None:
    """Whatever the order of its ends: `c` had started before `a` failed."""
    run = MemoryRun(
        flow(node("a", on_error=OnError(policy="fail_run")), node("b"), node("c", "b"), node("d", "c"))
    )
    run.advance()
    run.advance({"b": Good("b")})
    run.advance({"a": BAD})
    run.advance({"c": Good("c")})
    assert run.resumed({unit: run.ends[unit] for unit in order}) == []
    assert (run.state, run.run.status) == ({"b_out": "b", "c_out": "c"}, "failed")


def test_an_exhausted_retry_acts_as_skip() -> None:
    run = MemoryRun(flow(node("a", on_error=OnError(policy="retry", attempts=3)), node("b", "a"), node("c")))
    run.advance()
    run.advance({"a": BAD, "c": Good()})
    assert (run.run.nodes()["b"].status, run.run.status) == ("skipped", "partial")


def test_a_resumed_run_takes_all_recorded_ends_at_once() -> None:
    run = MemoryRun(flow(node("a"), node("b", "a"), node("c", "b"), concurrency=1))
    run.recorded("a", Good())
    run.recorded("b", Good())
    assert run.resumed({unit: run.ends[unit] for unit in ("b", "a")}) == ["c"]


def test_steps_whose_units_are_recorded_wait_for_a_place() -> None:
    """`b` began before `a` became ready; a run that is resumed knows both at once, and one of them goes on."""
    each = ForEach(items=(1, 2), concurrency=2)
    run = MemoryRun(flow(node("a"), node("b", for_each=each), concurrency=1))
    run.recorded("b[1]", Good())
    assert run.resumed() == ["a"]
    assert run.advance({"a": Good()}) == ["b[0]"]


def test_ends_that_are_known_or_of_unknown_units_change_nothing() -> None:
    run = MemoryRun(flow(node("a"), node("b", "a")))
    run.advance()
    assert run.advance({"x": Good(), "a[0]": Good(), "a#1": Good(), "a/b": Good()}) == []
    assert run.advance({"a": Good()}) == ["b"]
    assert run.advance({"a": Good()}) == []
    assert run.run.nodes()["a"].succeeded == 1


def test_only_the_wanted_nodes_start() -> None:
    run = MemoryRun(flow(node("a"), node("b", "a"), node("c", "b")), only=frozenset({"a", "b"}))
    run.advance()
    run.advance({"a": Good()})
    assert run.advance({"b": Good()}) == []
    assert (run.run.status, run.run.nodes()["c"].status, run.run.left_out()) == ("success", "pending", ["c"])


def test_a_chain_of_ten_thousand_steps_that_end_at_once_is_no_recursion() -> None:
    names = [f"n{k}" for k in range(10_000)]
    nodes = [node(name, *names[max(k - 1, 0) : k], when="$.n > 5") for k, name in enumerate(names)]
    run = MemoryRun(flow(*nodes), {"n": 1})
    assert run.advance() == []
    assert run.run.nodes()["n9999"].reason == "n9998 was skipped"
