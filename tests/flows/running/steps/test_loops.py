"""Loops: conditions, limits, budgets, and what an iteration sees of earlier ones."""

from __future__ import annotations

from tests.flows.running.steps.memory_run import BAD, Good, MemoryRun, flow, loop, node

from headway.flows.spec import Dependency, FlowSpec, ForEach, StateField


def improving() -> FlowSpec:
    check = node("check", "improve", reads=("improve_out",), group="l")
    return flow(
        node("improve", reads=("check_out",), group="l"), check, node("end", "l"),
        loops=loop("l", "improve", "check", until="$.check_out >= 2", max_iters=9),
    )  # fmt: skip


def test_a_loop_runs_until_its_condition_is_true() -> None:
    run = MemoryRun(improving())
    for turn in range(2):
        [improve] = run.units({f"check#{turn - 1}": Good(turn)} if turn else {})
        assert (improve.id, improve.index) == (f"improve#{turn}", turn)
        assert improve.state == ({"check_out": 1} if turn else {})
        assert run.advance({f"improve#{turn}": Good(f"text {turn}")}) == [f"check#{turn}"]
    assert run.advance({"check#1": Good(2)}) == ["end"]
    run.advance({"end": Good()})
    assert run.state == {"check_out": 2, "end_out": 1, "improve_out": "text 1"}


def test_a_condition_that_is_true_at_first_means_no_iteration() -> None:
    run = MemoryRun(improving(), {"check_out": 5})
    assert run.advance() == ["end"]
    assert run.run.nodes()["improve"].status == "success"


def test_a_loop_stops_at_its_budget() -> None:
    spec = flow(node("a", group="l"), loops=loop("l", "a", max_iters=9, budget_usd=1.0))
    run = MemoryRun(spec)
    run.advance()
    assert run.advance({"a#0": Good(cost_usd=0.6)}) == ["a#1"]
    assert run.advance({"a#1": Good(cost_usd=0.6)}) == []
    assert (run.run.status, run.run.nodes()["a"].reason) == ("success", "stopped after $1.2 (budget)")


def test_a_loop_stops_after_max_iters() -> None:
    run = MemoryRun(flow(node("a", group="l"), loops=loop("l", "a", max_iters=2)))
    run.advance()
    assert run.advance({"a#0": Good()}) == ["a#1"]
    assert run.advance({"a#1": Good()}) == []
    assert run.run.nodes()["a"].reason == "stopped after 2 iterations (max_iters)"


def test_a_failed_iteration_ends_the_loop() -> None:
    run = MemoryRun(
        flow(
            node("a", group="l"),
            node("b", "a", group="l"),
            node("c", "l"),
            loops=loop("l", "a", "b", max_iters=3),
        )
    )
    run.advance()
    assert run.advance({"a#0": BAD}) == []
    reports = run.run.nodes()
    assert (reports["b"].reason, reports["c"].reason, run.run.status) == ("a failed", "l failed", "failed")


def test_a_member_sees_what_earlier_iterations_appended() -> None:
    fields = {"log": StateField(name="log", merge="array_append")}
    run = MemoryRun(
        flow(
            node("a", reads=("log",), writes=("log",), group="l"),
            loops=loop("l", "a", max_iters=3),
            fields=fields,
        ),
        {"log": ["given"]},
    )
    [unit] = run.units()
    assert list(unit.state["log"]) == ["given"]
    run.units({"a#0": Good(["x", "y"])})
    [unit] = run.units({"a#1": Good("z")})
    assert list(unit.state["log"]) == ["given", "x", "y", "z"]
    run.advance({"a#2": Good("end")})
    assert run.state["log"] == ["given", "x", "y", "z", "end"]


def test_members_that_do_not_wait_for_each_other_run_side_by_side_and_see_no_later_one() -> None:
    """`early` reads what `late` writes: of the iteration before, even if `late` is quicker."""
    spec = flow(
        node("first", group="l"), node("early", "first", reads=("late_out",), group="l"), node("late", group="l"),
        loops=loop("l", "first", "early", "late", max_iters=2),
    )  # fmt: skip
    run = MemoryRun(spec)
    assert run.advance() == ["first#0", "late#0"]
    run.advance({"late#0": Good("late 0")})
    [early] = run.units({"first#0": Good()})
    assert early.state == {}
    assert run.advance({"early#0": Good()}) == ["first#1", "late#1"]
    run.advance({"late#1": Good("late 1")})
    [early] = run.units({"first#1": Good()})
    assert early.state == {"late_out": "late 0"}


def test_a_member_may_be_a_for_each() -> None:
    each = ForEach(items=("x", "y"), concurrency=2)
    read = Dependency(id="a", fields=("a_out",))
    spec = flow(
        node("a", for_each=each, group="l"), node("b", read, reads=("a_out",), group="l"),
        loops=loop("l", "a", "b", max_iters=2),
    )  # fmt: skip
    run = MemoryRun(spec)
    assert run.advance() == ["a#0[0]", "a#0[1]"]
    run.advance({"a#0[1]": Good("01"), "a#0[0]": Good("00")})
    run.advance({"b#0": Good()})
    run.advance({"a#1[0]": Good("10")})
    [unit] = run.units({"a#1[1]": Good("11")})
    assert list(unit.state["a_out"]) == ["00", "01", "10", "11"]


def test_a_resumed_loop_goes_on_where_it_was() -> None:
    run = MemoryRun(improving())
    for unit, answer in (("improve#0", "a"), ("check#0", 1), ("improve#1", "b")):
        run.recorded(unit, Good(answer))
    for order in (list(run.ends), list(reversed(run.ends))):
        assert run.resumed({unit: run.ends[unit] for unit in order}) == ["check#1"]


def test_an_iteration_in_which_all_members_are_skipped_is_an_iteration() -> None:
    run = MemoryRun(
        flow(node("a", when="$.n > 5", group="l"), loops=loop("l", "a", max_iters=5_000)), {"n": 1}
    )
    assert run.advance() == []
    assert (run.run.status, run.run.nodes()["a"].skipped) == ("success", 5_000)
