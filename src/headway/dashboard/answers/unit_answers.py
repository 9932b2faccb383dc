"""The units of a job as a list with filters and search, and one unit with everything about it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from headway.core.unit_states import ENDED, GOOD, Status
from headway.dashboard.answers.query import BadRequest, Page, bounded
from headway.dashboard.records.job_reading import JobReading, NoSuchUnit, RecordPlace
from headway.dashboard.troubles.failure_troubles import advice_for
from headway.dashboard.troubles.trouble import command_line
from headway.display.html.page_shell import bounded_text
from headway.jobs.unit_report import UnitReport
from headway.reports.unit_pages.listed import row_of
from headway.reports.unit_pages.turns import SpokenTurn, answer_turns, clean, message_turns, request_turns
from headway.reports.unit_search import UnitQuery, search_units
from headway.reports.unit_timeline import unit_timeline
from headway.reports.units import unit_report
from headway.stores.records import Job, UnitResult
from headway.stores.row_conversion import uid
from headway.stores.store import Store
from headway.stores.unit_lists import UnitFilter

#: Statuses that a filter stands for, where it is more than one.
_SEVERAL: Final[dict[str, tuple[str, ...]]] = {"running": (Status.ASSIGNED, Status.RUNNING)}
_STATUSES: Final = frozenset(str(status) for status in Status)
#: The last lines of an agent that a page shows, and bytes of a request or an answer that are shown as JSON.
_MOST_LINES: Final = 1_000
_MOST_BYTES: Final = 262_144
#: Ids of units that a unit waits for, and of its files.
_MOST_NAMES: Final = 200


def units_answer(
    place: RecordPlace, store: Store, reading: JobReading, page: Page, query: Mapping[str, str]
) -> dict[str, Any]:
    """A page of units: those that the filters accept and that have the words of `q`."""
    words = bounded(query, "q")
    asked = UnitQuery(words, _filter(query), page.after or "", page.limit)
    with place.indexes.index_of(reading.job) as index:
        found = search_units(store, reading.job, asked, index)
    fields: dict[str, Any] = msgspec.to_builtins(found)
    return fields


def _filter(query: Mapping[str, str]) -> UnitFilter:
    statuses: list[str] = []
    for name in filter(None, query.get("status", "").split(",")):
        if name not in _STATUSES:
            raise BadRequest(f"'status' is one of: {', '.join(sorted(_STATUSES))}")
        statuses += _SEVERAL.get(name, (name,))
    codes = tuple(filter(None, bounded(query, "code").split(",")))
    return UnitFilter(tuple(statuses), codes, bounded(query, "lane"))


def unit_answer(place: RecordPlace, store: Store, reading: JobReading, index: int) -> dict[str, Any]:
    """One unit: every second of its life, every attempt, what was said, and what to do if it failed."""
    job = reading.job
    results = store.results(job.id, index - 1, 1)
    if not results or results[0].index != index:
        raise NoSuchUnit(str(index))
    row, report = results[0], unit_report(store, job, index)
    [listed] = store.lists.rows(job.id, [index])
    body = b"" if row.body is None or row.status not in GOOD else row.body
    return {
        "unit": {
            **msgspec.structs.asdict(row_of(listed)),
            "metadata": _json(row.metadata),
            "waits_for": _waits_for(store, job, index),
            "files": [f"{one.type}, {one.size:,} bytes" for one in report.request.attachments[:_MOST_NAMES]],
            "input_tokens": row.input_tokens,
            "output_tokens": row.output_tokens,
        },
        "timeline": unit_timeline(store, job, row, live=reading.is_live, now_utc=time.time()),
        "attempts": report.attempts,
        "notes": {number: _note(note) for number, note in report.notes.items()},
        "conversation": list(_conversation(store, job, report, body)),
        "request": {"path": report.request.path, "body": _body(bytes(report.request.body))},
        "answer": _body(body) if body else None,
        "error": _error(row, is_live=reading.is_live),
        "command": command_line(place.flags, "show", job.name, row.custom_id),
    }


def _error(row: UnitResult, *, is_live: bool) -> dict[str, Any] | None:
    """Why a unit failed, or why it waits for another attempt."""
    if row.status in GOOD or not (row.code or row.message):
        return None
    code = row.code or ("cancelled" if row.status == Status.CANCELLED else "")
    waiting = "It is tried again by itself." if is_live else "It is tried again when the job is resumed."
    do = advice_for(code) if row.status in ENDED else waiting
    return {"code": code or row.status, "message": row.message or "", "do": do}


def _waits_for(store: Store, job: Job, index: int) -> list[dict[str, Any]]:
    befores = dict.fromkeys(edge.before for edge in store.edges(job.id, [index]))
    names = store.lists.ids(job.id, list(befores)[:_MOST_NAMES])
    return [{"index": before, "id": name} for before, name in names.items()]


def _conversation(store: Store, job: Job, report: UnitReport, answer: bytes) -> Iterator[SpokenTurn]:
    """Everything that was said: of an agent line by line, otherwise the request with its corrections and the answer."""
    lines = store.last_transcript(uid(job.id, report.unit), _MOST_LINES)
    repairs = [one.request for one in report.repairs if one.request is not None]
    yield from request_turns(bytes(repairs[-1] if repairs else report.request.body))
    if lines:
        for line in lines:
            for message in line.messages:
                yield from message_turns(message, line.at_utc, line.attempt)
        return
    noted = [(number, note["messages"]) for number, note in report.notes.items() if note.get("messages")]
    for number, messages in noted:
        for message in messages if isinstance(messages, list) else ():
            yield from message_turns(message, None, number) if isinstance(message, dict) else ()
    if not noted:
        yield from answer_turns(answer)


def _note(note: Mapping[str, Any]) -> dict[str, str]:
    """What an attempt left behind, without its conversation."""
    return {name: bounded_text(value, 20_000) for name, value in note.items() if name != "messages"}


def _body(data: bytes) -> Any:
    """A body as a JSON value, or as the beginning of its text if it is long or no JSON."""
    if len(data) <= _MOST_BYTES and (value := _json(data)) is not None:
        return value
    text = data[:_MOST_BYTES].decode(errors="replace")
    return text if len(data) <= _MOST_BYTES else f"{text}… ({len(data):,} bytes)"


def _json(data: bytes | None) -> Any:
    try:
        return None if data is None else clean(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
