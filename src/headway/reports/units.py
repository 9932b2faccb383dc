"""One unit: its request, its answer and every attempt."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.batch.output_file import lines_of
from headway.errors import UsageError
from headway.jobs.unit_report import UnitRepair, UnitReport, UnitRequest
from headway.providers.attached_body import marks_in
from headway.reports import transcripts
from headway.stores.records import Job
from headway.stores.row_conversion import LOWER, SHIFT, uid
from headway.stores.store import Store


def unit_report(store: Store, job: Job, index: int) -> UnitReport:
    """The report of a unit."""
    path, body = store.request(job.id, index)
    row = store.results(job.id, index - 1, 1)[0]
    return UnitReport(
        job=job.name,
        unit=index,
        custom_id=row.custom_id,
        provider=row.provider,
        model=row.model,
        request=UnitRequest(path, msgspec.Raw(body), tuple(store.attachments(job.id, marks_in(body)))),
        result=msgspec.Raw(next(lines_of(store, job, index, index))),
        attempts=store.attempts(job.id, index),
        notes=_notes(store, uid(job.id, index)),
        repairs=[
            UnitRepair(one.number, msgspec.Raw(one.answer or b"null"), None if one.request is None else msgspec.Raw(one.request))
            for one in store.repairs_of(job.id, index)
        ],
        answer_of=store.cache.source(job.id, index),
    )  # fmt: skip


def _notes(store: Store, unit: int) -> dict[int, dict[str, Any]]:
    """The notes of all attempts, with the conversations that were recorded line by line."""
    notes: dict[int, dict[str, Any]] = store.notes_of(unit >> SHIFT, unit & LOWER)
    for attempt, messages in transcripts.messages_by_attempt(store, unit).items():
        notes[attempt] = {**notes.get(attempt, {}), "messages": messages}
    return dict(sorted(notes.items()))


def find_unit(store: Store, job: Job, name: str) -> int:
    """The index of a unit, given its id or its index."""
    index = store.index_of(job.id, name)
    if index is not None:
        return index
    if name.isdecimal() and int(name) < job.total:
        return int(name)
    if job.kind == "flow":
        from headway.flows.running.unit_ids import node_path  # A batch does not load what flows need.

        node = node_path(name)
        if store.units_of_label(job.id, node, 1):
            raise UsageError(
                f"job '{job.name}' has no unit '{name}'",
                hint=f"'headway show {job.name} {node}' lists those of {node}",
            )
        raise UsageError(
            f"job '{job.name}' has no unit and no node '{name}'",
            hint=f"'headway graph --job {job.name}' shows its nodes",
        )
    raise UsageError(
        f"job '{job.name}' has no unit '{name}'",
        hint=f"use an id of the input, or an index below {job.total}",
    )
