"""An adapter whose answers must fit a schema. An answer that does not fit is requested once more, in the same conversation.

It is between the engine and the adapter of a provider, only for jobs with a schema. For the lane, an answer that does not fit is
a success; it has a complaint with the next request. That request goes through lanes, budget and records like any other. There
is one repair: a model that fails with the errors of the validator in front of it does not succeed with more of them.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from msgspec import structs

from headway.batch.answer_schema import MOST_REPORTED, NOT_JSON, Mismatch
from headway.batch.answer_text import cut_short, decoded, refusal_of, text_of
from headway.providers.adapter import Adapter, Admitted, Answer, Complaint, KeepsConnections, Request
from headway.providers.dialects.structured_output import follow_up, schema_dialect
from headway.providers.error_messages import short_message

MOST_REPAIRS: Final = 1
#: Characters of an answer that are quoted to the model: they are paid for as input, and the question is still there.
MOST_QUOTED: Final = 8_000
#: Characters of each mismatch: it may contain names that the model chose.
LONGEST_MISMATCH: Final = 300


class AnswerValidator(Protocol):
    """Says what is wrong with the text of an answer."""

    def mismatches(self, text: str) -> list[Mismatch]:
        """The first mismatches; none if it fits."""


class SchemaAdapter:
    """The adapter of one provider with the schema of a job."""

    def __init__(self, adapter: Adapter, kind: str, validator: AnswerValidator) -> None:
        self._adapter, self._kind, self._validator = adapter, kind, validator

    def __getattr__(self, name: str) -> Any:
        """What the adapter says of itself: that it has sessions, takes a log, or starts workers."""
        return getattr(self._adapter, name)

    async def open(self) -> None:
        await self._adapter.open()

    async def close(self) -> None:
        await self._adapter.close()

    def keep_ready(self, n: int) -> None:
        if isinstance(self._adapter, KeepsConnections):
            self._adapter.keep_ready(n)

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        """Send once, and validate a successful answer."""
        answer = await self._adapter.send(request, timeout_s, admitted)
        if answer.outcome.kind is not None:
            return answer
        complaint = complaint_of(self._kind, self._validator, request, answer)
        return answer if complaint is None else structs.replace(answer, complaint=complaint)


def complaint_of(kind: str, validator: AnswerValidator, request: Request, answer: Answer) -> Complaint | None:
    """What is wrong with a successful answer of a provider kind, with the request that repairs it, if one is left. None: it fits, or
    the path of the request has no schemas.
    """
    dialect = schema_dialect(kind, request.path)
    if dialect is None:
        return None
    body = decoded(answer.body)
    text = text_of(body)
    wrong = [Mismatch("", "it has no text", "")] if text is None else validator.mismatches(text)
    if not wrong:
        return None
    refusal = refusal_of(body)
    if refusal is not None:
        text, wrong = text or refusal, [Mismatch("", f"the model refused: {refusal}", "")]
    message = _message(wrong, cut=cut_short(body))
    if request.repairs >= MOST_REPAIRS:
        return Complaint(message)
    correction, quoted = correction_for(wrong), _ends(text or "", MOST_QUOTED)
    longer = follow_up(dialect, request.body, quoted, correction)
    return Complaint(
        message, Request(request.path, longer, request.repairs + 1), len(quoted) + len(correction)
    )


def _ends(text: str, most: int) -> str:
    """The text, or its beginning and end if it is longer than `most` characters."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"


def correction_for(found: list[Mismatch]) -> str:
    """The message to the model about its answer."""
    listed = "\n".join(f"- {_ends(str(mismatch), LONGEST_MISMATCH)}" for mismatch in found)
    more = "\n- and perhaps more" if len(found) == MOST_REPORTED else ""
    return (
        f"That answer does not fit the JSON Schema:\n{listed}{more}\n"
        "Answer again with the whole JSON, corrected, and nothing else."
    )


def _message(found: list[Mismatch], *, cut: bool) -> str:
    """The error message: the first mismatch, and whether the answer was cut off."""
    more = len(found) - 1
    rest = f" (and {more} more)" if more else ""
    why = "; it was cut off at max_tokens: raise --max-tokens" if cut else ""
    first = str(found[0])
    if first.startswith(NOT_JSON):
        return short_message(f"the answer {first.removeprefix('it ')}{why}")
    return short_message(f"the answer does not fit the schema: {first}{rest}{why}")
