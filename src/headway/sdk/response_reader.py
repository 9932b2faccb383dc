"""An answer on its way in → what it means for its lane. Pure but for the clock; whoever reads the bytes shows them here.

Three ways to read an answer. *Whole*: a refusal, or JSON from an endpoint that is known; it is understood before the
caller sees anything of it, so that it can be tried again. *Stream*: events, which pass through; until the first of
them is here it can be tried again too. *Plain*: anything else, passed on as it comes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from headway.config.settings import MAX_ANSWER_BYTES
from headway.core.model import Hint, Kind, Outcome, Usage
from headway.core.retry import HOPELESS, LANE_STOPPERS, THROTTLES
from headway.providers.hints import understand
from headway.providers.reading import LONGEST_FAILURE
from headway.providers.seen import Facts, Seen
from headway.providers.sse import Broken, Draft, Event, Parser, Refused, add_to, counts, decoded, is_heavy
from headway.sdk.request_info import Asked

Way = Literal["whole", "stream", "plain"]

#: What is held back of a good answer to understand it, after decompression too. What is longer is the caller's to take.
LONGEST_WHOLE: Final = MAX_ANSWER_BYTES
#: What is held back of a stream until its first event is here.
LONGEST_PRELUDE: Final = 1_000_000
EVENTS: Final = "text/event-stream"
#: A caller waits for these if he is to wait at all: the provider's word on everything else is passed on at once.
PASSED_ON: Final = LANE_STOPPERS | HOPELESS


class Answer:
    """One attempt's answer, from its head on."""

    def __init__(self, asked: Asked, status: int, headers: Mapping[str, str]) -> None:
        self._asked = asked
        self._status = status
        self._headers = headers
        self._good = 200 <= status < 300
        self._draft: Draft | None = None
        self._parser = Parser()
        self._fault: Outcome | None = None
        self._prelude = 0
        #: Whether anything that counts has been seen of a stream.
        self.begun = False
        self.way: Way = self._way()
        #: Told once, when the provider took the request and its input is counted, if ever it is.
        self.hint = self._reports() if self._good else None

    def _way(self) -> Way:
        if not self._good:
            return "whole" if self._status >= 400 else "plain"
        endpoint = self._asked.endpoint
        if endpoint is None:
            return "plain"
        if self._headers.get("content-type", "").partition(";")[0].strip().lower() != EVENTS:
            return "whole"
        if self._headers.get("content-encoding", "identity") != "identity":
            return "plain"  # Nobody compresses events but who collects them first.
        self._draft = endpoint.draft(self._asked.body)
        return "plain" if self._draft is None else "stream"

    def _reports(self) -> Hint | None:
        hint = self._understood(Seen(self._status, self._headers)).hint
        return hint if hint.reports else None

    def _understood(self, seen: Seen) -> Facts:
        return understand(seen, self._asked.profile, now_utc=time.time())

    # -- in one piece ---------------------------------------------------------------------------------------------

    @property
    def most(self) -> int:
        """How many bytes of a whole answer are worth holding back. Of a refusal the beginning is enough."""
        return LONGEST_WHOLE if self._good else LONGEST_FAILURE

    def whole(self, body: bytes) -> Outcome:
        """What a whole answer means. One that is no answer at all is worth another try."""
        if not self._good:
            return self._refusal(Seen(self._status, self._headers, body[:LONGEST_FAILURE]))
        if len(body) > self.most or is_heavy(body):
            return Outcome(None, None, self.hint)  # It is no failure to be long; its usage stays unknown.
        endpoint = self._asked.endpoint
        assert endpoint is not None
        try:
            value = decoded(body)
        except ValueError:
            return Outcome(Kind.TRANSIENT, message=f"HTTP {self._status}, but the body is no {endpoint.name}")
        if isinstance(value, dict) and value.get("error"):
            return self._refusal(Seen(None, self._headers, body[:LONGEST_FAILURE], origin="exception"))
        return Outcome(None, _usage(value, endpoint.shape), self.hint)

    def _refusal(self, seen: Seen) -> Outcome:
        facts = self._understood(seen)
        kind = facts.kind
        unwanted = kind not in THROTTLES and self._headers.get("x-should-retry") == "false"
        if kind in PASSED_ON or unwanted:
            # The lane goes on: the next caller has a right to the provider's own word, too.
            kind = Kind.TOO_LARGE if kind is Kind.TOO_LARGE else Kind.INVALID
        return Outcome(kind, None, facts.hint, facts.message)

    # -- in events ------------------------------------------------------------------------------------------------

    def feed(self, chunk: bytes) -> None:
        """Look at a piece of a stream as it passes."""
        if self._draft is None:
            return
        self._prelude += 0 if self.begun else len(chunk)
        try:
            for event in self._parser.feed(chunk):
                self.begun = True
                if _counts(event):
                    add_to(self._draft, (event,))
        except Refused as refused:
            self._draft = None
            body = refused.body[:LONGEST_FAILURE]
            self._fault = self._refusal(Seen(None, self._headers, body, origin="exception"))
        except Broken:  # What it cannot read here the caller may.
            self._draft, self._parser = None, Parser()

    @property
    def held_back(self) -> bool:
        """Whether nothing has been seen of a stream yet, so that it is worth waiting before anything is handed on."""
        waiting = self.way == "stream" and self._draft is not None and not self.begun
        return waiting and self._prelude <= LONGEST_PRELUDE

    @property
    def counted(self) -> bool:
        """Whether what is known at the beginning is here: some streams open with the input that was counted."""
        return self._draft is None or self._draft.begun

    @property
    def usage(self) -> Usage | None:
        """What is counted so far."""
        return None if self._draft is None else self._draft.usage

    @property
    def refused(self) -> Outcome | None:
        """The error that the stream carries, if it does."""
        return self._fault

    def streamed(self) -> Outcome:
        """What a stream came to, once it has passed or nobody reads on."""
        return self._fault or Outcome(None, self.usage)

    def broke_off(self, message: str) -> Outcome:
        """What it came to where it broke off under the reader."""
        return self._fault or Outcome(Kind.TRANSIENT, self.usage, message=message)


def _counts(event: Event) -> bool:
    """Whether an event says what was used, or that something went wrong: the others are not even decoded."""
    data = event.data
    if event.name in (b"error", b"response.failed") or data.startswith(
        (b'{"error"', b'{"type":"error"', b'{"type": "error"')
    ):
        return True
    at = data.find(b'"usage"')
    return at >= 0 and not data[at + 7 : at + 24].replace(b" ", b"").startswith(b":null")


def _usage(value: Any, shape: type[Any]) -> Usage | None:
    """The usage that an answer tells; None where it tells none that makes sense."""
    if not isinstance(value, dict):
        return None
    told = counts(value.get("usage"))
    try:
        found: Usage | None = msgspec.convert(
            {**value, "usage": told or None, "error": None}, shape
        ).counted()
    except (ValueError, RecursionError):
        return None
    return found
