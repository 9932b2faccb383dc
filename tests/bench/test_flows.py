"""A short run of each part of the section `flows`: it checks that they measure, not that the machine is fast."""

from __future__ import annotations

import msgspec
import pytest
from bench.flows import durable_steps, many_nodes, million_items, rate_limited, slow_branch
from bench.flows.million_items import Items
from bench.flows.rate_limited import FanOut


def test_a_slow_branch_meets_its_bar_and_could_miss_it() -> None:
    report = slow_branch.measure()
    assert slow_branch.misses(report) == []
    slow = msgspec.structs.replace(report.policies["headway"], ratio=1.04)
    assert len(slow_branch.misses(msgspec.structs.replace(report, policies={"headway": slow}))) == 1


@pytest.mark.parametrize("name", many_nodes.GRAPHS)
def test_every_graph_runs_to_its_end(name: str) -> None:
    graph = many_nodes.measure(name, 200)
    assert graph.nodes == 200
    assert graph.units >= 200
    assert 0.0 < graph.planning_s < 60.0
    late = msgspec.structs.replace(graph, validate_s=11.0, run_s=1.0)
    assert len(many_nodes.misses(late)) == 2


def test_every_item_has_an_answer() -> None:
    few = million_items.measure(300)
    assert 10.0 < few.peak_mb < 500.0
    assert 0.0 < few.scheduler_s < few.cpu_s
    assert 0.0 < few.growth_s < few.cpu_s
    small, large = Items(10, 1.0, 1.0, 10.0, 0.0, 0.0), Items(10_000, 1.0, 9.0, 16.0, 1.0, 0.5)
    assert len(million_items.misses(small, large)) == 2


def test_durable_steps_are_counted() -> None:
    names = [pace.name for pace in durable_steps.measure(steps=30, turns=1)]
    assert names[:2] == ["Headway, a chain", "Headway, a for_each (concurrency: auto)"]
    assert len(names) == (3 if durable_steps.missing_dbos() else 7)


def test_the_pace_of_a_fan_out_is_that_of_its_limit() -> None:
    run = rate_limited.measure("auto", items=60, rpm=1_200.0)
    assert run.items == 60
    assert 0.9 < run.ratio < 5.0
    assert len(rate_limited.misses([run, FanOut("auto", 100, 20.0, 10.0, 2)])) >= 2
