"""One event of `/api/events`, as it is sent."""

from __future__ import annotations

from typing import Any, NamedTuple

from headway.dashboard.json_answer import json_bytes


class LiveEvent(NamedTuple):
    """A kind of event and its JSON. A later one `replaces` an earlier one of the same kind that has not been sent."""

    kind: str
    data: bytes
    replaces: bool = True

    def frame(self) -> bytes:
        """The event as an EventSource reads it. JSON has no line breaks."""
        return b"event: %s\ndata: %s\n\n" % (self.kind.encode(), self.data)


def live_event(kind: str, value: Any, *, replaces: bool = True) -> LiveEvent:
    """An event with a value."""
    return LiveEvent(kind, json_bytes(value), replaces)
