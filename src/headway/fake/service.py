"""One request from its arrival to its answer: key, parsing, admission, faults, answer, statistics.

This file decides and counts. `apis` make the JSON, `limits` enforce the limits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web
from multidict import CIMultiDictProxy

from headway.fake import http_answers
from headway.fake.apis.api_request import ApiRequest, InvalidRequest
from headway.fake.apis.aws_frames import STREAM_TYPE, exception_frame
from headway.fake.apis.error_dialects import OPENAI, ErrorDialect, ErrorResponse, html_page
from headway.fake.apis.reply import ModelReply, make_reply, sse_data, sse_event
from headway.fake.fake_config import RESETS, AccountConfig, FakeConfig, accounts_by_key
from headway.fake.faults import HARMLESS, FaultStage, fault_stages
from headway.fake.limits import headers
from headway.fake.limits.accounts import Account, Refusal
from headway.fake.limits.windows import windows_allowed
from headway.fake.routes import Api, in_dialect_of
from headway.fake.seeded_random import draw, fingerprint
from headway.fake.stats import AccountCounts, Statistics

DEFAULT = "default"
UNIT_HEADER = "x-headway-unit"


@dataclass(frozen=True, slots=True)
class TimeSource:
    """The clock of the buckets, the wall clock, and how to sleep. Tests replace them."""

    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep


@dataclass(slots=True)
class AccountEntry:
    """An account with its settings and its faults."""

    account: Account
    config: AccountConfig
    before_admission: FaultStage | None
    after_admission: FaultStage | None


@dataclass(slots=True)
class FakeCall:
    """One request in progress."""

    request: web.BaseRequest
    api: Api
    statistics: Statistics
    counts: AccountCounts
    entry: AccountEntry
    number: int
    now: float
    api_request: ApiRequest
    unit: int
    #: How its tokens are charged: see `limits.accounts`.
    charge: str = "reserve"
    #: Headers of the answer. They report the limits as they were when the request was admitted.
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def request_id(self) -> str:
        """The vendor's name for this request."""
        return f"req_{self.number:032x}"


class FakeService:
    """All accounts, and the one method that serves their requests."""

    def __init__(self, config: FakeConfig, time_source: TimeSource) -> None:
        self.config = config
        self.time_source = time_source
        self.closing = False
        self._started_at = time_source.clock()
        self._number = 0
        configs = dict(config.accounts)
        if not config.strict:
            configs.setdefault(DEFAULT, AccountConfig())
        self._entries = {
            name: AccountEntry(
                Account(name, account),
                account,
                *fault_stages(account.faults + config.faults, config.seed, name),
            )
            for name, account in configs.items()
        }
        self._by_key = {key: self._entries[name] for key, name in accounts_by_key(config).items()}
        self._default = None if config.strict else self._entries[DEFAULT]
        self.statistics = self._new_statistics()

    def _new_statistics(self) -> Statistics:
        return Statistics(list(self._entries), self.config.remember, self.now())

    def now(self) -> float:
        """Seconds since the start."""
        return self.time_source.clock() - self._started_at

    def reset(self) -> None:
        """Reset the statistics. The buckets stay as they are."""
        self.statistics = self._new_statistics()

    def entry_of(
        self, sent: CIMultiDictProxy[str], dialect: ErrorDialect = OPENAI
    ) -> tuple[AccountEntry | None, str]:
        """The account of a request's key (None: it has no valid one), and the key."""
        key = dialect.key_in(sent)
        return (self._by_key.get(key, self._default) if key else None), key

    def request_id(self) -> str:
        """The id of the next request."""
        self._number += 1
        return f"req_{self._number:032x}"

    async def serve(self, request: web.BaseRequest, api: Api) -> web.StreamResponse:
        """Answer one call of an API."""
        body = await request.read()
        statistics = self.statistics
        entry, key = self.entry_of(request.headers, api.dialect)
        if entry is None:
            return self._reject_key(api, statistics, key)
        api = in_dialect_of(api, entry.config.dialect)
        counts = statistics.counts_by_account[entry.account.name]
        counts.received += 1
        now = self.now()
        signature_error = api.dialect.signature_error(request, body, entry.config.secret)
        if signature_error is not None:
            statistics.refused(counts, None, "auth", now)
            return self._error_response(api.dialect, signature_error, self.request_id())
        try:
            api_request = api.parse(body)
        except InvalidRequest as why:
            statistics.refused(counts, None, "invalid", now)
            request_id = self.request_id()
            return self._error_response(api.dialect, api.dialect.invalid(why, request_id), request_id)
        api_request.unit = request.headers.get(UNIT_HEADER) or api_request.unit
        self._number += 1
        unit = fingerprint(api_request.unit.encode() if api_request.unit else body)
        charge = api.dialect.charge if entry.config.charge == "auto" else entry.config.charge
        call = FakeCall(request, api, statistics, counts, entry, self._number, now, api_request, unit, charge)
        return await self._admit(call)

    def _reject_key(self, api: Api, statistics: Statistics, key: str) -> web.Response:
        statistics.no_account.received += 1
        statistics.refused(statistics.no_account, None, "auth", self.now())
        request_id = self.request_id()
        return self._error_response(api.dialect, api.dialect.unauthorized(key, request_id), request_id)

    def _error_response(
        self,
        dialect: ErrorDialect,
        error: ErrorResponse,
        request_id: str,
        extra_headers: dict[str, str] | None = None,
        content_type: str = http_answers.JSON,
    ) -> web.Response:
        status, body, *own = error
        sent = {**(extra_headers or {}), **(own[0] if own else {})}
        if dialect.request_id_header:
            sent[dialect.request_id_header] = request_id
        self._add_date(sent)
        return http_answers.whole_response(status, body, sent, content_type)

    def _add_date(self, sent: dict[str, str]) -> None:
        if self.config.clock_skew:
            sent["Date"] = headers.http_date(self._wall())

    def _wall(self) -> float:
        return self.time_source.wall() + self.config.clock_skew

    async def _admit(self, call: FakeCall) -> web.StreamResponse:
        """Admission: faults that refuse a request, then the limits."""
        fault = _next_fault(call.entry.before_admission, call, call.now)
        if fault:
            call.statistics.faulted(call.counts, call.unit, fault, call.now)
        if fault and fault not in HARMLESS:
            return self._fault_before_admission(call, fault)
        account, most = call.entry.account, call.entry.config.context
        if most is not None and call.api_request.input_tokens > most:
            call.statistics.refused(call.counts, call.unit, "context", call.now)
            error = call.api.dialect.context_exceeded(call.api_request.input_tokens, most, call.request_id)
            return self._error_response(call.api.dialect, error, call.request_id)
        refusal = account.admit(
            call.api_request.input_tokens, call.api_request.max_tokens, call.now, call.charge
        )
        style = headers.style_of(account, call.api.dialect.name)
        call.headers = headers.limit_headers(account, style, call.now, self._wall())
        if call.entry.config.windows and call.api.dialect.name == "anthropic":
            call.headers |= windows_allowed(call.entry.config.windows, self._wall() - call.now)
        if refusal is not None:
            return self._refuse(call, refusal, fault)
        if fault:
            call.headers = headers.garbled(call.headers, call.number)
        if call.api.dialect.request_id_header:
            call.headers[call.api.dialect.request_id_header] = call.request_id
        self._add_date(call.headers)
        return await self._serve_admitted(call)

    def _fault_before_admission(self, call: FakeCall, fault: str) -> web.Response:
        dialect, request_id = call.api.dialect, call.request_id
        if fault in RESETS:
            return self._refuse_until_reset(call, fault)
        error = {
            "529": lambda: dialect.server_error(529, request_id),
            "401": lambda: dialect.unauthorized("sk-revoked-by-a-fault", request_id),
            "quota": lambda: dialect.quota_exhausted(request_id),
            "blocked": lambda: dialect.content_blocked(request_id),
        }[fault]()
        call.statistics.refused(call.counts, call.unit, f"fault {fault}", call.now)
        return self._error_response(dialect, error, request_id)

    def _refuse_until_reset(self, call: FakeCall, fault: str) -> web.Response:
        """A 429 that says when to come back, whatever the limits are."""
        stage, dialect = call.entry.before_admission, call.api.dialect
        assert stage is not None
        call.statistics.refused(call.counts, call.unit, f"fault {fault}", call.now)
        if fault == "subscription":
            error = dialect.window_closed(stage.closed.claim, stage.wait_s, self._wall(), call.request_id)
            return self._error_response(dialect, error, call.request_id)
        refusal = Refusal("rpm", 1000, 1000, 1, stage.wait_s)
        style = headers.style_of(call.entry.account, dialect.name)
        more = headers.refusal_headers(call.entry.account, style, refusal, self._wall())
        error = dialect.refused(refusal, call.api_request.model, call.request_id)
        return self._error_response(dialect, error, call.request_id, more)

    def _refuse(self, call: FakeCall, refusal: Refusal, fault: str) -> web.Response:
        reason = "too_large" if refusal.too_large else refusal.reason
        call.statistics.refused(call.counts, call.unit, reason, call.now)
        account = call.entry.account
        style = headers.style_of(account, call.api.dialect.name)
        more = headers.refusal_headers(account, style, refusal, self._wall())
        more = (call.headers if style != "cohere" else {}) | more
        if fault:
            more = headers.garbled(more, call.number)
        dialect = call.api.dialect
        error = dialect.refused(refusal, call.api_request.model, call.request_id)
        return self._error_response(dialect, error, call.request_id, more)

    async def _serve_admitted(self, call: FakeCall) -> web.StreamResponse:
        """Answer an admitted request. It is always counted as ok, failed or cancelled."""
        statistics, counts, unit = call.statistics, call.counts, call.unit
        if statistics.admitted(counts, unit, call.api_request.input_tokens, call.now):
            statistics.example(counts, unit, call.api_request.unit, call.now)
        fault = _next_fault(call.entry.after_admission, call, call.now)
        if fault:
            statistics.faulted(counts, unit, fault, call.now)
        reply = self._reply(call)
        try:
            response = await self._with_slot(call, reply, fault)
        except http_answers.BrokenOnPurpose:
            statistics.failed(counts, unit, self.now())
            raise
        except (asyncio.CancelledError, ConnectionError):
            if not self.closing:
                statistics.cancelled(counts, unit, self.now())
            raise
        self._count_end(call, reply, fault)
        return response

    def _count_end(self, call: FakeCall, reply: ModelReply, fault: str) -> None:
        transport = call.request.transport
        if fault and fault not in HARMLESS:
            call.statistics.failed(call.counts, call.unit, self.now())
        elif transport is None or transport.is_closing():
            call.statistics.cancelled(call.counts, call.unit, self.now())
        else:
            call.statistics.ok(call.counts, call.unit, reply.output_tokens, self.now())

    def _reply(self, call: FakeCall) -> ModelReply:
        rules = (
            rule.output_tokens for rule in self.config.lengths if rule.contains in call.api_request.user_text
        )
        length = next(rules, call.entry.config.output_tokens)
        tokens = None if length is None else round(length.at(draw(self.config.seed, call.unit, 1)))
        identity = f"{call.unit:016x}{call.number:08x}"
        return make_reply(
            call.api_request, identity, int(self._wall()), tokens, self.config.tools, self.config.answers
        )

    async def _with_slot(self, call: FakeCall, reply: ModelReply, fault: str) -> web.StreamResponse:
        slots = call.entry.account.slots
        await slots.enter()
        try:
            if fault:
                return await self._answer_with_fault(call, reply, fault)
            if call.api_request.stream:
                return await self._answer_stream(call, reply)
            return await self._answer_whole(call, reply)
        finally:
            if call.charge == "settle":
                unused = call.entry.account.reserved_output(call.api_request.max_tokens) - reply.output_tokens
                call.entry.account.refund_output(unused, self.now())
            slots.leave()

    async def _wait(self, call: FakeCall, reply: ModelReply) -> None:
        """Sleep as long as an answer takes, or until the first event of a stream."""
        config = call.entry.config
        streamed = call.api_request.stream
        delay = config.ttft if streamed and config.ttft is not None else config.latency
        wait_s = delay.at(draw(self.config.seed, call.unit)) if delay else 0.0
        if not streamed:
            wait_s += config.per_token * reply.output_tokens
        if wait_s > 0.0:
            await self.time_source.sleep(wait_s)

    async def _wait_for_error(self, call: FakeCall, reply: ModelReply) -> None:
        """Sleep as long as an error takes."""
        delay = call.entry.config.error_latency
        if delay is None:
            await self._wait(call, reply)
        elif (wait_s := delay.at(draw(self.config.seed, call.unit))) > 0.0:
            await self.time_source.sleep(wait_s)

    async def _answer_whole(self, call: FakeCall, reply: ModelReply) -> web.StreamResponse:
        try:
            await self._wait(call, reply)
        finally:  # output is charged even if the client has gone
            call.entry.account.charge_output(reply.output_tokens, self.now(), call.charge)
        return http_answers.whole_response(200, call.api.body(call.api_request, reply), call.headers)

    async def _answer_stream(self, call: FakeCall, reply: ModelReply) -> web.StreamResponse:
        await self._wait(call, reply)
        response = await http_answers.begin_stream(call.request, call.headers, _stream_type(call))
        account, per_token = call.entry.account, call.entry.config.per_token
        events = call.api.events(call.api_request, reply)
        if not per_token:
            account.charge_output(reply.output_tokens, self.now(), call.charge)
            await response.write(b"".join(event.frame for event in events))
        else:
            for event in events:
                if event.tokens:
                    await self.time_source.sleep(event.tokens * per_token)
                    account.charge_output(event.tokens, self.now(), call.charge)
                await response.write(event.frame)
        await response.write_eof()
        return response

    async def _answer_with_fault(self, call: FakeCall, reply: ModelReply, fault: str) -> web.StreamResponse:
        """Answer with a fault after admission."""
        if fault in ("500", "502", "503"):
            await self._wait_for_error(call, reply)
            return self._server_error(call, int(fault))
        if fault == "reset":
            await self._wait_for_error(call, reply)
            raise http_answers.reset_connection(call.request)
        if fault == "hang":
            await http_answers.wait_forever()
        await self._wait(call, reply)
        if fault == "html":
            return http_answers.whole_response(200, html_page("Please wait"), call.headers, http_answers.HTML)
        if fault == "stream-error" and not call.api_request.stream:
            return self._server_error(call, 500)
        return await self._faulty_body(call, reply, fault)

    def _server_error(self, call: FakeCall, status: int) -> web.Response:
        if status == 502:
            page = html_page("502 Bad Gateway")
            return self._error_response(call.api.dialect, (502, page), call.request_id, {}, http_answers.HTML)
        dialect = call.api.dialect
        return self._error_response(
            dialect, dialect.server_error(status, call.request_id), call.request_id, call.headers
        )

    async def _faulty_body(self, call: FakeCall, reply: ModelReply, fault: str) -> web.StreamResponse:
        """A body that is slow or breaks off."""
        streamed = call.api_request.stream
        account = call.entry.account
        account.charge_output(reply.output_tokens, self.now(), call.charge)
        if streamed:
            frames = [event.frame for event in call.api.events(call.api_request, reply)]
        else:
            frames = [call.api.body(call.api_request, reply)]
        if fault == "truncated" and not streamed:
            return http_answers.whole_response(200, http_answers.first_half(frames), call.headers)
        content_type = _stream_type(call) if streamed else http_answers.JSON
        response = await http_answers.begin_stream(call.request, call.headers, content_type)
        if fault in HARMLESS:
            await self._write_harmless(response, frames, fault, streamed)
        else:
            await self._break_body(call, response, frames, fault)
        await response.write_eof()
        return response

    async def _write_harmless(
        self, response: web.StreamResponse, frames: list[bytes], fault: str, streamed: bool
    ) -> None:
        if fault == "slow":
            await http_answers.write_slowly(response, b"".join(frames), self.time_source.sleep)
            return
        await http_answers.write_keep_alives(
            response, b": keep-alive\n\n" if streamed else b"\n", self.time_source.sleep
        )
        await response.write(b"".join(frames))

    async def _break_body(
        self, call: FakeCall, response: web.StreamResponse, frames: list[bytes], fault: str
    ) -> None:
        if fault in ("truncated", "stream-error"):  # no event is cut
            await response.write(b"".join(frames[: max(1, len(frames) // 2)]))
            if fault == "stream-error":
                await response.write(self._error_event(call))
            return
        await response.write(http_answers.first_half(frames))
        if fault == "reset-body":
            await asyncio.sleep(0)  # lets the written half leave before the reset
            raise http_answers.reset_connection(call.request)
        await http_answers.wait_forever()  # a stall

    def _error_event(self, call: FakeCall) -> bytes:
        dialect = call.api.dialect
        error = dialect.server_error_event(529, call.request_id)
        if dialect.name == "bedrock":
            return exception_frame("serviceUnavailableException", error)
        return sse_event("error", error) if dialect.name == "anthropic" else sse_data(error)


def _next_fault(stage: FaultStage | None, call: FakeCall, now: float) -> str:
    if stage is None:
        return ""
    return stage.next_fault(now, call.api_request.user_text if stage.reads_texts else "")


def _stream_type(call: FakeCall) -> str:
    """The content type of a stream."""
    return STREAM_TYPE if call.api.dialect.name == "bedrock" else http_answers.SSE
