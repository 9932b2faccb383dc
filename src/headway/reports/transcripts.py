"""What the attempts at a unit printed and said: line by line, while they run and afterwards."""

from __future__ import annotations

from typing import Any

from headway.stores.records import TranscriptLine
from headway.stores.store import Store

__all__ = ["TranscriptLine", "lines", "messages_by_attempt"]


def lines(store: Store, uid: int, after: int = 0, limit: int = -1) -> list[TranscriptLine]:
    """The lines with ids above `after`, of all attempts at the unit with this key (`stores.row_conversion.uid`), oldest first.

    A row that Headway added itself has an empty line: a remark, or the prompt that a resumed session got.
    """
    return store.transcript(uid, after, limit)


def messages_by_attempt(store: Store, uid: int) -> dict[int, list[dict[str, Any]]]:
    """The messages that were recorded line by line, by the number of the attempt."""
    found: dict[int, list[dict[str, Any]]] = {}
    for line in lines(store, uid):
        found.setdefault(line.attempt, []).extend(line.messages)
    return {attempt: messages for attempt, messages in found.items() if messages}
