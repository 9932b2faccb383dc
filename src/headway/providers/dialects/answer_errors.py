"""Errors of answers that cannot be used: unreadable, too long, or an error of the provider."""

from __future__ import annotations


class UnreadableAnswer(Exception):
    """The stream is malformed. The text says why, without quoting it."""


class AnswerTooLong(UnreadableAnswer):
    """An answer, or one event of it, is above the ceiling in memory. The provider made it, and may charge for it."""

    remedy = "raise max_answer_bytes of this provider to take it"

    def __init__(self, most: int, what: str = "the answer") -> None:
        super().__init__(f"{what} is longer than {size_text(most)}")


class AnswerTooComplex(AnswerTooLong, ValueError):
    """An answer has more parts or values than any model sends, and would take too much memory."""

    remedy = "check base_url"

    def __init__(self, most: str) -> None:
        UnreadableAnswer.__init__(self, f"the answer has more {most}, which no model sends")


def size_text(size: int) -> str:
    """A number of bytes for people: 64 MB, 1.5 MB, 200 bytes."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} bytes"


class StreamedError(Exception):
    """The provider reports an error in the stream; `body` is its text."""

    def __init__(self, body: bytes) -> None:
        super().__init__("an error in the stream")
        self.body = body
