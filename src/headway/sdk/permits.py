"""`headway.Lane`: a lane for code that has its own loop, its own client, or its own retries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Mapping
from os import PathLike
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from headway.config.call_settings import Limits
from headway.core.model import Estimate, Hint, Outcome, Usage
from headway.errors import UnitError, UsageError
from headway.providers.call_reports import current_attempt
from headway.providers.dialects import anthropic, openai
from headway.providers.dialects.lenient_json import counts
from headway.providers.limits.exception_outcome import outcome_of
from headway.providers.limits.hints import RawResponse, understand
from headway.providers.limits.profiles import profile_for
from headway.providers.usage_check import checked_usage
from headway.runtime.loops import in_a_loop
from headway.sdk.client_settings import named_place, shared_store
from headway.sdk.lane_registry import LaneSettings, LaneUser
from headway.sdk.tickets import LoopTicket, RemoteTicket, ThreadTicket

_Ticket = TypeVar("_Ticket", LoopTicket, ThreadTicket)

#: Only Anthropic's usage has this field.
_ANTHROPIC: Final = "cache_read_input_tokens"
#: The name of lanes that were given none.
_UNNAMED: Final = "lane"


class Lane:
    """One rate-limit scope. `async with lane.permit(tokens=1200) as permit:` waits until the call may start.

    The lane learns from an exception that leaves the block: `headway.RateLimited`, and those of HTTP clients and SDKs. It is
    still raised; retry with another permit. Limits that are left out are found, as in a batch. `provider` (an
    address or a name such as "openai") says how tokens are counted and headers are read.

    All lanes of one `name` are the same lane, in every thread and on every event loop of the process; their limits must
    be the same, or left out. A lane without a name is shared with no other. With `db`, the file of Headway's records, jobs and
    programs that use a lane of that name share its limits with this one.

    >>> import headway
    >>> lane = headway.Lane(headway.Limits(rpm=600, tpm=90_000))
    >>> with lane.permit(tokens=1_200) as permit:
    ...     answer = "what a call gives"
    ...     permit.settle(input_tokens=800, output_tokens=50)
    >>> lane.close()
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        name: str | None = None,
        provider: str = "",
        db: str | PathLike[str] | None = None,
    ) -> None:
        if not isinstance(limits, Limits | None):
            raise UsageError(f"limits is {limits!r}", hint="use headway.Limits(rpm=…, tpm=…)")
        if db is not None and not name:
            raise UsageError("db is for lanes with a name", hint='name="…" says which lane of the file it is')
        self.name = _UNNAMED if name is None else name
        self._profile = profile_for(provider)
        key: Hashable = object() if name is None else name
        path = shared_store(db)
        place = None if path is None else named_place(path, self.name)
        self._settings = LaneSettings(key, self.name, self._profile.counting, limits, store=place)
        self._user = LaneUser()
        self._closed = False

    def permit(self, tokens: float = 0, *, max_output_tokens: float = 0, priority: int = 0) -> Permit:
        """A permit for one call, for `with` or `async with`.

        `tokens` is the expected input of the call, `max_output_tokens` the limit of its output; a higher `priority` goes
        first. Entering it raises `UnitError` if the lane was stopped, or if the call can never fit. A closed lane gives
        no permits.
        """
        for name, value in (("tokens", tokens), ("max_output_tokens", max_output_tokens)):
            given: object = value
            if not isinstance(given, int | float) or not given >= 0:
                raise UsageError(f"{name} is {given!r}", hint="a number of 0 or more")
        estimate = Estimate(float(tokens), float(max_output_tokens), float(max_output_tokens))
        return Permit(self, {"estimate": estimate, "priority": priority})

    def reopen(self) -> None:
        """Start calls again after the lane was stopped by a key or an account that was refused."""
        for lane in self._user.opened():
            lane.post(lane.reopen)

    def close(self) -> None:
        """Cancel calls that wait, and give no more permits. The lane's thread ends with the last lane of the process."""
        self._closed = True
        self._user.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.close)

    def _enter(self, ticket: type[_Ticket], unit: dict[str, Any]) -> _Ticket:
        if self._closed:
            raise UsageError(f"the lane '{self.name}' was closed", hint="make another headway.Lane")
        return ticket(self._user, self._user.lane(self._settings), unit)

    def _hint(self, headers: Mapping[str, str] | None) -> Hint | None:
        if not headers:
            return None
        return understand(RawResponse(200, dict(headers)), self._profile, now_utc=time.time()).hint


class Permit:
    """The right to make one call, while it is entered. It can be used once."""

    def __init__(self, lane: Lane, unit: dict[str, Any]) -> None:
        self._lane = lane
        self._unit = unit
        self._ticket: RemoteTicket | None = None
        self._hint: Hint | None = None
        #: What the call used, as far as it was reported. `headway.usage` reports it too.
        self.usage: Usage | None = None

    def settle(
        self,
        usage: Any = None,
        *,
        input_tokens: float = 0,
        output_tokens: float = 0,
        cached_input_tokens: float = 0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Report what the call used, for the lane's meters, and the headers of its response, for its limits.

        `usage` may be the usage of an SDK's response, the response itself, or a dict of the same names.
        """
        if usage is not None:
            self.usage = usage_of(usage)
        elif input_tokens or output_tokens:
            self.usage = Usage(float(input_tokens), float(output_tokens), float(cached_input_tokens))
        self._hint = self._lane._hint(headers) or self._hint

    # -- entering and leaving -------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if in_a_loop():
            raise UsageError("'with lane.permit()' would block the event loop", hint="write 'async with'")
        ticket = self._begin(ThreadTicket)
        try:
            granted = ticket.wait()
        except BaseException:
            ticket.abandon()
            raise
        return self._entered(ticket, granted=granted)

    async def __aenter__(self) -> Self:
        ticket = self._begin(LoopTicket)
        try:
            granted = await ticket.wait()
        except BaseException:
            ticket.abandon()
            raise
        return self._entered(ticket, granted=granted)

    def _begin(self, kind: type[_Ticket]) -> _Ticket:
        if self._ticket is not None:
            raise UsageError(
                "this permit was used before", hint="get a new permit from the lane for each call"
            )
        ticket = self._lane._enter(kind, self._unit)
        self._ticket = ticket
        return ticket

    def _entered(self, ticket: RemoteTicket, *, granted: bool) -> Self:
        if not granted:
            raise UnitError(ticket.end.code or str(ticket.end.status), ticket.end.message)
        self._before = current_attempt.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._ticket is not None
        current_attempt.reset(self._before)
        if error is None:
            self._ticket.finish(Outcome(None, self.usage, self._hint))
        elif isinstance(error, Exception):
            self._ticket.finish(outcome_of(error, self.usage), final=True)
        else:
            self._ticket.abandon()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def usage_of(report: Any) -> Usage:
    """The usage in an SDK's usage object, or in a response that contains one."""
    if isinstance(report, Usage):
        return report
    fields = _as_dict(report)
    inner = fields.get("usage")
    counted = counts(_as_dict(inner) if inner is not None else fields)
    shape: Any = anthropic.AnthropicAnswer if _ANTHROPIC in counted else openai.OpenAIAnswer
    usage: Usage | None = msgspec.convert({"usage": counted}, shape).counted()
    believed, _ = checked_usage(usage)
    return believed or Usage()


def _as_dict(report: Any) -> dict[str, Any]:
    if isinstance(report, Mapping):
        return dict(report)
    if hasattr(report, "model_dump"):
        return dict(report.model_dump())
    raise UsageError(
        f"usage is a {type(report).__name__}",
        hint="pass an SDK's usage, a dict, or input_tokens=… and output_tokens=…",
    )
