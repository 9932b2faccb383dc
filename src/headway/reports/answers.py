"""The answer of one model to a question: its text, and what it took."""

from __future__ import annotations

import msgspec

from headway.batch.answer_text import answer_of, cut_short, decoded
from headway.batch.output_file import reasons
from headway.batch.result_rows import COST_DIGITS
from headway.core.unit_states import GOOD, Status
from headway.stores.records import Job, UnitResult
from headway.stores.store import Store


class AnswerUsage(msgspec.Struct, frozen=True):
    """The tokens of all attempts."""

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int


class AnswerError(msgspec.Struct, frozen=True):
    """Why there is no answer."""

    code: str
    message: str


class AnswerReport(msgspec.Struct, frozen=True):
    """What `headway ask --json` prints for a model. Without an answer, `text` is null and `error` says why."""

    model: str
    text: str | None
    error: AnswerError | None
    usage: AnswerUsage | None
    cost_usd: float | None
    #: Of the last attempt, from its start to its end; None if nothing was sent.
    latency_s: float | None
    #: The same until the first text arrived; None if the answer came whole.
    first_text_s: float | None
    attempts: int
    cached: bool
    #: Whether the answer ended at max_tokens.
    cut_off: bool
    job: str


def answer_report(store: Store, job: Job, row: UnitResult, first_text_s: float | None = None) -> AnswerReport:
    """The report of a unit that has ended, or that the run left unfinished."""
    good = row.status in GOOD
    error = None
    if not good:
        left = reasons(store, job).get((row.provider, row.model), ("interrupted", "it was not finished"))
        code, message = (row.code or row.status, row.message or "") if row.finished_utc else left
        error = AnswerError(code, message)
    cost = 0.0 if row.status == Status.CACHED and not row.cost_usd else row.cost_usd
    return AnswerReport(
        model=f"{row.provider}/{row.model}",
        text=answer_of(row.body or b"") if good else None,
        error=error,
        usage=_usage(row),
        cost_usd=None if cost is None else round(cost, COST_DIGITS),
        latency_s=_latency_s(store, job, row),
        first_text_s=first_text_s,
        attempts=row.attempts,
        cached=row.status == Status.CACHED,
        cut_off=good and cut_short(decoded(row.body or b"")),
        job=job.name,
    )


def _usage(row: UnitResult) -> AnswerUsage | None:
    if row.input_tokens is None:
        return None
    return AnswerUsage(row.input_tokens, row.output_tokens or 0, row.cached_tokens or 0)


def _latency_s(store: Store, job: Job, row: UnitResult) -> float | None:
    attempts = store.attempts(job.id, row.index)
    if not attempts or (last := attempts[-1]).started_utc is None or last.finished_utc is None:
        return None
    return round(last.finished_utc - last.started_utc, 3)
