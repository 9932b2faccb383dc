"""The state of a run at an instant, for displays and `progress.json`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from headway.core.model import AccountWindow
from headway.core.reasons import StopReason, Wait, WaitCode
from headway.core.snapshot import LaneView
from headway.engine.observer import AgentActivity, PartProgress, View
from headway.reason_text import wait_text
from headway.reports.flows.node_progress import (
    MOST_WRITTEN,
    NodeProgress,
    most_urgent,
    nodes_of_view,
    status_counts,
)
from headway.stores.job_lock import JobPlaces
from headway.stores.older_reasons import lane_wait

#: The fields that many jobs do not have.
_OPTIONAL: Final = frozenset({"agents", "nodes", "node_counts"})
#: The version of the format of `progress.json`.
VERSION: Final = 1


class ProgressTotals(msgspec.Struct, frozen=True):
    """The whole run."""

    units: int
    succeeded: int
    failed: int
    timed_out: int
    cached: int
    skipped: int
    cancelled: int
    in_flight: int
    pending: int
    attempts: int
    refused: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    elapsed_s: float
    eta_s: float | None
    paused: bool


class WaitReason(msgspec.Struct, frozen=True):
    """The code and fields of a wait, as `core.reasons.Wait` has them."""

    code: WaitCode
    message: str
    limit: int
    stop: StopReason | None


class LaneProgress(msgspec.Struct, frozen=True):
    """One lane. `wait` is a sentence. Files of older versions have no `wait_reason` and no `waiting_for_others`."""

    in_flight: int
    queued: int
    remaining: int
    succeeded: int
    failed: int
    refused: int
    rate_per_s: float
    window: int | None
    binding: str
    used_of_binding: float
    others: float
    wait: str | None
    wait_until_utc: float | None
    wait_reason: WaitReason | None = None
    waiting_for_others: int = 0
    #: The windows of a subscription; files of older versions have none.
    windows: tuple[AccountWindow, ...] = ()

    @property
    def waits_for(self) -> Wait | None:
        """What the lane waits for; its instant is UTC."""
        if self.wait is None:
            return None
        if (reason := self.wait_reason) is None:
            return lane_wait(self.wait, self.wait_until_utc)
        return Wait(reason.code, self.wait_until_utc, reason.message, reason.limit, reason.stop)


class RunningAgent(msgspec.Struct, frozen=True):
    """An agent that runs now, as `engine.observer.AgentActivity` has it."""

    unit: str
    lane: str
    turn: int
    tool: str
    tokens: int
    cost_usd: float
    started_utc: float


class Progress(msgspec.Struct, frozen=True):
    """A run at an instant. `agents` are the agents that run now, the oldest first; files of older versions have none.

    `nodes` are those of a flow, by their path: all, or those that matter most. `node_counts` counts all of them by status.
    """

    job: str
    started_utc: float
    updated_utc: float
    totals: ProgressTotals
    lanes: dict[str, LaneProgress]
    agents: list[RunningAgent] = []
    nodes: dict[str, NodeProgress] = {}
    node_counts: dict[str, int] = {}


def progress_of(
    view: View, agents: Iterable[AgentActivity] = (), parts: Sequence[PartProgress] | None = None
) -> Progress:
    """The report of what observers see. `parts`: these nodes; None: those that matter most."""
    if parts is None:
        parts = most_urgent(view.parts, MOST_WRITTEN)
    in_flight = view.snapshot.in_flight
    totals = ProgressTotals(
        units=view.total,
        **view.counts,
        in_flight=in_flight,
        pending=view.total - view.ended - in_flight,
        attempts=view.attempts,
        refused=view.refused,
        input_tokens=view.input_tokens,
        output_tokens=view.output_tokens,
        cost_usd=view.cost_usd,
        elapsed_s=round(view.elapsed_s, 3),
        eta_s=view.snapshot.eta_s,
        paused=view.paused,
    )
    lanes = {view.names[lane.key]: _lane(lane, view.utc_offset_s) for lane in view.snapshot.lanes}
    return Progress(
        view.job, view.started_utc, view.updated_utc, totals, lanes, _agents(agents), nodes_of_view(view, parts),
        status_counts(view.parts, view.more_parts),
    )  # fmt: skip


def progress_fields(
    view: View, agents: Iterable[AgentActivity] = (), parts: Sequence[PartProgress] | None = None
) -> dict[str, Any]:
    """The same as the fields of a JSON object. `agents` is there only if any runs, `nodes` only in a flow."""
    fields = msgspec.structs.asdict(progress_of(view, agents, parts))
    return {name: value for name, value in fields.items() if value or name not in _OPTIONAL}


def _agents(agents: Iterable[AgentActivity]) -> list[RunningAgent]:
    return [
        RunningAgent(one.unit, one.lane, one.turn, one.tool, one.tokens, one.cost_usd, one.started_utc)
        for one in sorted(agents, key=lambda agent: agent.started_utc)
    ]


def _lane(lane: LaneView, utc_offset_s: float) -> LaneProgress:
    wait = lane.wait
    return LaneProgress(
        in_flight=lane.in_flight,
        queued=lane.queued + lane.delayed,
        remaining=lane.remaining,
        succeeded=lane.succeeded,
        failed=lane.failed,
        refused=lane.refused,
        rate_per_s=round(lane.rate_per_s, 4),
        window=lane.window,
        binding=lane.binding,
        used_of_binding=round(lane.used_of_binding, 4),
        others=lane.others,
        wait=None if wait is None else wait_text(wait),
        wait_until_utc=None if wait is None or wait.until is None else wait.until + utc_offset_s,
        wait_reason=None if wait is None else WaitReason(wait.code, wait.message, wait.limit, wait.stop),
        waiting_for_others=lane.waiting_for_others,
        windows=lane.windows,
    )


def read_progress(jobs: JobPlaces, job: str) -> Progress | None:
    """The last progress that the process of a job wrote, on any machine; None if it cannot be read."""
    written = jobs.progress(job)
    try:
        return None if written is None else msgspec.json.decode(written, type=Progress)
    except msgspec.DecodeError:
        return None


def note_agent(agents: dict[int, AgentActivity], activity: AgentActivity) -> None:
    """Keep the latest activity of each agent that runs, by the key of its unit."""
    if activity.is_over:
        agents.pop(activity.uid, None)
    else:
        agents[activity.uid] = activity
