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
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from yarl import URL

from headway.config.settings import MAX_ANSWER_BYTES
from headway.core.model import Hint, Kind, Outcome, Usage
from headway.errors import ConfigError
from headway.providers.adapter import (
    Admitted,
    Answer,
    AttachmentSource,
    RateLimit,
    Request,
    is_unsent,
    mark_unsent,
)
from headway.providers.attached_body import AttachedBody
from headway.providers.dialects.answer_errors import (
    AnswerTooComplex,
    AnswerTooLong,
    StreamedError,
    UnreadableAnswer,
)
from headway.providers.dialects.dialect import KINDS, STREAMED, Dialect, dialect_of
from headway.providers.dialects.lenient_json import check_objects, counts, decoded
from headway.providers.dialects.sse import Draft, draft_body
from headway.providers.error_messages import short_message
from headway.providers.exhaustion import exhaustion_text
from headway.providers.http.bodies import (
    asks_for_stream,
    describe_body,
    limit_source,
    streaming_refused,
    valid_json,
)
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
from headway.providers.http.http_settings import (
    NO_HEADERS,
    HttpRoute,
    HttpSettings,
    request_headers,
    signer_of,
)
from headway.providers.http.timeout import AttemptTimeout, Timeouts
from headway.providers.limits.hints import RawResponse, success_hint, understand
from headway.providers.limits.profiles import profile_for
from headway.providers.scrubber import Scrubber, Secret, secrets_in_headers
from headway.providers.text_stream import TextStream
from headway.providers.usage_check import checked_outcome, early_usage

if TYPE_CHECKING:
    pass

#: Paths come from input rows. Usually there are few, but a bad file must not fill the memory.
MOST_ROUTES: Final = 256
LONGEST_REQUEST_ID: Final = 200

_LIMIT_KINDS: Final = frozenset({Kind.RATE, Kind.CONCURRENCY, Kind.HOLD, Kind.QUOTA, Kind.OVERLOAD})
#: With compression a server collects events before it sends them.
_UNCOMPRESSED: Final = {"Accept-Encoding": "identity"}
#: Token counts beside the answer: Llama's on Bedrock.
_TOP_LEVEL_COUNTS: Final = ("prompt_token_count", "generation_token_count")


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
        #: Whether the text of an answer may be sent along while it arrives, for requests that want that.
        self._may_stream = settings.stream is not False
        key = settings.key.reveal()
        self._sign, secrets = signer_of(dialect.kind, key, settings.region)
        self._headers = request_headers(dialect.headers(key), settings.headers)
        self._header_names = {name.lower() for name in self._headers}
        self._scrub = Scrubber([*secrets, *secrets_in_headers(settings.headers), *settings.secrets])
        self._most = byte_ceiling(settings.max_answer_bytes)
        self._routes: dict[str, HttpRoute] = {}
        self._pool: ConnectionPool | None = None
        self._timeouts = Timeouts()

    def __repr__(self) -> str:
        return f"<HttpAdapter {self._dialect.kind} at {self._root}>"

    async def open(self) -> None:
        """Prepare for sending."""
        self._pool = ConnectionPool(URL(self._root))

    def keep_ready(self, n: int) -> None:
        """Have connections open for so many further requests."""
        if self._pool is not None:
            self._pool.keep_ready(n)

    async def close(self) -> None:
        """Close every connection."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        """Send the request once, and wait for its answer."""
        route = self._routes.get(request.path) or self._route(request.path)
        body = request.body
        streams = route.streams or (request.on_text is not None and route.may_stream)
        if streams or b'"stream"' in body:
            streamed = route.endpoint.streamed(body) if streams else None
            draft = route.endpoint.draft(body) if streamed is not None or asks_for_stream(body) else None
            if draft is not None:
                exchange = _StreamedAttempt(
                    route, draft, streamed is not None, _head(route.stream_head, request), request.attachments
                )
                if request.on_text is not None:
                    exchange.text = TextStream(self._scrub, request.on_text)
                    draft.on_text = exchange.text.add
                return await self._send_streamed(exchange, streamed or body, timeout_s, admitted)
        response: HttpResponse | None = None
        timeout = self._timeouts.begin(timeout_s)
        try:
            if request.attachments is None and self._sign is None and self._pool is not None:
                response = await self._pool.post(_head(route.head, request), body, admitted)
            else:
                head = _head(route.head, request)
                response = await self._post(head, body, route.url, admitted, request.attachments)
            received = await response.read(self._most)
        except AnswerTooLong as long:
            return self._too_long(response, long)
        except (*NETWORK_ERRORS, asyncio.CancelledError) as fault:
            timeout.check_cancelled(fault)
            return self._incomplete(fault, response, timeout)
        finally:
            timeout.end()
        return self._answer(route, response, received)

    async def _post(
        self, head: bytes, body: bytes, url: URL, admitted: Admitted, attachments: AttachmentSource | None
    ) -> HttpResponse:
        if attachments is None:
            return await self._post_body(head, body, url, admitted)
        try:
            whole = await attachments.open(body)
        except BaseException as fault:
            mark_unsent(fault)
            raise
        try:
            return await self._post_body(head, whole, url, admitted)
        finally:
            whole.release()

    async def _post_body(
        self, head: bytes, body: bytes | AttachedBody, url: URL, admitted: Admitted
    ) -> HttpResponse:
        if self._pool is None:
            raise RuntimeError("the adapter is not open")
        if self._sign is not None:
            signed = self._sign(url, body)
            head += header_lines(
                {name: signed[name] for name in signed if name.lower() not in self._header_names}
            )
        return await self._pool.post(head, body, admitted)

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
        route = HttpRoute(
            url, stream_url, endpoint, decode, self.streams, self._may_stream, head, stream_head
        )
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
        """The limits that a 2xx reports."""
        return success_hint(response.headers, self._profile, time.time())

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
            return self._no_answer(response, body, f"the body has no {route.endpoint.name}")
        if value.get("error"):
            return self._error(response, body)
        try:
            sound = value | {"usage": counts(value.get("usage")) or None, "error": None}
            sound["usageMetadata"] = counts(value.get("usageMetadata")) or None  # Gemini's
            sound |= {name: counts(value).get(name) for name in _TOP_LEVEL_COUNTS}
            usage = msgspec.convert(sound, route.endpoint.shape).counted()
        except (ValueError, RecursionError):
            return self._no_answer(response, body, f"the body has no {route.endpoint.name}")
        return self._success(response, valid_json(body, value), usage)

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
        return self._no_answer(response, body, describe_body(body, response.headers.get("Content-Type", "")))

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
        timeout = self._timeouts.begin(timeout_s)
        try:
            route = exchange.route
            exchange.response = await self._post(
                exchange.head, body, route.stream_url, admitted, exchange.attachments
            )
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
            if exchange.made_stream and self._refuses_streams(response.status, body):
                return self._unstreamable(exchange.route, response, body)
            return self._answer(exchange.route, response, body)
        if not draft.whole:
            return self._transient(
                response, b"", "the stream ended before the answer did", _usage_so_far(draft)
            )
        if exchange.text is not None:
            exchange.text.end()
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

    def _refuses_streams(self, status: int, body: bytes) -> bool:
        """Whether a request may be refused only because it wants a stream. On Bedrock that needs a permission of its own."""
        if self._dialect.kind == "bedrock":
            return status == 403 or (status == 400 and b"stream" in body.lower())
        return status == 400 and streaming_refused(body)

    def _unstreamable(self, route: HttpRoute, response: HttpResponse, body: bytes) -> Answer:
        """Whether the account or the model may not stream: the original request is not at fault then."""
        route.streams = route.may_stream = False
        return self._transient(response, body, "streaming is not allowed here; continuing without it")

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
        message = message or f"HTTP {response.status} without an error message"
        rate_limit: RateLimit | None = None
        if facts.kind in _LIMIT_KINDS:
            without_body = understand(
                RawResponse(raw.status, raw.headers, origin=raw.origin), self._profile, now_utc=now_utc
            )
            rate_limit = RateLimit(
                limit_source(facts, without_body), facts.hint.retry_after_s, message, now_utc
            )
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
            what = "no answer" if response is None else "no complete answer"
            late = self._failed(
                Kind.TIMEOUT, f"{what} within {duration_text(timeout.seconds)}", response, usage=usage
            )
            return Answer(msgspec.structs.replace(late.outcome, sent=False)) if is_unsent(fault) else late
        if response is None and is_unsent(fault) and (why := self._exhaustion(fault)):
            message = f"no connection to {self._host}: {why}"
            return Answer(Outcome(Kind.TRANSIENT, message=message, reached=False, sent=False, exhausted=True))
        answer = self._failed(Kind.TRANSIENT, network_error_text(fault, self._host), response, usage=usage)
        if response is not None:
            return answer
        return Answer(msgspec.structs.replace(answer.outcome, reached=False, sent=not is_unsent(fault)))

    def _exhaustion(self, fault: BaseException) -> str:
        """Why this process could not open a connection, if it is at fault itself; "" otherwise."""
        connected = self._pool is not None and self._pool.connected
        return exhaustion_text(fault, connected=connected)


class _StreamedAttempt(msgspec.Struct):
    """A streamed attempt while it runs."""

    route: HttpRoute
    draft: Draft
    #: Whether this adapter turned it into a stream.
    made_stream: bool
    #: The head of its request.
    head: bytes
    attachments: AttachmentSource | None = None
    response: HttpResponse | None = None
    #: Passes the text on while it arrives.
    text: TextStream | None = None


def _head(head: bytes, request: Request) -> bytes:
    """The head of a request, with the trace that it is a part of."""
    return head + header_lines({"traceparent": request.traceparent}) if request.traceparent else head


def _usage_so_far(draft: Draft) -> Usage | None:
    """The usage that a broken stream reported so far; the real one may be higher."""
    return None if draft.usage is None else msgspec.structs.replace(draft.usage, partial=True)


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
        headers or NO_HEADERS,
        profile,
        region,
        max_answer_bytes,
        tuple(secrets),
    )
    return HttpAdapter(dialect, settings)
