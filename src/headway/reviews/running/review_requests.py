"""Questions of a review as requests, in the format of each provider's API, by the same code as the rows of a batch."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from headway.batch.rows import BadRow, Row, from_fields
from headway.config import KINDS
from headway.config.routing import Router, Target
from headway.errors import UsageError
from headway.providers.dialects.structured_output import SchemaRequests
from headway.reviews.findings.review_prompt import ReviewQuestion

#: How agent CLIs are told to change nothing, by the kind of their provider.
_READ_ONLY: Final = {"claude": "plan", "codex": "read-only"}


class _AgentOrModel:
    """A router that knows one target."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.takes_any_row = is_agent(target)

    def route(self, model: str | None) -> Target:
        return self._target

    def check_row(self, target: Target, payload: object) -> None:
        """Its row is a prompt."""


def is_agent(target: Target) -> bool:
    """Whether a target is a program: it gets the whole question as one text."""
    return KINDS[target.kind].takes_any_row


class QuestionRequests:
    """Makes the requests to one target."""

    def __init__(self, target: Target, max_tokens: int = 0) -> None:
        self.target = target
        self._max_tokens = max_tokens
        self._schemas: dict[int, SchemaRequests] = {}

    def row(self, unit: str, question: ReviewQuestion) -> Row:
        """The request of a unit. Raises UsageError if the API cannot take it."""
        router = cast(Router, _AgentOrModel(self.target))
        schema = self._schema(question.schema)
        if is_agent(self.target):
            row = from_fields(1, self._agent_fields(unit, question, schema), router)
        else:
            row = from_fields(1, self._fields(unit, question), router, schema)
        if isinstance(row, BadRow):
            raise UsageError(f"{unit}: {row.message}")
        return row

    def _schema(self, schema: dict[str, Any]) -> SchemaRequests:
        """Prepared once: the schema of a review is one object."""
        if id(schema) not in self._schemas:
            self._schemas[id(schema)] = SchemaRequests(schema)
        return self._schemas[id(schema)]

    def _fields(self, unit: str, question: ReviewQuestion) -> dict[str, Any]:
        fields = {
            "id": unit,
            "system": question.system,
            "prompt": question.prompt,
            "model": self.target.model,
        }
        return fields | ({"max_tokens": self._max_tokens} if self._max_tokens else {})

    def _agent_fields(self, unit: str, question: ReviewQuestion, schema: SchemaRequests) -> dict[str, Any]:
        prompt = f"{question.prompt}\n\n{question.system}\n\n{schema.instruction}"
        fields: dict[str, Any] = {"id": unit, "prompt": prompt, "model": self.target.model}
        mode = _READ_ONLY.get(self.target.kind)
        return fields | ({"agent": {"permission_mode": mode}} if mode else {})


def turns_in(body: bytes) -> list[tuple[str, str]]:
    """The texts in a request, each with its role, without system prompts. The prompt of a program is one text of the user."""
    request = msgspec.json.decode(body)
    if isinstance(request.get("prompt"), str):
        return [("user", request["prompt"])]
    messages = request.get("messages") or request.get("contents") or ()
    spoken = [one for one in messages if one.get("role") not in ("system", "developer")]
    return [(one["role"], _text_of(one.get("content", one.get("parts")))) for one in spoken]


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content or () if isinstance(part.get("text"), str))
