"""Units as rows of a list: how each is, and the beginnings of its prompt and its answer."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from headway.batch.answer_text import decoded, text_of
from headway.core.unit_states import ENDED, GOOD
from headway.reports.unit_pages.turns import request_turns
from headway.safe_text import visible
from headway.stores.records import Job
from headway.stores.store import Store
from headway.stores.unit_lists import READ_BYTES, ListedUnit

#: Characters of a prompt and of an answer in a row; the same are searched.
SHOWN_CHARS: Final = 200
#: The first text in a body that was not read to its end.
_FIRST_TEXT: Final = re.compile(rb'"(?:content|text|prompt|input)"\s*:\s*"((?:[^"\\]|\\.){0,800})', re.DOTALL)
_HALF_ESCAPE: Final = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?$")


class UnitRow(msgspec.Struct, frozen=True):
    """A unit of a list. `code` and `message` say why it failed, or why it waits for another attempt."""

    index: int
    id: str
    status: str
    lane: str
    attempts: int
    started_utc: float | None
    finished_utc: float | None
    took_s: float | None
    cost_usd: float | None
    code: str | None
    message: str | None
    prompt: str
    answer: str


def rows_of(store: Store, job: Job, indexes: list[int]) -> list[UnitRow]:
    """The rows of these units, in this order."""
    return [row_of(one) for one in store.lists.rows(job.id, indexes)] if indexes else []


def row_of(unit: ListedUnit) -> UnitRow:
    """A unit as a row."""
    started, finished = unit.started_utc, unit.finished_utc
    timed = unit.status in ENDED and started is not None and finished is not None
    return UnitRow(
        index=unit.index,
        id=visible(unit.custom_id),
        status=unit.status,
        lane=visible(unit.lane),
        attempts=unit.attempts,
        started_utc=started,
        finished_utc=finished,
        took_s=round(max(0.0, (finished or 0.0) - (started or 0.0)), 3) if timed else None,
        cost_usd=unit.cost_usd,
        code=unit.code,
        message=None if unit.message is None else visible(unit.message),
        prompt=visible(prompt_start(unit.request)),
        answer=visible(answer_start(unit.answer)) if unit.answer and unit.status in GOOD else "",
    )


def prompt_start(body: bytes) -> str:
    """The beginning of what the unit asks: of the last message of the user."""
    if len(body) >= READ_BYTES:
        return _first_text(body)
    try:
        turns = request_turns(body)
    except RecursionError:
        return ""
    said = [turn.text for turn in turns if turn.role == "user" and turn.text] or [turn.text for turn in turns]
    return said[-1][:SHOWN_CHARS] if said else ""


def answer_start(body: bytes) -> str:
    """The beginning of an answer's text; of its JSON if it has no text."""
    if len(body) >= READ_BYTES:
        return _first_text(body)
    text = text_of(decoded(body))
    return (body[: 4 * SHOWN_CHARS].decode(errors="replace") if text is None else text)[:SHOWN_CHARS]


def _first_text(body: bytes) -> str:
    match = _FIRST_TEXT.search(body)
    if match is None:
        return body[: 4 * SHOWN_CHARS].decode(errors="replace")[:SHOWN_CHARS]
    text = _HALF_ESCAPE.sub(b"", match[1])
    try:
        return msgspec.json.decode(b'"' + text + b'"', type=str)[:SHOWN_CHARS]
    except (msgspec.DecodeError, UnicodeError):
        return text.decode(errors="replace")[:SHOWN_CHARS]
