"""One unit: what was sent, what came back, and every attempt at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headway.batch.output import lines_of
from headway.stores.cache import AnswerSource
from headway.stores.records import AttemptView, Job
from headway.stores.store import Store


class UnitRequest(msgspec.Struct, frozen=True):
    """What is sent: the path, and the body as JSON."""

    path: str
    body: msgspec.Raw


class UnitRepair(msgspec.Struct, frozen=True):
    """An answer that did not fit the job's schema, and what was asked next."""

    attempt: int
    answer: msgspec.Raw
    request: msgspec.Raw | None


class UnitReport(msgspec.Struct, frozen=True):
    """A unit. `result` is its row of the output file, `notes` what its attempts left behind, `answer_of` the unit whose
    answer it has from the cache.
    """

    job: str
    unit: int
    custom_id: str
    provider: str
    model: str
    request: UnitRequest
    result: msgspec.Raw
    attempts: Sequence[AttemptView]
    notes: Mapping[int, Mapping[str, object]]
    repairs: Sequence[UnitRepair]
    answer_of: AnswerSource | None


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
