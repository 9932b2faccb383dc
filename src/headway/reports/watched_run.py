"""A run as another process sees it: from `progress.json` and the records, in the form that displays take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from headway.batch.outputs.ownership import WROTE
from headway.core.snapshot import LaneView, Snapshot
from headway.engine.observer import AgentActivity, View
from headway.reports.flows.node_progress import parts_of, status_counts
from headway.reports.run_progress import LaneProgress, Progress, RunningAgent
from headway.stores.records import JobEvent
from headway.stores.store import BEGAN, ENDED, LOST

#: Events that no display of a run gets: it shows the beginning and the end in its own way.
_OWN: Final = frozenset({BEGAN, ENDED, LOST, WROTE})


def view_of(progress: Progress) -> View:
    """The view that the run's own displays had when it wrote this progress. Its clock is UTC; lanes have their names as keys."""
    totals = progress.totals
    lanes = tuple(_lane(name, lane) for name, lane in progress.lanes.items())
    snapshot = Snapshot(
        at=progress.updated_utc,
        lanes=lanes,
        in_flight=totals.in_flight,
        waiting_for_others=sum(lane.waiting_for_others for lane in lanes),
        started=sum(lane.started for lane in lanes),
        succeeded=sum(lane.succeeded for lane in lanes),
        failed=sum(lane.failed for lane in lanes),
        refused=sum(lane.refused for lane in lanes),
        remaining=sum(lane.remaining for lane in lanes),
        spent_usd=totals.cost_usd or 0.0,
        eta_s=totals.eta_s,
    )
    counts = {
        name: getattr(totals, name)
        for name in ("succeeded", "failed", "timed_out", "cached", "skipped", "cancelled")
    }
    return View(
        progress.job, totals.units, counts, totals.attempts, totals.refused, totals.input_tokens, totals.output_tokens,
        totals.cost_usd, totals.elapsed_s, progress.updated_utc, progress.started_utc, snapshot,
        {name: name for name in progress.lanes}, 0.0, totals.paused, parts_of(progress.nodes),
        {name: node.lane for name, node in progress.nodes.items() if node.lane}, _more_nodes(progress),
    )  # fmt: skip


def _more_nodes(progress: Progress) -> dict[str, int]:
    """How many nodes of each status the file has only as a number."""
    shown = status_counts(progress.nodes.values())
    more = {status: count - shown.get(status, 0) for status, count in progress.node_counts.items()}
    return {status: count for status, count in more.items() if count > 0}


def _lane(name: str, lane: LaneProgress) -> LaneView:
    return LaneView(
        key=name,
        queued=lane.queued,
        delayed=0,
        remaining=lane.remaining,
        in_flight=lane.in_flight,
        started=lane.succeeded + lane.failed + lane.refused + lane.in_flight,
        succeeded=lane.succeeded,
        failed=lane.failed,
        refused=lane.refused,
        window=lane.window,
        rate_per_s=lane.rate_per_s,
        others=lane.others,
        meters=(),
        binding=lane.binding,
        used_of_binding=lane.used_of_binding,
        wait=lane.waits_for,
        eta_s=None,
        waiting_for_others=lane.waiting_for_others,
        windows=lane.windows,
    )


class WatchedAgents:
    """Turns the agents of successive progress files into activities, as the run's own displays get them."""

    def __init__(self) -> None:
        self._running: dict[int, AgentActivity] = {}
        #: Unit → a key, which is known only to the run itself.
        self._keys: dict[str, int] = {}

    def changes(self, progress: Progress) -> Iterator[AgentActivity]:
        """What agents do now, and the last activity of those that have ended."""
        running = {one.uid: one for one in map(self._activity, progress.agents)}
        for uid, agent in self._running.items():
            if uid not in running:
                yield msgspec.structs.replace(agent, is_over=True)
        yield from running.values()
        self._running = running

    def _activity(self, agent: RunningAgent) -> AgentActivity:
        key = self._keys.setdefault(agent.unit, len(self._keys))
        return AgentActivity(
            key,
            agent.unit,
            agent.lane,
            agent.turn,
            agent.tool,
            agent.tokens,
            agent.cost_usd,
            agent.started_utc,
        )


def shown_events(events: list[JobEvent]) -> list[JobEvent]:
    """The events that the displays of a run show as lines."""
    return [event for event in events if event.what not in _OWN]
