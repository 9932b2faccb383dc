"""The growth of a flow's job: when units end, the units that follow are added in the same transaction, and so are the events.

The run of the flow is in memory. It is made from the records when a process starts, so a crash loses nothing. The first look, at the
beginning of a run, adds the units with which the flow begins.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from headway.engine.observer import PartProgress
from headway.errors import UsageError
from headway.flows.running.flow_form import form_of, nodes_of
from headway.flows.running.outputs.event_record import record_events, record_resumed
from headway.flows.running.recorded_run import RecordedRun, note_unreadable
from headway.flows.running.requests.unit_requests import UnitRequests
from headway.flows.running.reuse.answer_reuse import AnswerReuse
from headway.flows.running.state.stored_values import UnreadableValue
from headway.stores.records import Job, NewUnit
from headway.stores.store import Store

#: Units that wait for the user, in a view of their node.
_MOST_WAITING: Final = 3


class FlowGrowth:
    """What ends of units add to a job, and which units of an earlier run go on. `parts` and `stops` may be called by another thread."""

    #: `concurrency` counts units of an earlier run, too: they run when their turn comes.
    hands_out: Final = True

    def __init__(self, job: Job) -> None:
        self._job = job
        self._recorded: RecordedRun | None = None
        self._requests: UnitRequests | None = None
        self._reuse = AnswerReuse(job)
        self._kinds: dict[str, str] = {}
        self._parts: dict[str, PartProgress] = {}
        self._stopped = ""

    def parts(self) -> tuple[PartProgress, ...]:
        """The progress of every node. Parts that have not changed are the same objects."""
        return tuple(self._parts.values())

    def stops(self) -> str:
        """Why nothing more starts, after a `fail_run`: units that were added and wait for their lane are left."""
        return self._stopped

    def __call__(self, store: Store, ended: Sequence[int]) -> Sequence[NewUnit]:
        is_first = self._recorded is None
        noted: set[str] = set()
        while True:
            try:
                recorded, units = self._grown(store, ended)
                break
            except UnreadableValue as error:
                if error.unit in noted:
                    raise
                noted.add(error.unit)
                self._recorded = None  # Begin anew, as a new process does; the unit has failed.
                note_unreadable(store, self._job.id, error)
        self._record_events(store, recorded, is_first)
        self._note_parts(recorded)
        self._stopped = recorded.run.stopped
        return units

    def _grown(self, store: Store, ended: Sequence[int]) -> tuple[RecordedRun, list[NewUnit]]:
        recorded = self._recorded
        if recorded is None:
            recorded = self._begin(store)
        else:
            recorded.use(store)
        recorded.take_news(ended)
        return recorded, self._new_units(recorded)

    def _begin(self, store: Store) -> RecordedRun:
        form = form_of(self._job)
        recorded = self._recorded = RecordedRun(store, self._job)
        self._requests = UnitRequests(self._job.name, form, store.routes(self._job.id))
        self._kinds = {one.path: one.node.kind for one in nodes_of(form.spec)}
        recorded.rebuild()
        return recorded

    def _new_units(self, recorded: RecordedRun) -> list[NewUnit]:
        """The requests of the units that come next, or their earlier answers. A unit whose request cannot be made fails, and others may follow."""
        assert self._requests is not None
        made: list[NewUnit] = []
        for unit in recorded.run.each_unit():
            try:
                made.append(self._reuse.of(recorded.values.store, unit, self._requests.new_unit(unit)))
            except UsageError as error:
                recorded.fail_unmade(unit.id, error.message)
        return made

    def _record_events(self, store: Store, recorded: RecordedRun, is_first: bool) -> None:
        utc, run = time.time(), recorded.run
        if is_first and recorded.was_looked_at:
            statuses = {path: report.status for path, report in run.nodes().items()}
            record_resumed(store, self._job.id, statuses, run.status, utc)
        events = run.take_events()
        if events or is_first:
            record_events(store, self._job.id, events, utc)
            recorded.note_look()

    def _note_parts(self, recorded: RecordedRun) -> None:
        run = recorded.run
        reports = run.changed_nodes() if self._parts else run.nodes()
        for path, report in reports.items():
            status = "ready" if report.status == "pending" and run.is_ready(path) else report.status
            if status == "waiting" and self._kinds[path] != "human":
                status = "running"  # Its inner flow has the node that waits.
            elif status == "failed" and run.is_stage_of_success(path):
                status = "success"
            waiting = run.waiting_of(path, _MOST_WAITING) if status == "waiting" else ()
            self._parts[path] = PartProgress(
                path,
                status,
                report.units,
                report.succeeded,
                report.failed,
                run.in_flight(path),
                report.cost_usd,
                report.reason,
                self._kinds[path],
                waiting,
            )
