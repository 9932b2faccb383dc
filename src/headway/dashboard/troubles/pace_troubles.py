"""What sets the pace of a running job that is not done soon: the limit of a lane, or the flow itself. Nothing is wrong then, but it may be too slow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from headway.core.lanes.job_share import OUR_PART
from headway.core.lanes.meters.limit_usage import CONCURRENCY
from headway.core.reasons import WaitCode
from headway.dashboard.troubles.trouble import Trouble, command_line
from headway.display.formatting import units
from headway.reports.flows.node_progress import NodeProgress
from headway.reports.run_progress import LaneProgress, Progress

#: A lane that uses at least this share of a limit is held back by it.
_FULL: Final = 0.9
#: A job that ends sooner is not slow.
_SOON_S: Final = 60.0


def pace_troubles(job: str, progress: Progress, flags: Sequence[str], *, is_flow: bool) -> Iterator[Trouble]:
    """The lane that will be the last to end, if a limit holds it back; otherwise a node whose own concurrency does."""
    if progress.totals.paused:
        return
    full = [(name, lane) for name, lane in progress.lanes.items() if _is_full(lane)]
    if full and (progress.totals.eta_s or inf) > _SOON_S:
        name, lane = max(full, key=lambda one: _time_left_s(one[1]))
        yield _lane_pace(
            name, lane, "" if is_flow else command_line(flags, "report", job, "-o", "report.html")
        )
    elif not full:
        yield from _node_paces(progress)


def _lane_pace(name: str, lane: LaneProgress, report: str) -> Trouble:
    is_window = lane.binding == CONCURRENCY
    limit = f"{lane.in_flight:,} in flight" if is_window else lane.binding.removesuffix(OUR_PART)
    waiting = f"{units(lane.queued)} {'waits' if lane.queued == 1 else 'wait'}"
    by_how_much = (
        "the report says by how much"
        if report
        else "'headway plan FLOW --rpm NAME=N' tries the flow with one"
    )
    return Trouble(
        level="info",
        what=f"{name} sets the pace: it is at its limit ({limit}), and {waiting} for it.",
        do=f"That is as fast as this limit allows. A higher limit or another account makes the job faster: {by_how_much}.",
        command=report,
        lane=name,
    )


def _node_paces(progress: Progress) -> Iterator[Trouble]:
    """Nodes that have more to do than they start, although their lane would take more."""
    for name, node in progress.nodes.items():
        lane = progress.lanes.get(node.lane)
        left = _left_of(node)
        if node.status == "running" and node.running and left and lane is not None and _has_room(lane):
            yield Trouble(
                level="info",
                what=f"{name} does {node.running:,} at a time and has {left:,} more to do, although its lane would take more.",
                do="The concurrency in the flow file sets this pace: 'concurrency: auto' leaves it to the lane.",
                node=name,
            )


def _left_of(node: NodeProgress) -> int:
    return node.total - node.succeeded - node.failed - node.running


def _has_room(lane: LaneProgress) -> bool:
    return not lane.queued and lane.wait is None


def _is_full(lane: LaneProgress) -> bool:
    wait = lane.waits_for
    is_closed = wait is not None and (wait.stop is not None or wait.code is WaitCode.HOLD)
    return lane.queued > 0 and not is_closed and bool(lane.binding) and lane.used_of_binding >= _FULL


def _time_left_s(lane: LaneProgress) -> float:
    return lane.remaining / lane.rate_per_s if lane.rate_per_s > 0.0 else inf
