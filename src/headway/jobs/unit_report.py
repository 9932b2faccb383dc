"""One unit: what the records have of it, and what `headway show` prints of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headway.stores.answer_cache import AnswerSource
from headway.stores.records import AttemptView


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
    """A unit. `result` is its end as an OpenAI Batch result row, whatever the kind of its job; `notes` are what its attempts
    left behind, `answer_of` is the unit whose answer it has from the cache.
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


class Section(msgspec.Struct, frozen=True):
    """A part of a unit under a title. Bytes are JSON, and are printed indented."""

    title: str
    body: str | bytes


class UnitText(msgspec.Struct, frozen=True):
    """A unit in words: where it goes, lines below its attempts, and what went in and came out.

    `fields` are the keys that only this kind of job adds to the JSON of a unit.
    """

    where: str
    sections: Sequence[Section]
    remarks: Sequence[str] = ()
    fields: Mapping[str, Any] = {}
