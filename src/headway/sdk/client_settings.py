"""What the requests of a client go by: its limits, its retries, the names of its lanes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

from headway.config.call_settings import Duration, Limits, Retry, seconds
from headway.core import model
from headway.core.commands import Notice
from headway.core.model import Kind, LaneSpec, Outcome, Settings
from headway.core.status import Status
from headway.engine.calls import Calls, End
from headway.errors import UnitError, UsageError
from headway.providers.secrecy import Scrubber
from headway.sdk.origins import keep_keys_home, refuse_plain_keys
from headway.sdk.request_info import LaneOf, RequestInfo
from headway.sdk.response_reader import ResponseReader
from headway.sdk.tickets import CLOSED

#: The newer first: it is what the SDKs of OpenAI and Anthropic take.
LIBRARIES: Final = ("httpx2", "httpx")

#: Compressed bytes that are decompressed at once: a thousand times as many come of them at most.
STEP: Final = 4096
#: Headers that would be wrong for the beginning of a body.
_OF_BODY: Final = frozenset({"content-length", "content-encoding", "transfer-encoding"})

_log: Final = logging.getLogger("headway")


class Terms:
    """Checked once; makes the lanes of every `Calls` that goes by it."""

    def __init__(
        self,
        limits: Limits | Mapping[str, Limits] | None = None,
        retry: Retry | None = None,
        lane: LaneOf | None = None,
        max_hold: Duration | None = None,
        insecure_http: bool = False,
    ) -> None:
        named: list[tuple[str, object]] = [*limits.items()] if isinstance(limits, Mapping) else [("", limits)]
        for name, one in named:
            if not isinstance(one, Limits | None):
                what = f"limits of {name!r} are" if name else "limits is"
                raise UsageError(
                    f"{what} {one!r}", hint="they are headway.Limits(rpm=…, tpm=…), or such by model"
                )
        names: object = lane
        if names is not None and not callable(names):
            raise UsageError(
                f"lane is {names!r}", hint="it is a function of the request that gives the name of its lane"
            )
        given: object = retry
        if not isinstance(given, Retry | None):
            raise UsageError(f"retry is {given!r}", hint="it is headway.Retry(max_attempts=…)")
        allowed: object = insecure_http
        if not isinstance(allowed, bool):
            raise UsageError(f"insecure_http is {allowed!r}", hint="it is True or False")
        self._insecure_http = insecure_http
        self._limits = limits
        self._retry = (retry or Retry()).to_core()
        self.lane_of = lane
        self._max_hold_s = None if max_hold is None else seconds(max_hold, "max_hold")
        self._specs: dict[str, LaneSpec] = {}

    def calls(self) -> Calls:
        """Lanes on the running loop."""
        settings = Settings(max_hold_s=self._max_hold_s, max_identical_invalid=0)
        calls = Calls(self._specs.__getitem__, settings, Scrubber.of_environment())
        calls.noted = _note
        return calls

    def guard(self, request: Any) -> None:
        """See to it that keys go only where they may."""
        keep_keys_home(request)
        if not self._insecure_http:
            refuse_plain_keys(request)

    def meet(self, asked: RequestInfo) -> None:
        """See to it that the lane of a request can be made."""
        if asked.lane not in self._specs:
            counting = asked.profile.counting
            self._specs[asked.lane] = LaneSpec(
                asked.lane, self._limits_of(asked), self._retry, counting, own_failures=True
            )

    def _limits_of(self, asked: RequestInfo) -> model.Limits:
        """By the lane's name, the model's, or the host's. None: they are learned, as in a batch."""
        found = self._limits
        if isinstance(found, Mapping):
            names = (asked.lane, f"{asked.host}/{asked.model}", asked.model, asked.host)
            found = next((found[name] for name in names if name in found), None)
        return model.Limits() if found is None else found.to_core()


class Last:
    """What the last attempt gave, for a caller who gets no better."""

    def __init__(self) -> None:
        self.response: Any = None
        self.error: BaseException | None = None

    def keep(self, response: Any = None, error: BaseException | None = None) -> None:
        """Replace what was kept."""
        self.response, self.error = response, error

    def give(self, end: End | None) -> Any:
        """The response, with a word to the SDK above that it need not try again; or the error, raised."""
        if self.response is not None:
            self.response.headers["x-should-retry"] = "false"
            return self.response
        if self.error is not None:
            raise self.error
        told = end or CLOSED
        if told.status is Status.CANCELLED:
            told = CLOSED  # By nobody else: a caller who is cancelled does not come here.
        raise UnitError(told.code or str(told.status), told.message)

    def untried(self, end: End | None) -> bool:
        """Whether its lane thinks that it can never fit: the provider may have the last word on that."""
        nothing = self.response is None and self.error is None
        return nothing and end is not None and end.code == str(Kind.TOO_LARGE)


def library_of(name: str | None) -> Any:
    """httpx2, or httpx."""
    if name is not None and name not in LIBRARIES:
        raise UsageError(f"library is {name!r}", hint=f"one of {', '.join(LIBRARIES)}")
    for each in LIBRARIES if name is None else (name,):
        try:
            return import_module(each)
        except ImportError:
            continue
    raise UsageError(f"{name or 'httpx2'} is not installed", hint="run: pip install 'headway[sdk]'")


def repeatable(library: Any, request: Any) -> bool:
    """Whether a request can be sent twice: its body is in memory, or there is none."""
    return isinstance(request.stream, library.ByteStream)


def plain_body(library: Any, response: Any, raw: bytes, most: int) -> bytes:
    """A body without its compression; as it is where that makes no sense. Little more than `most` bytes of it."""
    if "content-encoding" not in response.headers:
        return raw
    stream = _in_steps(library)(raw)
    body = bytearray()
    try:
        for piece in library.Response(
            response.status_code, headers=response.headers, stream=stream
        ).iter_bytes():
            body += piece
            if len(body) > most:
                break
    except library.DecodingError:
        return bytes(body) or raw
    return bytes(body)


@cache
def _in_steps(library: Any) -> Any:
    """The class of bodies that are decompressed step by step: each library wants its own."""

    class Steps(library.SyncByteStream):  # type: ignore[misc]  # A base that is known when it is chosen.
        def __init__(self, raw: bytes) -> None:
            self._raw = raw

        def __iter__(self) -> Iterator[bytes]:
            return (self._raw[at : at + STEP] for at in range(0, len(self._raw), STEP))

    return Steps


class Gathered:
    """The body of a response as far as it is held back to be understood."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self.pieces: list[bytes] = []
        #: Whether it is here to its end.
        self.complete = False

    @property
    def wants_more(self) -> bool:
        """Whether it is not longer yet than what is held back."""
        return self._size <= self._most

    def add(self, piece: bytes) -> None:
        """One more piece."""
        self.pieces.append(piece)
        self._size += len(piece)

    def clear(self) -> None:
        """It broke off, and is taken for empty."""
        self.pieces, self.complete = [], True

    def understood(self, library: Any, response: Any, answer: ResponseReader) -> tuple[Outcome, Any]:
        """What it means, and the response with it in memory: whole, or its beginning."""
        raw = b"".join(self.pieces)
        body = plain_body(library, response, raw, self._most)
        outcome = answer.body_outcome(body)
        if self.complete:
            return outcome, again(library, response, raw)
        return outcome, cut_off(library, response, body[: self._most])


def cut_off(library: Any, response: Any, body: bytes) -> Any:
    """The same response with the beginning of its body, without compression: nothing else can be made of half of one."""
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_BODY]
    return library.Response(
        response.status_code,
        headers=headers,
        stream=library.ByteStream(body),
        extensions=response.extensions,
    )


def again(library: Any, response: Any, raw: bytes) -> Any:
    """The same response with its body in memory, as unread as it came."""
    return library.Response(
        response.status_code,
        headers=response.headers,
        stream=library.ByteStream(raw),
        extensions=response.extensions,
    )


def _note(notice: Notice) -> None:
    level = logging.WARNING if notice.what in ("stopped", "breaker_opened") else logging.INFO
    _log.log(level, "%s: %s: %s", notice.lane, notice.what, notice.text)
