"""Why a unit of a flow was called, or was not: the parts of its key beside those of the last unit with the same id in an earlier job.

Nothing was kept for this but the recorded key: what a unit saw follows from the records of its job, and so do the parts of its key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from headway.config.near_names import near_name
from headway.core.unit_states import GOOD, Status
from headway.errors import UsageError
from headway.flows.running.flow_form import FlowNode, form_of, nodes_of
from headway.flows.running.recorded_run import RecordedRun
from headway.flows.running.reuse.answer_reuse import predecessors_of
from headway.flows.running.reuse.key_context import contexts, has_units, parts_of
from headway.flows.running.reuse.key_differences import Difference, differences
from headway.flows.running.reuse.reuse_choice import choice_of
from headway.flows.running.reuse.unit_key import KEY_BYTES, Parts, UnitKeys
from headway.flows.running.unit_ids import node_path
from headway.flows.spec import AUTO
from headway.jobs.run_settings import CONCURRENCY
from headway.stores.records import Job
from headway.stores.store import Store

_ITERATION: Final = re.compile(r"\[(\d+)\]$")
_PAGE: Final = 5_000

Outcome = Literal["kept", "called", "waiting"]


class KeyReport(msgspec.Struct, frozen=True, kw_only=True):
    """One unit. `outcome`: whether its answer is an earlier one. `source`: the job and the unit that has that answer. `compared`: the earlier
    job whose unit with this id is compared; "" without one. `why`: in words, if no part differs.
    """

    job: str
    unit: str
    node: str
    outcome: Outcome
    source: tuple[str, str] | None = None
    compared: str = ""
    changed: tuple[Difference, ...] = ()
    why: str = ""
    #: Of the node: units whose answers are earlier ones, and all that have ended.
    kept_units: int = 0
    units: int = 0


def key_report(store: Store, job: Job, name: str) -> KeyReport:
    """The report on a unit, or on the first unit of a node that was called. Raises UsageError if there is none."""
    one = _node_of(job, name)
    index = store.index_of(job.id, name)
    kept, units = 0, 1
    if index is None:
        first, kept, units = _units_of(store, job, one.path)
        if first is None or name != one.path:
            raise UsageError(
                f"job {job.name} has no unit '{name}' yet", hint=f"see 'headway status {job.name}'"
            )
        name, index = first, store.index_of(job.id, first)
    assert index is not None
    report = _report(store, job, one, name, index)
    return msgspec.structs.replace(report, kept_units=kept, units=units)


def _node_of(job: Job, name: str) -> FlowNode:
    nodes = {one.path: one for one in nodes_of(form_of(job).spec)}
    one = nodes.get(node_path(name))
    if one is None:
        near = near_name(node_path(name), nodes)
        hint = f"did you mean '{near}'?" if near else f"its nodes are {', '.join(nodes)}"
        raise UsageError(f"job {job.name} has no node '{node_path(name)}'", hint=hint)
    if not has_units(one):
        what = {
            "human": "asks a person, again in every job: no answer is reused",
            "dataset": "reads its rows again for every job: nothing is called",
        }.get(one.node.kind, "runs a flow: name a node of it")
        inner = next((path for path in nodes if path.startswith(f"{one.path}/")), None)
        raise UsageError(
            f"{one.path} {what}", hint=f"headway cache why {job.name} {inner}" if inner else None
        )
    return one


def _units_of(store: Store, job: Job, path: str) -> tuple[str | None, int, int]:
    """The first unit of a node that was called (otherwise its first one), and how many are kept, of how many."""
    first: str | None = None
    called: str | None = None
    kept = units = 0
    for custom_id, status in _ends(store, job):
        if node_path(custom_id) != path:
            continue
        units += 1
        first = first or custom_id
        if status == Status.CACHED:
            kept += 1
        else:
            called = called or custom_id
    return called or first, kept, units


def _ends(store: Store, job: Job) -> Iterator[tuple[str, str]]:
    after = -1
    while page := store.unit_ends(job.id, after, _PAGE):
        after = page[-1].index
        yield from ((row.custom_id, row.status) for row in page)


def _report(store: Store, job: Job, one: FlowNode, unit: str, index: int) -> KeyReport:
    status = store.states(job.id, [index])[index]
    outcome: Outcome = "kept" if status == Status.CACHED else "waiting" if status == "pending" else "called"
    source = store.cache.source(job.id, index)
    report = KeyReport(job=job.name, unit=unit, node=one.path, outcome=outcome)
    if source is not None:
        of = (source.job or "", source.custom_id or "")
        return msgspec.structs.replace(report, source=of, why=_same_text(of))
    earlier = _earlier(store, job, unit)
    if earlier is None:
        return msgspec.structs.replace(report, why="no earlier job of this flow has this unit")
    found, before_index = earlier
    report = msgspec.structs.replace(report, compared=found.name)
    old, new = key_parts(store, found, unit, before_index), key_parts(store, job, unit, index)
    if old is None or new is None:
        which = found.name if old is None else job.name
        return msgspec.structs.replace(report, why=f"what it saw in job {which} is not recorded")
    changed = tuple(differences(old, new))
    why = "" if changed else _why_called(store, job, one, found, before_index)
    return msgspec.structs.replace(report, changed=changed, why=why)


def _same_text(of: tuple[str, str]) -> str:
    job, unit = of
    return f"nothing changed: it has the answer of {unit} of job {job}" if job else "nothing changed"


def _earlier(store: Store, job: Job, unit: str) -> tuple[Job, int] | None:
    """The last earlier job of the flow with this unit. One with an answer comes first."""
    without: tuple[Job, int] | None = None
    for earlier in predecessors_of(store, job.kind, job.input, job.id):
        index = store.index_of(earlier.id, unit)
        if index is None:
            continue
        if store.states(earlier.id, [index])[index] in GOOD:
            return earlier, index
        without = without or (earlier, index)
    return without


def _why_called(store: Store, job: Job, one: FlowNode, earlier: Job, index: int) -> str:
    """Why it was called although its key is the same."""
    choice, same = choice_of(job), f"nothing changed since job {earlier.name}"
    status = store.states(earlier.id, [index])[index]
    if one.path in choice.again:
        return f"{same}; it ran because of --from {choice.begins_at}"
    if not choice.uses_cache:
        return f"{same}; it ran because of --no-cache"
    if status not in GOOD:
        return f"{same}, where it has no answer ({status})"
    if not choice.takes_over and not one.node.cache:
        return f"{same}; it ran because of --fresh, and its cache is off (cache: true turns it on)"
    if not choice.takes_over:
        return f"{same}; it ran because of --fresh, and the cache had no answer: it was cleared"
    return f"{same}; its answer was not there yet, or 'headway retry' has run it again"


def key_parts(store: Store, job: Job, unit: str, index: int) -> Parts | None:
    """The parts of the key of a unit; None if the records do not say what it saw."""
    match = _ITERATION.search(unit)
    execution = unit if match is None else unit[: match.start()]
    alone = msgspec.structs.replace(job, settings={CONCURRENCY: AUTO})
    recorded = RecordedRun(store, alone)
    recorded.rebuild(without=execution)
    recorded.take_news(())
    recorded.run.settle()
    seen = recorded.run.due(execution, 0 if match is None else int(match[1]))
    if seen is None:
        return None
    form, key = form_of(job), store.cache.key_of(job.id, index)
    found: Parts | None = None
    for context in contexts(store, job.id):
        keys = UnitKeys(nodes_of(form.spec), form.prompts, parts_of(form, context), job.name)
        found = keys.parts(seen)
        if key is not None and keys.key(seen) == key[:KEY_BYTES]:
            break
    return found
