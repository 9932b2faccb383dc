"""Approvals of `human` nodes: what waits for one, and how one is recorded.

They are a list of the job's values, which a running job reads when the command `grow` comes, and any later run at its beginning. The first
approval of a unit counts. It replaces a rejection from the next run on, unless the flow went on without the unit and succeeded.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from headway.errors import UsageError
from headway.flows.running.flow_form import FlowForm, FlowNode, form_of, nodes_of
from headway.flows.running.recorded_run import rebuilt_run
from headway.flows.running.requests.answer_check import check_value
from headway.flows.running.requests.prompt_text import prompt_of
from headway.flows.running.state.stored_values import APPROVALS, Approval, StoredValues
from headway.flows.running.steps.node_run import NextUnit
from headway.flows.running.unit_ids import node_path
from headway.stores.records import Job
from headway.stores.store import Store


class WaitingUnit(msgspec.Struct, frozen=True):
    """A unit that waits for the user, or that the user has rejected. `question` is the node's prompt, `rejected` the reason; "" without one."""

    unit: str
    node: str
    question: str = ""
    writes: tuple[str, ...] = ()
    rejected: str = ""


class AskedUnit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A unit of a `human` node: what the user is asked, and what the user said. `approved` is None while it waits."""

    unit: str
    question: str = ""
    approved: bool | None = None
    answer: Any = None
    note: str = ""
    utc: float | None = None


def said_of(store: Store, job: Job) -> set[str]:
    """The units that the user has approved or rejected."""
    return {one.unit for one in StoredValues(store, job.id, form_of(job).spec).approvals(0)}


def asked_of(store: Store, job: Job, name: str) -> list[AskedUnit]:
    """What a unit, or all units of a node, asked the user. A question that cannot be made again is as its file has it."""
    approvals = StoredValues(store, job.id, form_of(job).spec).approvals(0)
    said: dict[str, Approval] = {}
    for one in approvals:
        if name in (one.unit, node_path(one.unit)) and (one.unit not in said or not said[one.unit].approved):
            said[one.unit] = one  # A rejection can be replaced.
    questions = {
        one.unit: one.question for one in waiting_for(store, job, said) if name in (one.unit, one.node)
    }
    template = form_of(job).prompts.get(node_path(name), "").strip()
    answered = [
        AskedUnit(unit, questions.pop(unit, template), one.approved, one.answer, one.note, one.utc)
        for unit, one in said.items()
    ]
    return [*answered, *(AskedUnit(unit, question) for unit, question in questions.items())]


def waiting_for(store: Store, job: Job, unanswered: Collection[str] = ()) -> list[WaitingUnit]:
    """The units that wait for an approval, in the order in which they began to wait. The units `unanswered` wait in any case."""
    form = form_of(job)
    nodes = {one.path: one for one in nodes_of(form.spec)}
    found = []
    for unit in rebuilt_run(store, job, unanswered).asked():
        question = _question(form.prompts.get(unit.node, ""), unit, job.name)
        found.append(WaitingUnit(unit.id, unit.node, question, nodes[unit.node].node.writes))
    return found


def rejected_units(store: Store, job: Job) -> list[WaitingUnit]:
    """The units that were rejected and may still be approved, in the order of their rejections."""
    said: dict[str, Approval] = {}
    for value in store.values(job.id, APPROVALS, 0, -1):
        one = msgspec.json.decode(value, type=Approval)
        if one.unit not in said or one.approved:
            said[one.unit] = one
    rejections = [one for one in said.values() if not one.approved]
    run = rebuilt_run(store, job) if rejections else None
    if run is None or run.status == "success":
        return []
    writes = {one.path: one.node.writes for one in nodes_of(form_of(job).spec)}
    return [
        WaitingUnit(one.unit, path, writes=writes[path], rejected=one.note or "rejected")
        for one in rejections
        if not run.stays_ended(one.unit) and (path := node_path(one.unit))
    ]


def rejected_text(units: Sequence[WaitingUnit]) -> str:
    """ "decide was rejected: too long"."""
    first = units[0]
    why = f": {first.rejected}" if first.rejected != "rejected" else ""
    if len(units) == 1:
        return f"{first.unit} was rejected{why}"
    return f"{first.unit} and {len(units) - 1:,} more were rejected{why}"


def _question(template: str, unit: NextUnit, job: str) -> str:
    """The prompt; as its file has it if a name in it has no value."""
    try:
        return prompt_of(template, unit, job).strip()
    except UsageError:
        return template.strip()


def chosen(waiting: Sequence[WaitingUnit], name: str, job: Job) -> list[WaitingUnit]:
    """The units that a name means: one unit, or all of a node. Raises UsageError with the names that wait."""
    units = [one for one in waiting if name in (one.unit, one.node)]
    if units:
        return units
    if not waiting:
        raise UsageError(
            f"nothing in job {job.name} waits for an approval", hint=f"headway status {job.name}"
        )
    names = ", ".join(one.unit for one in waiting)
    waits = "waits" if len(waiting) == 1 else "wait"
    raise UsageError(f"'{name}' does not wait for an approval in job {job.name}", hint=f"{names} {waits}")


def answer_for(form: FlowForm, node: str, text: str | None) -> Any:
    """The answer that a user typed: JSON, or a text. Without one it is true. Raises UsageError if the node cannot take it."""
    one: FlowNode = next(one for one in nodes_of(form.spec) if one.path == node)
    answer = True if text is None else _value(text)
    place = f"approve {node}" if text is None else f"--answer {text}"
    try:
        check_value(one.flow, one.node, answer, place)
    except UsageError:
        if text is None or answer == text:
            raise
        check_value(one.flow, one.node, text, place)  # A text that happens to be JSON.
        return text
    return answer


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def record(
    store: Store, job: Job, units: Sequence[WaitingUnit], *, approved: bool, answer: Any, note: str
) -> None:
    """Record approvals or rejections."""
    utc = time.time()
    values = [
        msgspec.json.encode(
            {"unit": one.unit, "approved": approved, "answer": answer, "utc": utc, "note": note}
        )
        for one in units
    ]
    with store.one_commit():
        store.add_values(job.id, APPROVALS, store.count_values(job.id, APPROVALS), values)
