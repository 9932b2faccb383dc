"""An adapter whose answers must fit a schema. An answer that does not fit is requested once more, in the same conversation.

It is between the engine and the adapter of a provider, only for jobs with a schema. For the lane, an answer that does not fit is
a success; it has a complaint with the next request. That request goes through lanes, budget and records like any other. There
is one repair: a model that fails with the errors of the validator in front of it does not succeed with more of them.
"""

from __future__ import annotations

from typing import Final

from msgspec import structs

from headway.batch.answer_schema import MOST_REPORTED, Mismatch, Validator
from headway.batch.answer_text import cut_short, decoded, refusal_of, text_of
from headway.providers.adapter import Adapter, Admitted, Answer, Complaint, Request
from headway.providers.dialects.structured_output import follow_up, schema_dialect
from headway.providers.error_messages import short_message

MOST_REPAIRS: Final = 1
#: Characters of an answer that are quoted to the model: they are paid for as input, and the question is still there.
MOST_QUOTED: Final = 8_000
#: Characters of each mismatch: it may contain names that the model chose.
LONGEST_MISMATCH: Final = 300


class SchemaAdapter:
    """The adapter of one provider with the schema of a job."""

    def __init__(self, adapter: Adapter, kind: str, validator: Validator) -> None:
        self._adapter, self._kind, self._validator = adapter, kind, validator

    async def open(self) -> None:
        await self._adapter.open()

    async def close(self) -> None:
        await self._adapter.close()

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        """Send once, and validate a successful answer."""
        answer = await self._adapter.send(request, timeout_s, admitted)
        if answer.outcome.kind is not None:
            return answer
        complaint = self._complaint(request, answer)
        return answer if complaint is None else structs.replace(answer, complaint=complaint)

    def _complaint(self, request: Request, answer: Answer) -> Complaint | None:
        dialect = schema_dialect(self._kind, request.path)
        if dialect is None:
            return None
        body = decoded(answer.body)
        text = text_of(body)
        wrong = [Mismatch("", "it has no text", "")] if text is None else self._validator.mismatches(text)
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
    return short_message(f"the answer does not fit the schema: {found[0]}{rest}{why}")
