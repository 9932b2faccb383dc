"""The report of a flow's run, from aggregates of the records, and its critical path."""

from __future__ import annotations

import time
from pathlib import Path

from tests.reports.flow_records import FlowRecords, T, book

from headway.reports.flows.critical_path import critical_path
from headway.reports.flows.flow_report import flow_report, last_job_of
from headway.reports.pauses import Pauses
from headway.stores.records import JobEvent
from headway.stores.store import BEGAN, ENDED, LOST

HUMAN_STAGE = """
graph:
  nodes:
    - {id: draft, kind: tool, impl: './tools/step.py:main', writes: [text]}
    - {id: ok, kind: human, reads: [text]}
    - {id: send, kind: tool, impl: './tools/step.py:main', reads: [text]}
  pipelines: [{id: p, items: [1], stages: [draft, ok, send]}]
"""


def test_the_outcome_of_every_node(tmp_path: Path) -> None:
    records = book(tmp_path)
    report = flow_report(records.store, records.job, "failed")
    rows = report.by_name()
    assert [(node.name, node.kind, node.status) for node in report.nodes] == [
        ("split", "tool", "success"),
        ("cover", "tool", "failed"),
        ("book", "pipeline", "success"),
        ("translate", "tool", "success"),
        ("terms", "tool", "success"),
        ("bind", "tool", "skipped"),
        ("look", "human", "waiting"),
    ]
    translate = rows["translate"]
    assert (translate.group, translate.units, translate.succeeded, translate.attempts, translate.throttled) == (
        "book", 2, 2, 4, 2,
    )  # fmt: skip
    assert (translate.started_utc, translate.ended_utc, translate.took_s) == (T + 2.5, T + 8.0, 5.5)
    assert round(rows["book"].cost_usd, 6) == 0.6
    assert (rows["book"].started_utc, rows["book"].ended_utc) == (T + 2.5, T + 9.0)
    assert (rows["bind"].reason, rows["bind"].took_s) == ("cover failed", None)
    assert (rows["look"].waiting, rows["look"].started_utc) == ("look", T + 9.0)
    assert (report.ended_utc, round(report.cost_usd, 6)) == (T + 9.0, 0.61)


def test_the_critical_path_is_marked(tmp_path: Path) -> None:
    records = book(tmp_path)
    report = flow_report(records.store, records.job, "failed")
    assert [(step.step, step.waited_s, step.took_s) for step in report.critical_path][:2] == [
        ("split", 0.0, 2.0),
        ("book", 0.5, 6.5),
    ]
    assert [node.name for node in report.nodes if node.critical] == ["split", "book"]


def test_the_path_goes_through_steps_without_times_and_takes_the_latest_predecessor() -> None:
    after = {"c": ("b", "a"), "b": ("x",), "a": (), "x": ()}
    times = {"a": (0.0, 5.0), "x": (0.0, 7.0), "c": (8.0, 9.0)}
    path = critical_path(after, times, 0.0)
    assert [(step.step, step.waited_s) for step in path] == [("x", 0.0), ("c", 1.0)]
    assert critical_path(after, {}, 0.0) == ()


def test_pauses_between_runs_do_not_count() -> None:
    runs = [(0.0, BEGAN), (5.0, ENDED), (45.0, BEGAN), (60.0, LOST), (60.0, BEGAN)]
    pauses = Pauses((JobEvent(at, None, what, "") for at, what in runs), (0.0, 50.0, 62.0))
    assert (pauses.between(0.0, 62.0), pauses.between(10.0, 46.0), pauses.between(61.0, 62.0)) == (
        50.0,
        35.0,
        0.0,
    )
    path = critical_path({"b": ("a",)}, {"a": (0.0, 4.0), "b": (46.0, 62.0)}, 0.0, pauses.between)
    assert [(step.waited_s, step.took_s) for step in path] == [(0.0, 4.0), (2.0, 6.0)]


def test_a_node_that_ran_when_its_process_died_is_interrupted(tmp_path: Path) -> None:
    records = FlowRecords(tmp_path)
    records.events("node.started", ["split"])
    records.events("node.ready", ["cover"])
    dead = flow_report(records.store, records.job, "interrupted").by_name()
    assert (dead["split"].status, dead["cover"].status) == ("interrupted", "pending")
    live = flow_report(records.store, records.job, "running").by_name()
    assert (live["split"].status, live["cover"].status) == ("running", "ready")


def test_only_the_human_node_of_a_pipeline_waits_for_the_user(tmp_path: Path) -> None:
    records = FlowRecords(tmp_path, HUMAN_STAGE)
    records.event("run.started")
    records.event("node.finished", "draft", unit="draft#0")
    records.event("node.started", "ok", unit="ok#0")
    live = flow_report(records.store, records.job, "running").by_name()
    assert [(one.name, one.status, one.waiting) for one in live.values()] == [
        ("p", "running", "ok#0"), ("draft", "success", ""), ("ok", "waiting", "ok#0"), ("send", "pending", ""),
    ]  # fmt: skip
    records.event("run.finished", status="failed")
    ended = flow_report(records.store, records.job, "failed").by_name()
    assert [one.status for one in ended.values()] == ["success", "success", "skipped", "skipped"]


def test_a_node_that_failed_and_ran_again_has_its_last_status(tmp_path: Path) -> None:
    records = FlowRecords(tmp_path)
    for kind in ("node.started", "node.failed", "node.retrying", "node.finished"):
        records.event(kind, "split")
    assert flow_report(records.store, records.job, "failed").by_name()["split"].status == "success"


def test_a_job_without_events_has_the_status_of_its_units(tmp_path: Path) -> None:
    records = FlowRecords(tmp_path)
    records.unit("split", 0.0, 1.0)
    records.unit("cover", 0.0, 1.0, status="failed")
    rows = flow_report(records.store, records.job, "failed").by_name()
    assert [rows[name].status for name in ("split", "cover", "bind")] == ["success", "failed", "pending"]


def test_an_inner_flow_has_the_sums_of_its_nodes(tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text(
        "graph: {nodes: [{id: fetch, kind: tool, impl: './tools/step.py:main', writes: [x]}]}\n"
    )
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "step.py").write_text("def main(given): return 1\n")
    records = FlowRecords(
        tmp_path, "graph: {nodes: [{id: sub, kind: flow, file: ./inner.yaml, writes: [x]}]}\n"
    )
    records.events("node.started", ["sub", "sub/fetch"])
    records.unit("sub/fetch", 1.0, 3.0, cost=0.5)
    report = flow_report(records.store, records.job, "complete")
    assert [(node.name, node.units, node.cost_usd, node.took_s) for node in report.nodes] == [
        ("sub", 1, 0.5, 2.0),
        ("sub/fetch", 1, 0.5, 2.0),
    ]


def test_the_last_job_of_a_file_is_the_one_that_was_started_last(tmp_path: Path) -> None:
    first = FlowRecords(tmp_path, name="one")
    FlowRecords(tmp_path, name="two", store=first.store)
    found = last_job_of(first.store, str(first.path))
    assert found is not None
    assert found.name == "two"
    assert last_job_of(first.store, "/nowhere.yaml") is None


def test_ten_thousand_nodes_take_less_than_a_second(tmp_path: Path) -> None:
    nodes = "".join(f"    - {{id: n{n}, kind: tool, impl: './tools/step.py:main'}}\n" for n in range(10_000))
    records = FlowRecords(tmp_path, f"graph:\n  nodes:\n{nodes}")
    with records.store.one_commit():
        records.events("node.started", [f"n{n}" for n in range(10_000)])
    began = time.process_time()
    report = flow_report(records.store, records.job, "running")
    assert time.process_time() - began < 1.0
    assert len(report.nodes) == 10_000
