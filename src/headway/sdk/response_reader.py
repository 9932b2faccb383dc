"""A response → an outcome for its lane. Pure except for the clock; the transports read the bytes and pass them here.

A response is read in one of three modes. *whole*: a refusal, or JSON from a known endpoint; it is read completely before
the caller sees it, so the request can still be retried. *stream*: server-sent events, which pass through; the request
can be retried until the first event arrives. *plain*: anything else, passed through as it comes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from headway.config.settings import MAX_ANSWER_BYTES
from headway.core.model import Hint, Kind, Outcome, Usage
from headway.core.retry import HOPELESS, LANE_STOPPERS, THROTTLES
from headway.providers.dialects.answer_errors import StreamedError, UnreadableAnswer
from headway.providers.dialects.lenient_json import counts, decoded, is_heavy
from headway.providers.dialects.sse import Draft, SseEvent, SseParser, add_events
from headway.providers.http.body_reader import LONGEST_FAILURE
from headway.providers.limits.hints import Facts, RawResponse, understand
from headway.providers.usage_check import checked_outcome, early_usage
from headway.sdk.request_info import RequestInfo

Mode = Literal["whole", "stream", "plain"]

#: The longest successful body that is read before it is passed on, also after decompression. Longer ones pass through.
LONGEST_WHOLE: Final = MAX_ANSWER_BYTES
#: How much of a stream is held back while its first event is incomplete.
LONGEST_PRELUDE: Final = 1_000_000
EVENTS: Final = "text/event-stream"
#: Returned to the caller at once, never retried.
PASSED_ON: Final = LANE_STOPPERS | HOPELESS


class ResponseReader:
    """Reads the response of one attempt, beginning with its status and headers."""

    def __init__(self, info: RequestInfo, status: int, headers: Mapping[str, str]) -> None:
        self._info = info
        self._status = status
        self._headers = headers
        self._good = 200 <= status < 300
        self._draft: Draft | None = None
        self._parser = SseParser()
        self._fault: Outcome | None = None
        self._prelude = 0
        #: Whether a stream has had its first event.
        self.begun = False
        self.mode: Mode = self._mode()
        #: What the headers of a successful response report about limits, if anything.
        self.hint = self._reported_hint() if self._good else None

    def _mode(self) -> Mode:
        if not self._good:
            return "whole" if self._status >= 400 else "plain"
        endpoint = self._info.endpoint
        if endpoint is None:
            return "plain"
        if self._headers.get("content-type", "").partition(";")[0].strip().lower() != EVENTS:
            return "whole"
        if self._headers.get("content-encoding", "identity") != "identity":
            return "plain"  # Compressed events cannot be read piece by piece.
        self._draft = endpoint.draft(self._info.body)
        return "plain" if self._draft is None else "stream"

    def _reported_hint(self) -> Hint | None:
        hint = self._understood(RawResponse(self._status, self._headers)).hint
        return hint if hint.reports else None

    def _understood(self, raw: RawResponse) -> Facts:
        return understand(raw, self._info.profile, now_utc=time.time())

    # -- complete bodies ---------------------------------------------------------------------------------------------

    @property
    def max_held_bytes(self) -> int:
        """How many bytes of a body are held back. The beginning of a refusal is enough."""
        return LONGEST_WHOLE if self._good else LONGEST_FAILURE

    def body_outcome(self, body: bytes) -> Outcome:
        """What a complete body means. A successful status with an unreadable body is retried."""
        if not self._good:
            return self._refusal(RawResponse(self._status, self._headers, body[:LONGEST_FAILURE]))
        if len(body) > self.max_held_bytes or is_heavy(body):
            return Outcome(None, None, self.hint)  # Too long to read: a success of unknown usage.
        endpoint = self._info.endpoint
        assert endpoint is not None
        try:
            value = decoded(body)
        except ValueError:
            return Outcome(
                Kind.TRANSIENT, message=f"HTTP {self._status}, but the body has no {endpoint.name}"
            )
        if isinstance(value, dict) and value.get("error"):
            return self._refusal(RawResponse(None, self._headers, body[:LONGEST_FAILURE], origin="exception"))
        return checked_outcome(None, _usage(value, endpoint.shape), self.hint)

    def _refusal(self, raw: RawResponse) -> Outcome:
        facts = self._understood(raw)
        kind = facts.kind
        unwanted = kind not in THROTTLES and self._headers.get("x-should-retry") == "false"
        if kind in PASSED_ON or unwanted:
            # The lane stays open: the next caller gets the provider's own answer, too.
            kind = Kind.TOO_LARGE if kind is Kind.TOO_LARGE else Kind.INVALID
        return Outcome(kind, None, facts.hint, facts.message)

    # -- streams ------------------------------------------------------------------------------------------------

    def feed(self, chunk: bytes) -> None:
        """Read a chunk of a stream as it passes."""
        if self._draft is None:
            return
        self._prelude += 0 if self.begun else len(chunk)
        try:
            for event in self._parser.feed(chunk):
                self.begun = True
                if _counts(event):
                    add_events(self._draft, (event,))
        except StreamedError as refused:
            self._draft = None
            body = refused.body[:LONGEST_FAILURE]
            self._fault = self._refusal(RawResponse(None, self._headers, body, origin="exception"))
        except UnreadableAnswer:  # Unreadable here; the caller may still be able to read it.
            self._draft, self._parser = None, SseParser()

    @property
    def held_back(self) -> bool:
        """Whether a stream waits for its first event, so that nothing is passed on yet."""
        waiting = self.mode == "stream" and self._draft is not None and not self.begun
        return waiting and self._prelude <= LONGEST_PRELUDE

    @property
    def counted(self) -> bool:
        """Whether the input tokens are known, if the stream reports them at its beginning."""
        return self._draft is None or self._draft.begun

    @property
    def usage(self) -> Usage | None:
        """The usage so far, if it is plausible."""
        return early_usage(self._reported)

    @property
    def _reported(self) -> Usage | None:
        return None if self._draft is None else self._draft.usage

    @property
    def refused(self) -> Outcome | None:
        """The error that the stream contains, if any."""
        return self._fault

    def stream_outcome(self) -> Outcome:
        """The outcome of a stream that was read to its end, or closed."""
        return self._fault or checked_outcome(None, self._reported, None)

    def broken_outcome(self, message: str) -> Outcome:
        """The outcome of a stream that broke off while it was read."""
        return self._fault or checked_outcome(Kind.TRANSIENT, self._reported, None, message)


def _counts(event: SseEvent) -> bool:
    """Whether an event reports usage or an error. Other events are not decoded."""
    data = event.data
    if event.name in (b"error", b"response.failed") or data.startswith(
        (b'{"error"', b'{"type":"error"', b'{"type": "error"')
    ):
        return True
    at = data.find(b'"usage"')
    return at >= 0 and not data[at + 7 : at + 24].replace(b" ", b"").startswith(b":null")


def _usage(value: Any, shape: type[Any]) -> Usage | None:
    """The usage that a body reports; None if it reports none, or makes no sense."""
    if not isinstance(value, dict):
        return None
    reported = counts(value.get("usage"))
    try:
        usage: Usage | None = msgspec.convert(
            {**value, "usage": reported or None, "error": None}, shape
        ).counted()
    except (ValueError, RecursionError):
        return None
    return usage
