"""The events of a run: of the run, of executions of nodes, of writes."""

from __future__ import annotations

from tests.flows.running.steps.memory_run import BAD, Good, MemoryRun, flow, node, pipeline

from headway.flows.spec import AUTO, ForEach, OnError


def names(run: MemoryRun) -> list[tuple[str, str, str]]:
    return [(event.name, event.node, event.unit) for event in run.run.take_events()]


def test_a_node_is_ready_starts_and_finishes_and_what_it_writes_is_told() -> None:
    run = MemoryRun(flow(node("a"), node("b", "a"), concurrency=1))
    run.advance()
    assert names(run) == [("run.started", "", ""), ("node.ready", "a", ""), ("node.started", "a", "")]
    run.advance({"a": Good()})
    assert names(run) == [
        ("node.finished", "a", ""),
        ("state.write", "a", ""),
        ("node.ready", "b", ""),
        ("node.started", "b", ""),
    ]
    run.advance({"b": BAD})
    [failed, finished] = run.run.take_events()
    assert (failed.name, failed.data["reason"]) == ("node.failed", "it broke")
    assert (finished.name, finished.data["status"]) == ("run.finished", "partial")


def test_a_node_that_waits_for_a_place_is_ready_and_not_started() -> None:
    run = MemoryRun(flow(node("a"), node("b"), concurrency=1))
    run.advance()
    assert ("node.ready", "b", "") in (found := names(run))
    assert ("node.started", "b", "") not in found
    assert run.run.is_ready("b")
    run.advance({"a": Good()})
    assert not run.run.is_ready("b")


def test_skips_have_their_reason() -> None:
    run = MemoryRun(flow(node("a", when="$.n > 3"), node("b", "a")), {"n": 1})
    run.advance()
    reasons = {
        event.node: event.data["reason"] for event in run.run.take_events() if event.name == "node.skipped"
    }
    assert reasons == {"a": "its condition is false: $.n > 3", "b": "a was skipped"}


def test_iterations_have_no_events_and_items_of_pipelines_do() -> None:
    spec = flow(
        node("a", for_each=ForEach(items=(1, 2), concurrency=AUTO)), node("s", group="p"),
        pipelines=pipeline("p", "s", items=("x",)), concurrency=AUTO,
    )  # fmt: skip
    run = MemoryRun(spec)
    run.advance()
    run.advance({"a[0]": Good(), "a[1]": Good(), "s#0": Good()})
    assert [one for one in names(run) if one[0] in ("node.started", "node.finished")] == [
        ("node.started", "a", ""), ("node.started", "s", "s#0"), ("node.finished", "a", ""), ("node.finished", "s", "s#0"),
    ]  # fmt: skip


def test_a_stopped_run_has_its_end() -> None:
    run = MemoryRun(flow(node("a", on_error=OnError(policy="fail_run")), node("b"), node("c", "b")))
    run.advance()
    run.advance({"a": BAD})
    assert "run.finished" not in [name for name, _, _ in names(run)]
    run.advance({"b": Good()})
    [end] = [event for event in run.run.take_events() if event.name == "run.finished"]
    assert end.data == {"status": "failed", "reason": "a failed: it broke"}


def test_a_run_that_repeats_what_is_recorded_can_be_silent() -> None:
    run = MemoryRun(flow(node("a"), node("b", "a")))
    run.run.make_events(False)
    run.run.take({"a": run.recorded("a", Good())})
    run.run.make_events(True)
    run.run.next_units()
    assert names(run) == []


def test_reports_of_nodes_that_something_happened_to() -> None:
    run = MemoryRun(flow(node("a"), node("b", "a"), node("c"), concurrency=AUTO))
    run.advance()
    assert set(run.run.changed_nodes()) == {"a", "c"}
    run.advance({"a": Good()})
    assert set(run.run.changed_nodes()) == {"a", "b"}
    assert run.run.in_flight("b") == 1
