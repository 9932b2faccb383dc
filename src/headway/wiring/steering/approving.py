"""Answers a flow's human step: of a job that runs, or of one that is parked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from headway.config import Config
from headway.flows.running import approvals
from headway.flows.running.flow_form import form_of
from headway.flows.running.recorded_run import is_done
from headway.stores.records import Job
from headway.stores.store import Store
from headway.stores.submissions import SERVED
from headway.wiring.steering import control_requests


class GivenAnswer(msgspec.Struct, frozen=True):
    """The answer to a node or to one of its units: a value (JSON or a text; None: true), or a rejection."""

    node: str
    answer: str | None = None
    reject: bool = False
    note: str = ""


class NodeApproval(msgspec.Struct, frozen=True):
    """What was answered. `goes_on`: the process that runs the job has noticed."""

    job: str
    units: Sequence[str]
    approved: bool
    goes_on: bool
    #: Whether it had been rejected before: then a later run goes on with it.
    was_rejected: bool
    #: Whether the next engine takes the job: its last run was one of an engine.
    is_handed_over: bool = False

    def fields(self) -> dict[str, Any]:
        """It as JSON."""
        return {
            "job": self.job,
            "units": list(self.units),
            "approved": self.approved,
            "running": self.goes_on,
            **({"handed_over": True} if self.is_handed_over else {}),
        }

    def text(self) -> str:
        """It for people."""
        done = _done(self.job, self.units, approved=self.approved)
        if self.goes_on and self.was_rejected:
            return f"{done}; once this run has ended, to go on: headway resume {self.job}"
        if self.is_handed_over:
            return f"{done}; the next engine goes on ('headway serve')"
        return f"{done}; it goes on" if self.goes_on else f"{done}; to go on: headway resume {self.job}"


def answer_node(config: Config, store: Store, job: Job, given: GivenAnswer) -> NodeApproval:
    """Record an answer, and tell the process that runs the job. Raises if no unit of the node waits."""
    waiting = approvals.waiting_for(store, job)
    rejected = [] if given.reject else approvals.rejected_units(store, job)
    units = [one for one in waiting if given.node in (one.unit, one.node)]
    units = units or approvals.chosen(rejected or waiting, given.node, job)
    value = None if given.reject else approvals.answer_for(form_of(job), units[0].node, given.answer)
    approvals.record(store, job, units, approved=not given.reject, answer=value, note=given.note)
    names = [one.unit for one in units]
    goes_on = _tell(config, store, job, _done(job.name, names, approved=not given.reject))
    is_handed_over = not goes_on and bool(job.settings.get(SERVED))
    if is_handed_over:
        store.submissions.add(job.id, time.time())
    return NodeApproval(job.name, names, not given.reject, goes_on, bool(units[0].rejected), is_handed_over)


def _done(job: str, units: Sequence[str], *, approved: bool) -> str:
    return f"{'approved' if approved else 'rejected'} {', '.join(units)} of job {job}"


def _tell(config: Config, store: Store, job: Job, text: str) -> bool:
    """Tell the process that runs the job; returns whether it has noticed."""
    if not control_requests.is_live(config, job):
        return False
    command = store.add_command(job.id, "grow", {"text": text}, time.time())
    if control_requests.wait(lambda: store.is_done(command), lambda: control_requests.is_live(config, job)):
        return True
    # It may have read the answer before the command, and have ended.
    return is_done(store, store.job(job.name) or job)
