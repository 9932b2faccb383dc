"""HTTP: one attempt at a provider, over aiohttp.

Owns connections, the timeout of the attempt, keys (which never leave this file), and turns everything that a server or a
network does into an `Answer`. The form of requests and answers is in the dialect of a provider; the meaning of refusals
is in `understand`. Nothing here retries, follows a redirect or paces.

A plain success is the hot path: one POST, one read, one typed decode that reads only the usage. Unusual answers take the
slow path.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec
from multidict import CIMultiDict
from yarl import URL

import headway
from headway.config.settings import MAX_ANSWER_BYTES
from headway.core.model import Hint, Kind, Usage
from headway.errors import ConfigError
from headway.providers.adapter import Admitted, Answer, RateLimit, Request, is_unsent
from headway.providers.dialects.answer_errors import (
    AnswerTooComplex,
    AnswerTooLong,
    StreamedError,
    UnreadableAnswer,
)
from headway.providers.dialects.dialect import KINDS, STREAMED, AnswerShape, ApiEndpoint, Dialect, dialect_of
from headway.providers.dialects.lenient_json import check_objects, counts, decoded, encoded, mapping
from headway.providers.dialects.sse import Draft, draft_body
from headway.providers.error_messages import short_message
from headway.providers.http.body_reader import LONGEST_FAILURE, IncomingStream, byte_ceiling, read_events
from headway.providers.http.connections import ConnectionPool, HttpResponse, header_lines, request_head
from headway.providers.http.error_text import (
    NETWORK_ERRORS,
    REDIRECTS,
    WITHOUT_ANSWER,
    duration_text,
    is_unusual,
    network_error_text,
    unusual_status_text,
)
from headway.providers.http.timeout import AttemptTimeout
from headway.providers.limits.hints import Facts, RawResponse, understand
from headway.providers.limits.profiles import profile_for
from headway.providers.scrubber import Scrubber, Secret, secrets_in_headers
from headway.providers.usage_check import checked_outcome, early_usage

if TYPE_CHECKING:
    from headway.providers.dialects.bedrock import Sign

#: Paths come from input rows. Usually there are few, but a bad file must not fill the memory.
MOST_ROUTES: Final = 256
LONGEST_REQUEST_ID: Final = 200

_LIMIT_KINDS: Final = frozenset({Kind.RATE, Kind.CONCURRENCY, Kind.HOLD, Kind.QUOTA, Kind.OVERLOAD})
#: With compression a server collects events before it sends them.
_UNCOMPRESSED: Final = {"Accept-Encoding": "identity"}
#: Token counts beside the answer: Llama's on Bedrock.
_TOP_LEVEL_COUNTS: Final = ("prompt_token_count", "generation_token_count")
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


# -- settings -----------------------------------------------------------------------------------------------------


class HttpSettings(msgspec.Struct, frozen=True):
    """The address and the key. `stream` None: stream where that reports limits earlier and is known to work."""

    base_url: str = ""
    key: Secret = Secret("")
    stream: bool | None = None
    #: Further headers, such as an organization's; they override the default ones.
    headers: Mapping[str, str] = _NO_HEADERS
    #: The profile of its headers and errors, if neither its address nor its kind determines it.
    profile: str = ""
    region: str = ""
    #: The largest accepted answer in bytes; 0 is no ceiling.
    max_answer_bytes: int = MAX_ANSWER_BYTES
    #: Further secrets to remove from answers, besides the key: the keys of other providers.
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"HttpSettings(key={self.key!r}, stream={self.stream})"


def adapter_for(
    kind: str,
    base_url: str = "",
    key: str = "",
    *,
    stream: bool | None = None,
    headers: Mapping[str, str] | None = None,
    profile: str = "",
    api_version: str = "",
    region: str = "",
    max_answer_bytes: int = MAX_ANSWER_BYTES,
    secrets: Iterable[str] = (),
) -> HttpAdapter:
    """The adapter of a configured provider."""
    if kind not in KINDS:
        raise ConfigError(
            f"there is no HTTP provider of kind {kind!r}", hint=f"known kinds: {', '.join(KINDS)}"
        )
    asks_usage = profile_for(profile, base_url, kind).stream_usage
    dialect = dialect_of(kind, api_version=api_version, asks_usage=asks_usage)
    settings = HttpSettings(
        base_url,
        Secret(key),
        stream,
        headers or _NO_HEADERS,
        profile,
        region,
        max_answer_bytes,
        tuple(secrets),
    )
    return HttpAdapter(dialect, settings)


def _signer(kind: str, key: str, region: str) -> tuple[Sign | None, list[str]]:
    """The signer of requests, if they are signed; and the secret parts of the key."""
    if kind != "bedrock":
        return None, [key]
    from headway.providers.dialects.bedrock import signer

    return signer(key, region)


# -- connections --------------------------------------------------------------------------------------------------


class HttpRoute(msgspec.Struct):
    """What all requests to a path share."""

    url: URL
    stream_url: URL
    endpoint: ApiEndpoint
    decode: Callable[[bytes], AnswerShape]
    #: Whether requests are turned into streams.
    streams: bool
    #: The head of a request, and of one for a stream.
    head: bytes
    stream_head: bytes


class _StreamField(msgspec.Struct, gc=False):
    stream: bool | None = None


def _asks_for_stream(request: bytes) -> bool:
    """Whether a request asks for a stream itself."""
    if b'"stream"' not in request:
        return False
    try:
        return msgspec.json.decode(request, type=_StreamField).stream is True
    except ValueError:
        return False


# -- the adapter --------------------------------------------------------------------------------------------------


class HttpAdapter:
    """One provider over HTTP."""

    def __init__(self, dialect: Dialect, settings: HttpSettings) -> None:
        self._dialect = dialect
        base_url = settings.base_url or dialect.root
        self._root = dialect.address(base_url)
        self._host = URL(self._root).host_port_subcomponent or ""
        self._profile = profile_for(settings.profile, base_url, dialect.kind)
        self._id_header = self._profile.request_id or dialect.request_id
        #: Whether requests are turned into streams. The address decides, not the kind: compatible servers stream in
        #: their own ways.
        self.streams = profile_for(base_url).name in STREAMED if settings.stream is None else settings.stream
        key = settings.key.reveal()
        self._sign, secrets = _signer(dialect.kind, key, settings.region)
        self._headers = _headers(dialect.headers(key), settings.headers)
        self._header_names = {name.lower() for name in self._headers}
        self._scrub = Scrubber([*secrets, *secrets_in_headers(settings.headers), *settings.secrets])
        self._most = byte_ceiling(settings.max_answer_bytes)
        self._routes: dict[str, HttpRoute] = {}
        self._pool: ConnectionPool | None = None

    def __repr__(self) -> str:
        return f"<HttpAdapter {self._dialect.kind} at {self._root}>"

    async def open(self) -> None:
        """Prepare for sending."""
        self._pool = ConnectionPool(URL(self._root))

    async def close(self) -> None:
        """Close every connection."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        """Send the request once, and wait for its answer."""
        route = self._routes.get(request.path) or self._route(request.path)
        body = request.body
        if route.streams or b'"stream"' in body:
            streamed = route.endpoint.streamed(body) if route.streams else None
            draft = route.endpoint.draft(body) if streamed is not None or _asks_for_stream(body) else None
            if draft is not None:
                exchange = _StreamedAttempt(route, draft, streamed is not None)
                return await self._send_streamed(exchange, streamed or body, timeout_s, admitted)
        response: HttpResponse | None = None
        timeout = AttemptTimeout(timeout_s)
        try:
            response = await self._post(route.head, body, route.url)
            received = await response.read(self._most)
        except AnswerTooLong as long:
            return self._too_long(response, long)
        except (*NETWORK_ERRORS, asyncio.CancelledError) as fault:
            timeout.check_cancelled(fault)
            return self._incomplete(fault, response, timeout)
        finally:
            timeout.end()
        return self._answer(route, response, received)

    async def _post(self, head: bytes, body: bytes, url: URL) -> HttpResponse:
        if self._pool is None:
            raise RuntimeError("the adapter is not open")
        if self._sign is not None:
            signed = self._sign(url, body)
            head += header_lines(
                {name: signed[name] for name in signed if name.lower() not in self._header_names}
            )
        return await self._pool.post(head, body)

    def _route(self, path: str) -> HttpRoute:
        if len(self._routes) >= MOST_ROUTES:
            self._routes.clear()
        dialect, root = self._dialect, self._root
        endpoint = dialect.endpoint(path)
        decode = msgspec.json.Decoder(endpoint.shape).decode
        url, stream_url = dialect.url(root, path), dialect.stream_url(root, path)
        head, stream_head = (
            request_head(url, self._headers),
            request_head(stream_url, self._headers | _UNCOMPRESSED),
        )
        route = HttpRoute(url, stream_url, endpoint, decode, self.streams, head, stream_head)
        self._routes[path] = route
        return route

    # -- an answer in one piece -----------------------------------------------------------------------------------

    def _answer(self, route: HttpRoute, response: HttpResponse, body: bytes) -> Answer:
        if response.refused:
            return self._refusal(response, body)
        try:
            check_objects(body)
            shape = route.decode(body)
            if not body.isascii():
                body.decode()
        except AnswerTooComplex as many:
            return self._too_long(response, many)
        except (ValueError, RecursionError):
            return self._unusual_success(route, response, body)
        if shape.error is not None:
            return self._error(response, body, shape.counted())
        return self._success(response, body.strip(), shape.counted())

    def _success(self, response: HttpResponse, body: bytes, usage: Usage | None) -> Answer:
        return Answer(
            checked_outcome(None, usage, self._hint(response)),
            response.status,
            self._request_id(response, body),
            self._scrub.body(body),
        )

    def _hint(self, response: HttpResponse) -> Hint | None:
        raw = RawResponse(response.status, response.headers)
        hint = understand(raw, self._profile, now_utc=time.time()).hint
        return hint if hint.reports else None

    def _request_id(self, response: HttpResponse, body: bytes = b"") -> str:
        named = response.headers.get(self._id_header) or self._dialect.named_in(body)
        return self._scrub.text(named)[:LONGEST_REQUEST_ID] if named else ""

    def _unusual_success(self, route: HttpRoute, response: HttpResponse, body: bytes) -> Answer:
        """An unexpected 2xx: a good answer with odd numbers, an error, a stream, or no answer."""
        try:
            value = decoded(body)
        except AnswerTooComplex as many:
            return self._too_long(response, many)
        except ValueError:
            return self._not_json(route, response, body)
        if not isinstance(value, dict):
            return self._no_answer(response, body, f"the body is no {route.endpoint.name}")
        if value.get("error"):
            return self._error(response, body)
        try:
            sound = value | {"usage": counts(value.get("usage")) or None, "error": None}
            sound["usageMetadata"] = counts(value.get("usageMetadata")) or None  # Gemini's
            sound |= {name: counts(value).get(name) for name in _TOP_LEVEL_COUNTS}
            usage = msgspec.convert(sound, route.endpoint.shape).counted()
        except (ValueError, RecursionError):
            return self._no_answer(response, body, f"the body is no {route.endpoint.name}")
        return self._success(response, _valid(body, value), usage)

    def _not_json(self, route: HttpRoute, response: HttpResponse, body: bytes) -> Answer:
        draft = route.endpoint.draft(b"")
        if draft is not None and body.lstrip().startswith((b"data:", b"event:", b":")):
            try:
                read_events(draft, body, self._most)
            except StreamedError as refused:
                return self._error(response, refused.body)
            except AnswerTooLong as long:
                return self._too_long(response, long, _usage_so_far(draft))
            except UnreadableAnswer as broken:
                return self._transient(response, body, str(broken))
            if draft.whole:
                return self._assembled(response, draft)
        return self._no_answer(response, body, _describe_body(body, response.headers.get("Content-Type", "")))

    def _no_answer(self, response: HttpResponse, body: bytes, what: str) -> Answer:
        """A 2xx with a complete body that is not an answer."""
        if response.status not in WITHOUT_ANSWER:
            return self._transient(response, body, what)
        failed = self._failed(Kind.INVALID, unusual_status_text(response.status), response, body)
        return msgspec.structs.replace(failed, outcome=msgspec.structs.replace(failed.outcome, worked=True))

    # -- a stream -------------------------------------------------------------------------------------------------

    async def _send_streamed(
        self, exchange: _StreamedAttempt, body: bytes, timeout_s: float, admitted: Admitted
    ) -> Answer:
        timeout = AttemptTimeout(timeout_s)
        try:
            route = exchange.route
            exchange.response = await self._post(route.stream_head, body, route.stream_url)
            return await self._read_stream(exchange, exchange.response, admitted)
        except (*NETWORK_ERRORS, asyncio.CancelledError) as fault:
            timeout.check_cancelled(fault)
            return self._broken_off(exchange, fault, timeout)
        finally:
            timeout.end()
            if exchange.response is not None:
                exchange.response.close()

    def _broken_off(
        self, exchange: _StreamedAttempt, fault: BaseException, timeout: AttemptTimeout
    ) -> Answer:
        response, draft = exchange.response, exchange.draft
        if response is not None and draft.whole:
            return self._assembled(response, draft)
        return self._incomplete(fault, response, timeout, _usage_so_far(draft))

    async def _read_stream(
        self, exchange: _StreamedAttempt, response: HttpResponse, admitted: Admitted
    ) -> Answer:
        draft = exchange.draft
        try:
            body = await self._fill_draft(draft, response, admitted)
        except StreamedError as refused:
            return self._error(response, refused.body, _usage_so_far(draft))
        except AnswerTooLong as long:
            return self._too_long(response, long, _usage_so_far(draft))
        except UnreadableAnswer as broken:
            return self._transient(response, b"", str(broken), _usage_so_far(draft))
        if body is not None:
            if exchange.made_stream and response.status == 400 and _streaming_refused(body):
                return self._unstreamable(exchange.route, response, body)
            return self._answer(exchange.route, response, body)
        if not draft.whole:
            return self._transient(
                response, b"", "the stream ended before the answer did", _usage_so_far(draft)
            )
        return self._assembled(response, draft)

    def _assembled(self, response: HttpResponse, draft: Draft) -> Answer:
        """A complete stream."""
        try:
            return self._success(response, draft_body(draft, self._most), draft.usage)
        except AnswerTooLong as long:
            return self._too_long(response, long, draft.usage)
        except UnreadableAnswer as broken:
            return self._transient(response, b"", str(broken), draft.usage)

    async def _fill_draft(self, draft: Draft, response: HttpResponse, admitted: Admitted) -> bytes | None:
        """Read the stream into the draft; returns the body if it is not a stream after all."""
        if response.refused:
            return await response.read(self._most)
        stream = IncomingStream(response.content, draft, self._most)
        admitted_called = draft.begun and response.content_type == "text/event-stream"
        if admitted_called:
            admitted(self._hint(response), early_usage(draft.usage))
        chunk = await stream.first()
        if chunk[:1] in (b"", b"{", b"[", b"<"):
            return await stream.whole(chunk)
        try:
            while chunk:
                stream.take(chunk)
                if not admitted_called and draft.begun:
                    admitted_called = True
                    admitted(self._hint(response), early_usage(draft.usage))
                if draft.ended:
                    break
                chunk = await stream.more()
            await stream.finish()
        except (StreamedError, UnreadableAnswer):
            if not draft.whole:
                raise
        return None

    def _unstreamable(self, route: HttpRoute, response: HttpResponse, body: bytes) -> Answer:
        """Whether the account or the model may not stream: the original request is not at fault then."""
        route.streams = False
        return self._transient(response, body, "streaming is not allowed here: from now on without")

    # -- failures -------------------------------------------------------------------------------------------------

    def _refusal(self, response: HttpResponse, body: bytes) -> Answer:
        """Not a 2xx."""
        if response.status in REDIRECTS:
            return self._redirect(response, body)
        body = self._scrub.beginning(body, LONGEST_FAILURE)
        return self._failure(RawResponse(response.status, response.headers, body), body, response)

    def _error(self, response: HttpResponse, body: bytes, usage: Usage | None = None) -> Answer:
        """A 2xx with an error in its body."""
        body = self._scrub.beginning(body, LONGEST_FAILURE)
        return self._failure(
            RawResponse(None, response.headers, body, origin="exception"), body, response, usage
        )

    def _failure(
        self, raw: RawResponse, body: bytes, response: HttpResponse, usage: Usage | None = None
    ) -> Answer:
        now_utc = time.time()
        facts = understand(raw, self._profile, now_utc=now_utc)
        message = self._scrub.message(facts.message)
        if message == f"HTTP {raw.status}" and is_unusual(response.status):
            message = unusual_status_text(response.status)
        message = message or f"HTTP {response.status} with an error that says nothing"
        rate_limit: RateLimit | None = None
        if facts.kind in _LIMIT_KINDS:
            without_body = understand(
                RawResponse(raw.status, raw.headers, origin=raw.origin), self._profile, now_utc=now_utc
            )
            rate_limit = RateLimit(_source(facts, without_body), facts.hint.retry_after_s, message, now_utc)
        return Answer(
            checked_outcome(facts.kind, usage, facts.hint, message, wrong_path=facts.wrong_path),
            response.status,
            self._request_id(response),
            body,
            rate_limit,
        )

    def _redirect(self, response: HttpResponse, body: bytes) -> Answer:
        place = response.headers.get("Location", "").partition("?")[0]
        target = short_message(self._scrub.text(place), otherwise="another address")
        message = f"HTTP {response.status}: redirected to {target}, which is not followed: check base_url"
        return self._failed(Kind.INVALID, message, response, body)

    def _transient(
        self, response: HttpResponse, body: bytes, what: str, usage: Usage | None = None
    ) -> Answer:
        return self._failed(Kind.TRANSIENT, f"HTTP {response.status}, but {what}", response, body, usage)

    def _too_long(
        self, response: HttpResponse | None, long: AnswerTooLong, usage: Usage | None = None
    ) -> Answer:
        """Above the ceiling. The provider made the answer, so a retry would only be charged again."""
        assert response is not None
        message = f"HTTP {response.status}, but {long}: {long.remedy}"
        outcome = checked_outcome(Kind.INVALID, usage, self._hint(response), message, worked=True)
        return Answer(outcome, response.status, self._request_id(response))

    def _failed(
        self,
        kind: Kind,
        message: str,
        response: HttpResponse | None = None,
        body: bytes = b"",
        usage: Usage | None = None,
    ) -> Answer:
        outcome = checked_outcome(kind, usage, None, self._scrub.message(message))
        if response is None:
            return Answer(outcome)
        kept = self._scrub.beginning(body, LONGEST_FAILURE)
        return Answer(outcome, response.status, self._request_id(response), kept)

    def _incomplete(
        self,
        fault: BaseException,
        response: HttpResponse | None,
        timeout: AttemptTimeout,
        usage: Usage | None = None,
    ) -> Answer:
        """No response, or only a part of it. A refusal without its body is still a refusal."""
        if response is not None and response.status >= 300:
            return self._refusal(response, b"")
        if timeout.expired:
            what = "no answer" if response is None else "no whole answer"
            late = self._failed(
                Kind.TIMEOUT, f"{what} within {duration_text(timeout.seconds)}", response, usage=usage
            )
            return Answer(msgspec.structs.replace(late.outcome, sent=False)) if is_unsent(fault) else late
        answer = self._failed(Kind.TRANSIENT, network_error_text(fault, self._host), response, usage=usage)
        if response is not None:
            return answer
        return Answer(msgspec.structs.replace(answer.outcome, reached=False, sent=not is_unsent(fault)))


class _StreamedAttempt(msgspec.Struct):
    """A streamed attempt while it runs."""

    route: HttpRoute
    draft: Draft
    #: Whether this adapter turned it into a stream.
    made_stream: bool
    response: HttpResponse | None = None


def _usage_so_far(draft: Draft) -> Usage | None:
    """The usage that a broken stream reported so far; the real one may be higher."""
    return None if draft.usage is None else msgspec.structs.replace(draft.usage, partial=True)


# -- messages -----------------------------------------------------------------------------------------------------


def _headers(own: Iterable[tuple[str, str]], further: Mapping[str, str]) -> dict[str, str]:
    headers = CIMultiDict(
        {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate",
            "User-Agent": f"headway/{headway.__version__}",
        }
    )
    for name, value in (*own, *further.items()):
        if not (name.isascii() and name.isprintable() and name and value.isprintable()):
            raise ConfigError(f"the header {name!r} has a name or value that cannot be sent")
        headers[name] = value
    return dict(headers)


def _valid(body: bytes, value: Any) -> bytes:
    """The body if it is valid UTF-8 JSON; otherwise what could be decoded of it."""
    try:
        body.decode()
        msgspec.json.decode(body, type=msgspec.Raw)
    except (ValueError, RecursionError):
        return encoded(value)
    return body.strip()


def _source(facts: Facts, without_body: Facts) -> str:
    """Where a limit was reported: `without_body` is what is known without the body."""
    if facts.kind is without_body.kind and without_body.hint.retry_after_s is not None:
        return "headers"
    in_body = facts.code or facts.kind is not without_body.kind or facts.hint.retry_after_s is not None
    return "body" if in_body else "status"


def _streaming_refused(body: bytes) -> bool:
    """OpenAI: {"error": {"param": "stream", "code": "unsupported_value", …}} for an organization not verified."""
    try:
        error = mapping(mapping(decoded(body)).get("error"))
    except ValueError:
        return False
    return str(error.get("param")).startswith("stream")


def _describe_body(body: bytes, content_type: str) -> str:
    """What a body is that is not JSON."""
    start = body.strip()[:200]
    if not start:
        return "the body is empty"
    if start[:1] in (b"{", b"["):
        return f"the body is cut off or broken JSON ({len(body)} bytes)"
    return f"the body is no JSON ({short_message(content_type, otherwise='no content type')[:80]})"
