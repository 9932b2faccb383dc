"""One unit: what was sent, what came back, and every attempt at it."""

from __future__ import annotations

import msgspec

from headway.batch.output import lines_of
from headway.jobs.unit import UnitRepair, UnitReport, UnitRequest
from headway.stores.records import Job
from headway.stores.store import Store


def unit_report(store: Store, job: Job, index: int) -> UnitReport:
    """What the records have of a unit."""
    path, body = store.request(job.id, index)
    row = store.results(job.id, index - 1, 1)[0]
    return UnitReport(
        job=job.name,
        unit=index,
        custom_id=row.custom_id,
        provider=row.provider,
        model=row.model,
        request=UnitRequest(path, msgspec.Raw(body)),
        result=msgspec.Raw(next(lines_of(store, job, index, index))),
        attempts=store.attempts(job.id, index),
        notes=store.notes_of(job.id, index),
        repairs=[
            UnitRepair(one.number, msgspec.Raw(one.answer or b"null"), None if one.request is None else msgspec.Raw(one.request))
            for one in store.repairs_of(job.id, index)
        ],
        answer_of=store.cache.source(job.id, index),
    )  # fmt: skip
