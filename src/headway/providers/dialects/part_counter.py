"""Limits the number of parts of one streamed answer.

A choice, a tool call or a field takes ten bytes of a stream and some hundred bytes of memory, so the ceiling on bytes does not
bound the memory that they take. These two numbers do: all parts of an answer together take about 10 MB at the most.
"""

from __future__ import annotations

from typing import Any, Final

from headway.providers.dialects.answer_errors import AnswerTooComplex

#: Choices, tool calls, blocks or candidates of one answer. OpenAI allows 128 choices.
MOST_PARTS: Final = 4096
#: Fields of all its objects together, and the parts of Gemini's candidates. A tool call has six.
MOST_FIELDS: Final = 32_768


class PartCounter:
    """Counts the parts of one answer while it grows. Raises `AnswerTooComplex` above a ceiling."""

    __slots__ = ("_fields", "_parts")

    def __init__(self) -> None:
        self._parts = 0
        self._fields = 0

    def add_part(self, what: str) -> None:
        """Count a choice, tool call, block or candidate."""
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise AnswerTooComplex(f"than {MOST_PARTS:,} {what}")

    def check_room(self, fields: int) -> None:
        """Raise if one delta has more fields than a whole answer may have."""
        if fields > MOST_FIELDS:
            self.add_fields(fields)

    def add_fields(self, count: int = 1, what: str = "fields") -> None:
        """Count fields."""
        self._fields += count
        if self._fields > MOST_FIELDS:
            raise AnswerTooComplex(f"than {MOST_FIELDS:,} {what}")

    def update(self, fields: dict[str, Any], more: dict[str, Any]) -> None:
        """Update an object of the answer, and count its new fields."""
        before = len(fields)
        fields |= more
        if len(fields) > before:
            self.add_fields(len(fields) - before)
