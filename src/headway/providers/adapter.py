"""The contract of an adapter: it carries one attempt to a provider and back.

An adapter sends once and waits. It never retries and never paces. It raises for nothing that a provider or a network can
do: every failure is an `Answer` with a kind. Only a cancellation leaves `send` as an exception, and its socket is closed
by then. `is_unsent` says whether any byte of the request had been sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import msgspec

from headway.core.model import SUCCESS, Hint, Outcome, Usage
from headway.providers.attached_body import AttachedBody
from headway.providers.attempt_log import AttemptLog

#: Called with each piece of the answer's text as it arrives.
OnText = Callable[[str], None]


class Admitted(Protocol):
    """What an adapter reports of an attempt while it runs.

    It is called once, when the headers of a streamed answer have arrived: with what they say about limits, and the input tokens
    if they are known already. An answer in one piece needs no such call: its headers are in the outcome.
    """

    def __call__(self, hint: Hint | None, usage: Usage | None, /) -> None:
        """The provider accepted the request."""

    def delayed(self) -> None:
        """The request waits for a connection."""

    def written(self) -> None:
        """A request that was delayed has just been written."""


def mark_unsent(fault: BaseException) -> None:
    """Mark an exception that was raised before any byte of the request was sent."""
    fault.headway_unsent = True  # type: ignore[attr-defined]


def is_unsent(fault: BaseException) -> bool:
    """Whether it is certain that no byte of the request was sent."""
    return getattr(fault, "headway_unsent", False)


class AttachmentSource(Protocol):
    """Reads the files that the marks in a body stand for."""

    async def open(self, body: bytes) -> AttachedBody:
        """The body with its files. The caller releases it as soon as it is sent."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """One call: the path below the provider's root ("/v1/chat/completions") and the JSON body.

    `repairs` is how many corrections the conversation contains already. `alone`: it needs a worker that has run no other
    unit. `session` is a name for the unit's conversation that stays the same over all attempts, and `attempt` their number: only
    for adapters with `has_sessions`. `on_text` gets the text of the answer while it arrives, if the API can stream; the answer is the
    same either way. `attachments`: the body has marks of attached files, which are inserted while it is sent.
    `log` records the attempt while it runs: only for adapters with `takes_log`. `traceparent` (W3C Trace Context) is for what the attempt starts;
    "": it is not traced, or the provider must not know. `unit_id` is the unit's id in its input; only a traced request has it.
    """

    path: str
    body: bytes
    repairs: int = 0
    alone: bool = False
    session: str = ""
    attempt: int = 0
    on_text: OnText | None = None
    attachments: AttachmentSource | None = None
    log: AttemptLog | None = None
    traceparent: str = ""
    unit_id: str = ""


class RateLimit(msgspec.Struct, frozen=True, gc=False):
    """A rate limit, for the attempt's record (DESIGN §2). `source` is where it was read."""

    source: str
    retry_after_s: float | None
    message: str
    detected_utc: float


class Complaint(msgspec.Struct, frozen=True, gc=False):
    """What is wrong with a successful answer. `again` is the next request in the same conversation; None: there is none.

    `more_chars` is how many characters that request is longer than the previous one. `is_free`: the next request costs the unit no attempt.
    """

    message: str
    again: Request | None = None
    more_chars: int = 0
    is_free: bool = False


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


@runtime_checkable
class KeepsConnections(Protocol):
    """An adapter that can open connections before they are needed."""

    def keep_ready(self, n: int) -> None:
        """About so many further requests are sent soon: have connections open for them. Idle ones count."""
