"""Everything about one unit: its row, its life, its attempts, the whole conversation, the request, the answer, the error and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from headway.batch.answer_text import decoded
from headway.core.unit_states import GOOD
from headway.errors import UsageError
from headway.jobs.unit_report import UnitReport
from headway.reports import transcripts
from headway.reports.unit_pages.listed import UnitRow, rows_of
from headway.reports.unit_pages.turns import SpokenTurn, answer_turns, clean, message_turns, request_turns
from headway.reports.unit_timeline import TimelinePiece, unit_timeline
from headway.reports.units import unit_report
from headway.safe_text import visible
from headway.stores.records import AttemptView, Job
from headway.stores.row_conversion import uid
from headway.stores.store import Store
from headway.unit_advice import advice_of

#: The last messages of a conversation that are shown: an agent may have tens of thousands.
MOST_TURNS: Final = 2_000
#: A request or an answer above this size is shown as its beginning.
MOST_BYTES: Final = 1_000_000
#: Notes of an attempt that name files.
_FILES: Final = ("output_files", "files")


class UnitDetails(UnitRow, frozen=True, kw_only=True):
    """The row of a unit, and what only its own page has."""

    metadata: Any
    waits_for: Sequence[str]
    files: Sequence[str]


class ShownError(msgspec.Struct, frozen=True):
    """Why a unit failed or waits, and what the user can do."""

    code: str
    message: str
    do: str


class UnitPage(msgspec.Struct, frozen=True):
    """One unit. `omitted`: messages before those of `conversation`."""

    unit: UnitDetails
    timeline: Sequence[TimelinePiece]
    attempts: Sequence[AttemptView]
    conversation: Sequence[SpokenTurn]
    omitted: int
    request: Any
    answer: Any
    error: ShownError | None
    command: str


def unit_page(store: Store, job: Job, index: int, *, live: bool, now_utc: float) -> UnitPage:
    """The page of a unit. `live`: a process runs the job."""
    if not 0 <= index < job.total:
        raise UsageError(f"job '{job.name}' has no unit {index}", hint=f"its units are 0 to {job.total - 1}")
    result = store.results(job.id, index - 1, 1)[0]
    report = unit_report(store, job, index)
    [row] = rows_of(store, job, [index])
    turns = conversation(store, job, report, result.body)
    failed = row.status not in GOOD and (row.code or row.message)
    return UnitPage(
        unit=UnitDetails(
            **{name: getattr(row, name) for name in UnitRow.__struct_fields__},
            metadata=_json(result.metadata or b"null"),
            waits_for=[visible(name) for name, _, _ in store.upstream_of(job.id, index)],
            files=_files(report),
        ),
        timeline=[
            msgspec.structs.replace(piece, why=visible(piece.why))
            for piece in unit_timeline(store, job, result, live=live, now_utc=now_utc)
        ],
        attempts=[_clean_attempt(one) for one in report.attempts],
        conversation=turns[-MOST_TURNS:],
        omitted=max(0, len(turns) - MOST_TURNS),
        request={"path": visible(report.request.path), "body": _json(bytes(report.request.body))},
        answer=None if result.body is None else _json(result.body),
        error=ShownError(row.code or row.status, row.message or "", advice_of(row.code)) if failed else None,
        command=f"headway show {job.name} {index}",
    )


def conversation(store: Store, job: Job, report: UnitReport, answer: bytes | None) -> list[SpokenTurn]:
    """What was said, in order. What attempts recorded while they ran comes with its times; otherwise it is the request with its answer."""
    try:
        spoken = _recorded(store, job, report)
        if spoken:
            return spoken
        asked = next(
            (bytes(one.request) for one in reversed(report.repairs) if one.request is not None), None
        )
        turns = request_turns(asked or bytes(report.request.body))
        return turns + (answer_turns(answer) if answer else [])
    except RecursionError:
        return []


def _recorded(store: Store, job: Job, report: UnitReport) -> list[SpokenTurn]:
    """The messages of all attempts: line by line where there is a transcript, else those of the notes."""
    turns: dict[int, list[SpokenTurn]] = {}
    for line in transcripts.lines(store, uid(job.id, report.unit)):
        for message in line.messages:
            turns.setdefault(line.attempt, []).extend(message_turns(message, line.at_utc, line.attempt))
    for attempt, note in report.notes.items():
        messages = note.get("messages")
        if attempt not in turns and isinstance(messages, list):
            of = [one for one in messages if isinstance(one, dict)]
            turns[attempt] = [turn for one in of for turn in message_turns(one, attempt=attempt)]
    said = [turn for attempt in sorted(turns) for turn in turns[attempt]]
    has_prompt = any(turn.role == "user" for turn in said)
    return said if not said or has_prompt else [*request_turns(bytes(report.request.body)), *said]


def _files(report: UnitReport) -> list[str]:
    names: list[str] = []
    for note in report.notes.values():
        for key in _FILES:
            listed = note.get(key)
            names += [visible(str(one)) for one in listed] if isinstance(listed, list) else []
    return list(dict.fromkeys(names))


def _clean_attempt(attempt: AttemptView) -> AttemptView:
    message = None if attempt.message is None else visible(attempt.message)
    return msgspec.structs.replace(attempt, message=message, rate_limit=clean(attempt.rate_limit))


def _json(body: bytes) -> Any:
    """A body as a JSON value without control characters; as a text if it is too large, or no JSON."""
    if len(body) > MOST_BYTES:
        return f"{visible(body[:MOST_BYTES].decode(errors='replace'))}… ({len(body):,} bytes)"
    try:
        value = decoded(body) or msgspec.json.decode(body)
        return clean(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return visible(body.decode(errors="replace"))
