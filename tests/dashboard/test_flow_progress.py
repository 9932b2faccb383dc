"""How far a running flow is: its items count before they are units."""

from __future__ import annotations

from typing import Any

from headway.dashboard.answers.job_rows import job_row
from headway.dashboard.records.job_reading import JobReading
from headway.reports.flows.node_progress import NodeProgress
from headway.reports.run_progress import Progress, ProgressTotals
from headway.stores.records import Job

COUNTS = dict.fromkeys(("succeeded", "failed", "timed_out", "cached", "skipped", "cancelled"), 0)


def flow_row(**nodes: NodeProgress) -> dict[str, Any]:
    """The row of a flow with 121 units, of which 120 have succeeded and one is in flight."""
    counts = {**COUNTS, "succeeded": 120}
    job = Job(
        1, "j", "flow", "running", "flow.yaml", "", {}, {}, {}, "", 121, 0, counts, 121, 0, 0, 0, 0.0, 0.0
    )
    totals = ProgressTotals(121, 120, 0, 0, 0, 0, 0, 1, 0, 121, 0, 0, 0, None, 30.0, 0.2, False)
    status = {node.status: 1 for node in nodes.values()}
    return job_row(JobReading(job, "running", Progress("j", 0.0, 1.0, totals, {}, [], nodes, status)), [])


def test_items_that_are_no_units_yet_are_to_do_and_the_time_left_is_unknown() -> None:
    row = flow_row(label=NodeProgress("running", 900, 119, running=1, kind="agent"))
    assert (row["total"], row["counts"]["pending"], row["counts"]["running"]) == (900, 779, 1)
    assert row["eta_s"] is None


def test_nodes_that_have_not_begun_leave_the_time_left_unknown() -> None:
    label = NodeProgress("running", 121, 120, running=1, kind="agent")
    assert flow_row(label=label, ok=NodeProgress("pending", kind="human"))["eta_s"] is None
    assert flow_row(label=label)["eta_s"] == 0.2
