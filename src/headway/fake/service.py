"""A request's way: who asks, is it understood, may it in, what goes wrong, what is answered; all of it booked.

This file decides and books; it shapes no JSON (the APIs do) and keeps no limits (the accounts do).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web
from multidict import CIMultiDictProxy

from headway.fake import http_answers
from headway.fake.apis.api_request import Asked, Unacceptable
from headway.fake.apis.error_dialects import OPENAI, Complaint, Dialect, html_page
from headway.fake.apis.reply import Reply, data, named, reply_to
from headway.fake.fake_config import AccountPlan, Plan, owners
from headway.fake.faults import HARMLESS, Faults, stages
from headway.fake.limits import headers
from headway.fake.limits.accounts import Account, Refusal
from headway.fake.routes import Api, in_dialect_of
from headway.fake.seeded_random import draw, fingerprint
from headway.fake.stats import Books, Tally

DEFAULT = "default"
UNIT_HEADER = "x-headway-unit"


@dataclass(frozen=True, slots=True)
class Timing:
    """The clock of the buckets, the calendar, and how to wait."""

    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep


@dataclass(slots=True)
class Tenant:
    """An account with the faults of its own."""

    account: Account
    plan: AccountPlan
    door: Faults | None
    inside: Faults | None


@dataclass(slots=True)
class Call:
    """One request on its way."""

    request: web.BaseRequest
    api: Api
    books: Books
    tally: Tally
    tenant: Tenant
    number: int
    now: float
    asked: Asked
    unit: int
    #: How its tokens are charged.
    charge: str = "reserve"
    #: What the answer's headers say: of the limits, as they stood when the request got in.
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def request_id(self) -> str:
        """As the vendor would call this request."""
        return f"req_{self.number:032x}"


class Provider:
    """All accounts, and the one entrance to them."""

    def __init__(self, plan: Plan, timing: Timing) -> None:
        self.plan = plan
        self.timing = timing
        self.closing = False
        self._zero = timing.clock()
        self._number = 0
        plans = dict(plan.accounts)
        if not plan.strict:
            plans.setdefault(DEFAULT, AccountPlan())
        self._tenants = {
            name: Tenant(Account(name, said), said, *stages(said.faults + plan.faults, plan.seed, name))
            for name, said in plans.items()
        }
        self._by_key = {key: self._tenants[name] for key, name in owners(plan).items()}
        self._default = None if plan.strict else self._tenants[DEFAULT]
        self.books = self._new_books()

    def _new_books(self) -> Books:
        return Books(list(self._tenants), self.plan.remember, self.now())

    def now(self) -> float:
        """Seconds since the start."""
        return self.timing.clock() - self._zero

    def reset(self) -> None:
        """Forget all counts, but no bucket."""
        self.books = self._new_books()

    def tenant_of(self, sent: CIMultiDictProxy[str], dialect: Dialect = OPENAI) -> tuple[Tenant | None, str]:
        """Whose key a request has, and the key."""
        key = dialect.key_in(sent)
        return (self._by_key.get(key, self._default) if key else None), key

    def request_id(self) -> str:
        """The next one."""
        self._number += 1
        return f"req_{self._number:032x}"

    async def serve(self, request: web.BaseRequest, api: Api) -> web.StreamResponse:
        """Answer one call of an API."""
        body = await request.read()
        books = self.books
        tenant, key = self.tenant_of(request.headers, api.dialect)
        if tenant is None:
            return self._turn_away(api, books, key)
        api = in_dialect_of(api, tenant.plan.dialect)
        tally = books.tallies[tenant.account.name]
        tally.received += 1
        now = self.now()
        unproven = api.dialect.unproven(request, body, tenant.plan.secret)
        if unproven is not None:
            books.refused(tally, None, "auth", now)
            return self._complain(api.dialect, unproven, self.request_id())
        try:
            asked = api.parse(body)
        except Unacceptable as why:
            books.refused(tally, None, "invalid", now)
            request_id = self.request_id()
            return self._complain(api.dialect, api.dialect.invalid(why, request_id), request_id)
        asked.unit = request.headers.get(UNIT_HEADER) or asked.unit
        self._number += 1
        unit = fingerprint(asked.unit.encode() if asked.unit else body)
        charge = api.dialect.charge if tenant.plan.charge == "auto" else tenant.plan.charge
        call = Call(request, api, books, tally, tenant, self._number, now, asked, unit, charge)
        return await self._receive(call)

    def _turn_away(self, api: Api, books: Books, key: str) -> web.Response:
        books.nobody.received += 1
        books.refused(books.nobody, None, "auth", self.now())
        request_id = self.request_id()
        return self._complain(api.dialect, api.dialect.unauthorized(key, request_id), request_id)

    def _complain(
        self,
        dialect: Dialect,
        complaint: Complaint,
        request_id: str,
        more: dict[str, str] | None = None,
        content_type: str = http_answers.JSON,
    ) -> web.Response:
        status, body, *own = complaint
        sent = {**(more or {}), **(own[0] if own else {})}
        if dialect.request_id_header:
            sent[dialect.request_id_header] = request_id
        self._date(sent)
        return http_answers.whole(status, body, sent, content_type)

    def _date(self, sent: dict[str, str]) -> None:
        if self.plan.clock_skew:
            sent["Date"] = headers.http_date(self._wall())

    def _wall(self) -> float:
        return self.timing.wall() + self.plan.clock_skew

    async def _receive(self, call: Call) -> web.StreamResponse:
        """The door: faults that keep a request out, then the limits."""
        odd = call.tenant.door.strike(call.now) if call.tenant.door else ""
        if odd:
            call.books.faulted(call.tally, call.unit, odd, call.now)
        if odd and odd not in HARMLESS:
            return self._at_the_door(call, odd)
        account, most = call.tenant.account, call.tenant.plan.context
        if most is not None and call.asked.input_tokens > most:
            call.books.refused(call.tally, call.unit, "context", call.now)
            complaint = call.api.dialect.too_long(call.asked.input_tokens, most, call.request_id)
            return self._complain(call.api.dialect, complaint, call.request_id)
        refusal = account.admit(call.asked.input_tokens, call.asked.max_tokens, call.now, call.charge)
        style = headers.style_of(account, call.api.dialect.name)
        call.headers = headers.limit_headers(account, style, call.now, self._wall())
        if refusal is not None:
            return self._refuse(call, refusal, odd)
        if odd:
            call.headers = headers.garbled(call.headers, call.number)
        if call.api.dialect.request_id_header:
            call.headers[call.api.dialect.request_id_header] = call.request_id
        self._date(call.headers)
        return await self._admitted(call)

    def _at_the_door(self, call: Call, odd: str) -> web.Response:
        dialect, request_id = call.api.dialect, call.request_id
        complaint = {
            "529": lambda: dialect.broken(529, request_id),
            "401": lambda: dialect.unauthorized("sk-revoked-by-a-fault", request_id),
            "quota": lambda: dialect.out_of_money(request_id),
            "blocked": lambda: dialect.blocked(request_id),
        }[odd]()
        call.books.refused(call.tally, call.unit, f"fault {odd}", call.now)
        return self._complain(dialect, complaint, request_id)

    def _refuse(self, call: Call, refusal: Refusal, odd: str) -> web.Response:
        reason = "too_large" if refusal.too_large else refusal.reason
        call.books.refused(call.tally, call.unit, reason, call.now)
        account = call.tenant.account
        style = headers.style_of(account, call.api.dialect.name)
        more = headers.refusal_headers(account, style, refusal, call.now, self._wall())
        more = (call.headers if style != "cohere" else {}) | more
        if odd:
            more = headers.garbled(more, call.number)
        dialect = call.api.dialect
        complaint = dialect.refused(refusal, call.asked.model, call.request_id)
        return self._complain(dialect, complaint, call.request_id, more)

    async def _admitted(self, call: Call) -> web.StreamResponse:
        """Inside: the request ends in the books as ok, failed or cancelled, whatever happens."""
        books, tally, unit = call.books, call.tally, call.unit
        if books.admitted(tally, unit, call.asked.input_tokens, call.now):
            books.example(tally, unit, call.asked.unit, call.now)
        fault = call.tenant.inside.strike(call.now) if call.tenant.inside else ""
        if fault:
            books.faulted(tally, unit, fault, call.now)
        reply = self._reply(call)
        try:
            response = await self._in_turn(call, reply, fault)
        except http_answers.Spoiled:
            books.failed(tally, unit, self.now())
            raise
        except (asyncio.CancelledError, ConnectionError):
            if not self.closing:
                books.cancelled(tally, unit, self.now())
            raise
        self._book(call, reply, fault)
        return response

    def _book(self, call: Call, reply: Reply, fault: str) -> None:
        transport = call.request.transport
        if fault and fault not in HARMLESS:
            call.books.failed(call.tally, call.unit, self.now())
        elif transport is None or transport.is_closing():
            call.books.cancelled(call.tally, call.unit, self.now())
        else:
            call.books.ok(call.tally, call.unit, reply.output_tokens, self.now())

    def _reply(self, call: Call) -> Reply:
        rules = (one.output_tokens for one in self.plan.lengths if one.contains in call.asked.last_text)
        length = next(rules, call.tenant.plan.output_tokens)
        tokens = None if length is None else round(length.at(draw(self.plan.seed, call.unit, 1)))
        identity = f"{call.unit:016x}{call.number:08x}"
        return reply_to(call.asked, identity, int(self._wall()), tokens, self.plan.tools, self.plan.answers)

    async def _in_turn(self, call: Call, reply: Reply, fault: str) -> web.StreamResponse:
        slots = call.tenant.account.slots
        await slots.enter()
        try:
            if fault:
                return await self._spoil(call, reply, fault)
            if call.asked.stream:
                return await self._stream(call, reply)
            return await self._plain(call, reply)
        finally:
            if call.charge == "settle":
                unused = call.tenant.account.reserved(call.asked.max_tokens) - reply.output_tokens
                call.tenant.account.settled(unused, self.now())
            slots.leave()

    async def _wait(self, call: Call, reply: Reply) -> None:
        """The time that an answer takes, or a stream until it begins."""
        plan = call.tenant.plan
        streamed = call.asked.stream
        delay = plan.ttft if streamed and plan.ttft is not None else plan.latency
        wait_s = delay.at(draw(self.plan.seed, call.unit)) if delay else 0.0
        if not streamed:
            wait_s += plan.per_token * reply.output_tokens
        if wait_s > 0.0:
            await self.timing.sleep(wait_s)

    async def _plain(self, call: Call, reply: Reply) -> web.StreamResponse:
        try:
            await self._wait(call, reply)
        finally:  # an answer that nobody waits for any more is produced, and charged, all the same
            call.tenant.account.produced(reply.output_tokens, self.now(), call.charge)
        return http_answers.whole(200, call.api.body(call.asked, reply), call.headers)

    async def _stream(self, call: Call, reply: Reply) -> web.StreamResponse:
        await self._wait(call, reply)
        response = await http_answers.begin(call.request, call.headers, http_answers.SSE)
        account, per_token = call.tenant.account, call.tenant.plan.per_token
        events = call.api.events(call.asked, reply)
        if not per_token:
            account.produced(reply.output_tokens, self.now(), call.charge)
            await response.write(b"".join(event.frame for event in events))
        else:
            for event in events:
                if event.tokens:
                    await self.timing.sleep(event.tokens * per_token)
                    account.produced(event.tokens, self.now(), call.charge)
                await response.write(event.frame)
        await response.write_eof()
        return response

    async def _spoil(self, call: Call, reply: Reply, fault: str) -> web.StreamResponse:
        """The answer as the fault leaves it."""
        if fault in ("500", "502", "503"):
            await self._wait(call, reply)
            return self._broken(call, int(fault))
        if fault == "reset":
            await self._wait(call, reply)
            raise http_answers.reset(call.request)
        if fault == "hang":
            await http_answers.forever()
        await self._wait(call, reply)
        if fault == "html":
            return http_answers.whole(200, html_page("Please wait"), call.headers, http_answers.HTML)
        if fault == "stream-error" and not call.asked.stream:
            return self._broken(call, 500)
        return await self._spoil_body(call, reply, fault)

    def _broken(self, call: Call, status: int) -> web.Response:
        if status == 502:
            page = html_page("502 Bad Gateway")
            return self._complain(call.api.dialect, (502, page), call.request_id, {}, http_answers.HTML)
        dialect = call.api.dialect
        return self._complain(dialect, dialect.broken(status, call.request_id), call.request_id, call.headers)

    async def _spoil_body(self, call: Call, reply: Reply, fault: str) -> web.StreamResponse:
        """A body that begins well."""
        streamed = call.asked.stream
        account = call.tenant.account
        account.produced(reply.output_tokens, self.now(), call.charge)
        if streamed:
            frames = [event.frame for event in call.api.events(call.asked, reply)]
        else:
            frames = [call.api.body(call.asked, reply)]
        if fault == "truncated" and not streamed:
            return http_answers.whole(200, http_answers.half(frames), call.headers)
        content_type = http_answers.SSE if streamed else http_answers.JSON
        response = await http_answers.begin(call.request, call.headers, content_type)
        if fault in HARMLESS:
            await self._dawdle(response, frames, fault, streamed)
        else:
            await self._break_off(call, response, frames, fault)
        await response.write_eof()
        return response

    async def _dawdle(
        self, response: web.StreamResponse, frames: list[bytes], fault: str, streamed: bool
    ) -> None:
        if fault == "slow":
            await http_answers.trickle(response, b"".join(frames), self.timing.sleep)
            return
        await http_answers.keep_alive(response, b": keep-alive\n\n" if streamed else b"\n", self.timing.sleep)
        await response.write(b"".join(frames))

    async def _break_off(
        self, call: Call, response: web.StreamResponse, frames: list[bytes], fault: str
    ) -> None:
        if fault in ("truncated", "stream-error"):  # the events that come do come whole
            await response.write(b"".join(frames[: max(1, len(frames) // 2)]))
            if fault == "stream-error":
                await response.write(self._error_event(call))
            return
        await response.write(http_answers.half(frames))
        if fault == "reset-body":
            await asyncio.sleep(0)  # what was written is on its way before the reset overtakes it
            raise http_answers.reset(call.request)
        await http_answers.forever()  # a stall

    def _error_event(self, call: Call) -> bytes:
        dialect = call.api.dialect
        error = dialect.broken_event(529, call.request_id)
        return named("error", error) if dialect.name == "anthropic" else data(error)
