"""One unit: its records, and the text that `headway show` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headway.stores.answer_cache import AnswerSource
from headway.stores.records import AttemptView, StoredAttachment


class UnitRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The request: its path, its body as JSON, and the files that its marks stand for."""

    path: str
    body: msgspec.Raw
    attachments: Sequence[StoredAttachment] = ()


class UnitRepair(msgspec.Struct, frozen=True):
    """An answer that did not fit the job's schema, and the request after it."""

    attempt: int
    answer: msgspec.Raw
    request: msgspec.Raw | None


class UnitReport(msgspec.Struct, frozen=True):
    """A unit. `result` is its OpenAI Batch result row, for every kind of job. `notes` are those of its attempts. `answer_of` is
    the unit from which the cache took its answer.
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
    """A titled part of the text. Bytes are JSON, and are printed indented."""

    title: str
    body: str | bytes


class UnitText(msgspec.Struct, frozen=True):
    """The text of a unit: its destination (`where`), remarks below its attempts, and sections with its input and output.

    `fields` are keys that this kind of job adds to the JSON of a unit.
    """

    where: str
    sections: Sequence[Section]
    remarks: Sequence[str] = ()
    fields: Mapping[str, Any] = {}
