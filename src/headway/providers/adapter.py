"""The contract of an adapter: it carries one attempt to a provider and back.

An adapter sends once and waits. It never retries and never paces. It raises for nothing that a provider or a network can
do: every failure is an `Answer` with a kind. Only a cancellation leaves `send` as an exception, and its socket is closed
by then. `is_unsent` says whether any byte of the request had been sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from headway.core.model import SUCCESS, Hint, Outcome, Usage

#: Called once, when the headers of a streamed answer have arrived: what they say about limits, and the input tokens if they
#: are known already. An answer in one piece needs no such call: its headers are in the outcome.
Admitted = Callable[[Hint | None, Usage | None], None]


def mark_unsent(fault: BaseException) -> None:
    """Mark an exception that was raised before any byte of the request was sent."""
    fault.headway_unsent = True  # type: ignore[attr-defined]


def is_unsent(fault: BaseException) -> bool:
    """Whether it is certain that no byte of the request was sent."""
    return getattr(fault, "headway_unsent", False)


class Request(msgspec.Struct, frozen=True, gc=False):
    """One call: the path below the provider's root ("/v1/chat/completions") and the JSON body.

    `repairs` is how many corrections the conversation contains already. `alone`: it needs a worker that has run no other
    unit.
    """

    path: str
    body: bytes
    repairs: int = 0
    alone: bool = False


class RateLimit(msgspec.Struct, frozen=True, gc=False):
    """A rate limit, for the attempt's record (DESIGN §2). `source` is where it was read."""

    source: str
    retry_after_s: float | None
    message: str
    detected_utc: float


class Complaint(msgspec.Struct, frozen=True, gc=False):
    """What is wrong with a successful answer. `again` is the next request in the same conversation; None: there is none.

    `more_chars` is how many characters that request is longer than the previous one.
    """

    message: str
    again: Request | None = None
    more_chars: int = 0


class Answer(msgspec.Struct, frozen=True, gc=False):
    """How an attempt ended, as the engine records it. `body` is the JSON that an unstreamed call returns."""

    outcome: Outcome = SUCCESS
    status: int | None = None
    request_id: str = ""
    body: bytes = b""
    rate_limit: RateLimit | None = None
    complaint: Complaint | None = None
    #: Further details of the attempt, as JSON: output, memory, files, the turns of a conversation.
    note: bytes = b""


class Adapter(Protocol):
    """Sends requests to one provider."""

    async def open(self) -> None:
        """Prepare to send. Called once, on the engine's loop."""

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        """Send once. A timeout is an answer of kind `timeout`."""

    async def close(self) -> None:
        """Close every connection."""
