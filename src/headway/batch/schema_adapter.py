"""An adapter whose answers must fit a schema: what does not is asked for once more, in the same conversation.

Sits between the engine and a provider's adapter, for jobs with a schema only. An answer that does not fit leaves here as
the success that it is to the lane, with a complaint; the engine has no opinion, and the next request goes through lanes,
budget and records as any other. One repair: a model that gets it wrong with the validator's words before it does not
get it right with more of them.
"""

from __future__ import annotations

from typing import Final

from msgspec import structs

from headway.batch.answer_schema import MOST_TOLD, Mismatch, Validator
from headway.batch.answer_text import cut_short, decoded, refusal_of, text_of
from headway.providers.adapter import Adapter, Admitted, Answer, Complaint, Request
from headway.providers.dialects.structured_output import follow_up, schema_dialect
from headway.providers.error_messages import short_message

MOST_REPAIRS: Final = 1
#: Characters of an answer that a model sees again: it is paid for as input, and the question is there to answer it anew.
MOST_QUOTED: Final = 8_000
#: And of each thing that is wrong with it: the names in an answer are the model's.
MOST_SAID: Final = 300


class SchemaAdapter:
    """One provider's adapter, and the schema that a job's answers must fit."""

    def __init__(self, adapter: Adapter, kind: str, validator: Validator) -> None:
        self._adapter, self._kind, self._validator = adapter, kind, validator

    async def open(self) -> None:
        await self._adapter.open()

    async def close(self) -> None:
        await self._adapter.close()

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        """Send once, and hold a good answer against the schema."""
        answer = await self._adapter.send(request, timeout_s, admitted)
        if answer.outcome.kind is not None:
            return answer
        complaint = self._judge(request, answer)
        return answer if complaint is None else structs.replace(answer, complaint=complaint)

    def _judge(self, request: Request, answer: Answer) -> Complaint | None:
        dialect = schema_dialect(self._kind, request.path)
        if dialect is None:
            return None
        body = decoded(answer.body)
        said = text_of(body)
        found = [Mismatch("", "it has no text", "")] if said is None else self._validator.mismatches(said)
        if not found:
            return None
        refusal = refusal_of(body)
        if refusal is not None:
            said, found = said or refusal, [Mismatch("", f"the model refused: {refusal}", "")]
        message = _message(found, cut=cut_short(body))
        if request.repairs >= MOST_REPAIRS:
            return Complaint(message)
        words, quoted = words_for(found), _ends(said or "", MOST_QUOTED)
        longer = follow_up(dialect, request.body, quoted, words)
        return Complaint(
            message, Request(request.path, longer, request.repairs + 1), len(quoted) + len(words)
        )


def _ends(text: str, most: int) -> str:
    """The text, or its beginning and its end where it is longer than `most` characters."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"


def words_for(found: list[Mismatch]) -> str:
    """What a model is told about its answer."""
    listed = "\n".join(f"- {_ends(str(mismatch), MOST_SAID)}" for mismatch in found)
    more = "\n- and perhaps more" if len(found) == MOST_TOLD else ""
    return (
        f"That answer does not fit the JSON Schema:\n{listed}{more}\n"
        "Answer again with the whole JSON, corrected, and nothing else."
    )


def _message(found: list[Mismatch], *, cut: bool) -> str:
    """What people are told: the first mismatch, and whether its cause is a limit."""
    more = len(found) - 1
    rest = f" (and {more} more)" if more else ""
    why = "; it was cut off at max_tokens: raise --max-tokens" if cut else ""
    return short_message(f"the answer does not fit the schema: {found[0]}{rest}{why}")
