"""One request's place in its lane, for code that makes the attempts itself.

`Calls` starts a call by calling it. A transport, and code that has its own loop, work the other way round: they wait for
a start, make the attempt in their own task or thread, and report its outcome. A `Ticket` lives on the background loop
of its lane; a `RemoteTicket` is its handle for any thread and any event loop.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from headway.core.model import Hint, Outcome, Usage
from headway.core.unit_states import Status
from headway.engine.calls import CallEnd, Calls, SubmittedCall
from headway.runtime.signals import wait_item
from headway.sdk.lane_registry import LaneUser, SharedLane

CLOSED: Final = CallEnd(Status.CANCELLED, "interrupted", "its client or lane was closed while it waited")


class Ticket:
    """`notify(True)`: an attempt may start now. `notify(False)`: no other attempt follows, and `end` has the reason."""

    __slots__ = ("_calls", "_flight", "_notify", "_outcome", "end")

    def __init__(self, calls: Calls, lane: str, notify: Callable[[bool], None], unit: dict[str, Any]) -> None:
        self._calls = calls
        self._notify = notify
        self._outcome: asyncio.Future[Outcome] | None = None
        self.end: CallEnd | None = None
        self._flight = calls.submit(lane, self._attempt, self._ended, **unit)

    async def _attempt(self, flight: SubmittedCall) -> Outcome:
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._outcome = outcome
        self._notify(True)
        return await outcome

    def _ended(self, flight: SubmittedCall, end: CallEnd) -> None:
        self.end = end
        self._notify(False)

    def admitted(self, hint: Hint | None, usage: Usage | None) -> None:
        """The provider accepted the attempt; its response has begun."""
        self._calls.admitted(self._flight, hint, usage)

    def finish(self, outcome: Outcome, *, final: bool = False) -> None:
        """Report how the attempt ended. `final`: no other attempt follows, whatever the outcome."""
        waiting, self._outcome = self._outcome, None
        if waiting is not None and not waiting.done():
            self._flight.final = final
            waiting.set_result(outcome)

    def abandon(self) -> None:
        """Give the place up."""
        self._outcome = None
        self._calls.cancel(self._flight)


class RemoteTicket:
    """A ticket as other threads and event loops use it. Nothing here blocks; `notify` is called on the background loop.

    `reopen`: a lane that was stopped gets another chance, unless it is on a hold. `scrub` removes the secrets of the
    request from every outcome, before the lane gets it.
    """

    __slots__ = ("_gone", "_lane", "_notify", "_ticket", "_user", "scrub")

    def __init__(
        self,
        user: LaneUser,
        lane: SharedLane,
        unit: dict[str, Any],
        notify: Callable[[bool], None],
        *,
        reopen: bool = False,
    ) -> None:
        self._user, self._lane, self._notify = user, lane, notify
        self._ticket: Ticket | None = None
        self._gone = False
        self.scrub: Callable[[Outcome], Outcome] | None = None
        user.tickets.add(self)
        if not lane.post(self._begin, unit, reopen):
            self._on_grant(False)

    def _begin(self, unit: dict[str, Any], reopen: bool) -> None:
        try:
            calls = self._lane.calls()
        except RuntimeError:  # The lane was closed meanwhile.
            self._on_grant(False)
            return
        self._lane.when_shared(lambda: self._submit(calls, unit, reopen))

    def _submit(self, calls: Calls, unit: dict[str, Any], reopen: bool) -> None:
        if self._gone:
            self._on_grant(False)
            return
        try:
            if reopen:
                calls.reopen(self._lane.name)
            self._ticket = Ticket(calls, self._lane.name, self._on_grant, unit)
        except RuntimeError:  # The lane was closed meanwhile.
            self._on_grant(False)

    def _on_grant(self, granted: bool) -> None:
        if not granted:
            self._user.tickets.discard(self)
        self._notify(granted)

    @property
    def end(self) -> CallEnd:
        """Why no other attempt follows."""
        return (self._ticket and self._ticket.end) or CLOSED

    def admitted(self, hint: Hint | None, usage: Usage | None) -> None:
        """See `Ticket.admitted`."""
        self._post(lambda ticket: ticket.admitted(hint, usage))

    def finish(self, outcome: Outcome, *, final: bool = False) -> None:
        """See `Ticket.finish`."""
        reported = outcome if self.scrub is None else self.scrub(outcome)
        self._post(lambda ticket: ticket.finish(reported, final=final))

    def abandon(self) -> None:
        """See `Ticket.abandon`."""

        def give_up() -> None:
            self._gone = True
            if self._ticket is not None:
                self._ticket.abandon()

        self._lane.post(give_up)

    def _post(self, act: Callable[[Ticket], None]) -> None:
        def apply() -> None:
            if self._ticket is not None:
                act(self._ticket)

        self._lane.post(apply)


class ThreadTicket(RemoteTicket):
    """A ticket for a thread that may block."""

    __slots__ = ("_grants",)

    def __init__(
        self, user: LaneUser, lane: SharedLane, unit: dict[str, Any], *, reopen: bool = False
    ) -> None:
        self._grants: queue.SimpleQueue[bool] = queue.SimpleQueue()
        super().__init__(user, lane, unit, self._grants.put, reopen=reopen)

    def wait(self) -> bool:
        """Block until the next attempt may start; False: there is none."""
        return wait_item(self._grants)


class LoopTicket(RemoteTicket):
    """A ticket for a task on the running event loop."""

    __slots__ = ("_grant", "_loop")

    def __init__(
        self, user: LaneUser, lane: SharedLane, unit: dict[str, Any], *, reopen: bool = False
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._grant: asyncio.Future[bool] = self._loop.create_future()
        super().__init__(user, lane, unit, self._post_grant, reopen=reopen)

    def _post_grant(self, granted: bool) -> None:
        with suppress(RuntimeError):  # The caller's loop is closed.
            self._loop.call_soon_threadsafe(self._resolve, granted)

    def _resolve(self, granted: bool) -> None:
        if not self._grant.done():
            self._grant.set_result(granted)

    async def wait(self) -> bool:
        """Wait until the next attempt may start; False: there is none."""
        hold = getattr(self._loop, "hold_for", None)
        if hold is not None:  # Virtual time: the clock must not run ahead of the background thread.
            hold(self._grant)
        try:
            return await self._grant
        finally:
            self._grant = self._loop.create_future()
