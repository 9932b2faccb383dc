"""The contract of whatever carries one attempt to a provider and back.

An adapter sends once and waits. It never retries, never paces, never raises for anything that a provider or a
network can do: every such thing is an `Answer` with a kind. Only a cancellation leaves `send` as an exception, and
by then its socket is closed; `is_unsent` tells whether anything of the request had left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from headway.core.model import SUCCESS, Hint, Outcome, Usage

#: Called once, when a streamed answer's first headers are here: what they say of limits, and the input if it is
#: counted already. An answer that comes in one piece needs no such call: its headers are in the outcome.
Admitted = Callable[[Hint | None, Usage | None], None]


def mark_unsent(fault: BaseException) -> None:
    """Note on an exception that nothing of the request had left when it was raised."""
    fault.headway_unsent = True  # type: ignore[attr-defined]


def is_unsent(fault: BaseException) -> bool:
    """Whether nothing of the request had left, for certain."""
    return getattr(fault, "headway_unsent", False)


class Request(msgspec.Struct, frozen=True, gc=False):
    """One call as it is sent: the path below the provider's root ("/v1/chat/completions") and the JSON body.

    `repairs` is how often the conversation has been told already that an answer did not fit. `alone`: a worker that has
    run no other unit is to do it.
    """

    path: str
    body: bytes
    repairs: int = 0
    alone: bool = False


class RateLimit(msgspec.Struct, frozen=True, gc=False):
    """Where a limit was met, for the attempt's record (DESIGN §2)."""

    source: str
    retry_after_s: float | None
    message: str
    detected_utc: float


class Complaint(msgspec.Struct, frozen=True, gc=False):
    """What is wrong with an answer that came well. `again` asks once more in the same conversation; None: nobody asks.

    `more_chars` is how much longer than the request before that one is.
    """

    message: str
    again: Request | None = None
    more_chars: int = 0


class Answer(msgspec.Struct, frozen=True, gc=False):
    """How an attempt ended, as the engine records it. `body` is the JSON that an unstreamed call gives."""

    outcome: Outcome = SUCCESS
    status: int | None = None
    request_id: str = ""
    body: bytes = b""
    rate_limit: RateLimit | None = None
    complaint: Complaint | None = None
    #: What the attempt left behind besides, as JSON: output, memory, files, the turns of a conversation.
    note: bytes = b""


class Adapter(Protocol):
    """One provider's way to be asked."""

    async def open(self) -> None:
        """Get ready to send; called once, on the engine's loop."""

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        """Send once. A timeout is an answer of kind `timeout`."""

    async def close(self) -> None:
        """Let go of every connection."""
