"""The lanes of this process that are in use, by name. Clients and `Lane` objects that use the same name share the lane.

One event loop in a background thread serves all of them, so a lane is the same for every thread and every event loop.
A lane ends with its last user, and the thread with the last lane. A forked process begins with no lanes.

The settings of a lane are those of the user that opened it. A later user may leave settings out; limits may also be
added to a lane that has none. Other values are an error.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from headway.config.call_settings import Limits, Retry
from headway.config.database_address import shown_database
from headway.core import events, model
from headway.core.commands import Notice
from headway.core.model import Counting, LaneSpec, Settings
from headway.engine.calls import Calls, SubmittedCall
from headway.errors import UsageError
from headway.providers.call_reports import current_attempt
from headway.providers.scrubber import Scrubber
from headway.reason_text import notice_text
from headway.runtime import loops
from headway.runtime.loops import Background
from headway.sdk.store_sharing import StorePlace, StoreSharing

if TYPE_CHECKING:
    from headway.sdk.tickets import RemoteTicket

_log: Final = logging.getLogger("headway")


class LaneSettings(msgspec.Struct, frozen=True):
    """What one user of a lane wants of it. None: no wish."""

    #: Users with the same key share the lane.
    key: Hashable
    #: The lane's name in messages.
    name: str
    counting: Counting
    limits: Limits | None = None
    retry: Retry | None = None
    max_hold_s: float | None = None
    own_failures: bool = False
    #: Where it is shared with jobs; None: only in this process.
    store: StorePlace | None = None

    @property
    def db(self) -> str | None:
        """The file through which it is shared with jobs."""
        return None if self.store is None else self.store.db

    def spec(self, limits: Limits | None) -> LaneSpec:
        """The lane for the scheduler."""
        core_limits = model.LaneLimits() if limits is None else limits.to_core()
        retry = (self.retry or Retry()).to_core()
        return LaneSpec(
            self.name,
            core_limits,
            retry,
            self.counting,
            own_failures=self.own_failures,
            follow_throughput=True,
        )


class SharedLane:
    """A lane with its users. `calls` and `close` belong to the background loop; the rest to any thread."""

    def __init__(self, registry: LaneRegistry, background: Background, terms: LaneSettings) -> None:
        self.registry, self.background = registry, background
        self.name = terms.name
        self.users = 0
        self._terms = terms
        self._limits = terms.limits
        self._store = terms.store
        self._calls: Calls | None = None
        self._sharing: StoreSharing | None = None
        self._closed = False

    def post(self, act: Callable[..., object], *arguments: Any) -> bool:
        """Call on the background loop; False if that has ended."""
        return self.background.post(act, *arguments)

    def agree(self, terms: LaneSettings) -> None:
        """Check the wishes of another user; take over limits where the lane has none."""
        opened = self._terms
        if terms.retry is not None and terms.retry.to_core() != (opened.retry or Retry()).to_core():
            raise self._conflict("retry", terms.retry, opened.retry or Retry())
        if terms.max_hold_s is not None and terms.max_hold_s != opened.max_hold_s:
            raise self._conflict("max_hold", _seconds(terms.max_hold_s), _seconds(opened.max_hold_s))
        if terms.store is not None and self._store is None:
            self._store = terms.store
            self.post(self._begin_sharing)
        elif terms.store is not None and self._store is not None and terms.db != self._store.db:
            raise self._conflict("db", shown_database(terms.db or ""), shown_database(self._store.db))
        if terms.limits is None:
            return
        if self._limits is None:
            self._limits = terms.limits
            self.post(self._apply_limits)
        elif terms.limits.to_core() != self._limits.to_core():
            raise self._conflict("limits", terms.limits, self._limits)

    def _conflict(self, what: str, wanted: object, present: object) -> UsageError:
        return UsageError(
            f"{what}={wanted}, but the lane '{self.name}' is open with {present}",
            hint=f"give the same {what} wherever this lane is used, or leave it out, or use a lane of another name",
        )

    # -- on the background loop -----------------------------------------------------------------------------------

    def calls(self) -> Calls:
        """The lane's scheduler and calls; RuntimeError once it is closed."""
        if self._closed:
            raise RuntimeError("closed")
        if self._calls is None:
            settings = Settings(max_hold_s=self._terms.max_hold_s, max_identical_invalid=0)
            self._calls = Calls(lambda _: self._terms.spec(self._limits), settings, Scrubber.of_environment())
            self._calls.noted = _log_notice
            self._begin_sharing()
        return self._calls

    def _begin_sharing(self) -> None:
        if self._calls is not None and self._store is not None and self._sharing is None and not self._closed:
            self._sharing = StoreSharing(self._store, self.name, self._calls)

    def when_shared(self, act: Callable[[], None]) -> None:
        """Call it once the lane's share is known; at once if no store shares it."""
        if self._sharing is None:
            act()
        else:
            self._sharing.when_known(act)

    def _apply_limits(self) -> None:
        if self._calls is not None and self._limits is not None and not self._closed:
            self._calls.tell(events.SetLimits(self.name, self._limits.to_core()))

    def reopen(self) -> None:
        """Let a lane that was stopped start requests again, even during a hold."""
        if self._calls is not None and not self._closed:
            self._calls.reopen(self.name, force=True)

    async def close(self) -> None:
        """Cancel what is left."""
        self._closed = True
        if self._calls is not None:
            await self._calls.close()
        if self._sharing is not None:
            await self._sharing.close()


class LaneRegistry:
    """The lanes that are in use on one background loop."""

    def __init__(self, loop_factory: object) -> None:
        #: What makes event loops while this registry is in use: tests in virtual time change it.
        self.loop_factory = loop_factory
        self._lock = threading.Lock()
        self._lanes: dict[Hashable, SharedLane] = {}
        self._background: Background | None = None

    def lease(self, terms: LaneSettings, leases: dict[Hashable, SharedLane]) -> SharedLane:
        """The lane for `terms`, opened if need be. It is added to `leases`, the lanes of its user."""
        with self._lock:
            lane = leases.get(terms.key)
            if lane is not None and lane.registry is self:
                return lane
            lane = self._lanes.get(terms.key)
            if lane is None:
                if self._background is None:
                    self._background = Background().__enter__()
                lane = self._lanes[terms.key] = SharedLane(self, self._background, terms)
            else:
                lane.agree(terms)
            lane.users += 1
            leases[terms.key] = lane
            return lane

    def release(self, lanes: list[SharedLane]) -> _LaneShutdown | None:
        """Give lanes back. Returns what is left to do where that ends some of them."""
        with self._lock:
            ended = []
            for lane in lanes:
                lane.users -= 1
                if lane.users == 0:
                    self._lanes.pop(lane._terms.key, None)
                    ended.append(lane)
            background = self._background
            if not ended or background is None:
                return None
            if not self._lanes:
                self._background = None
            return _LaneShutdown(background, ended, last=not self._lanes)


class _LaneShutdown:
    """Closes lanes without users, and the background loop after the last lane."""

    def __init__(self, background: Background, lanes: list[SharedLane], *, last: bool) -> None:
        self._background, self._lanes, self._last = background, lanes, last

    def wait(self) -> None:
        """Close them, and wait for it."""
        self._background.run(self._closed())
        if self._last:
            self._background.__exit__(None, None, None)

    def start(self) -> None:
        """Close them on the background loop, without waiting."""
        task = asyncio.get_running_loop().create_task(self._closed())
        _ending.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        _ending.discard(task)
        if self._last:
            self._background.abandon()

    async def _closed(self) -> None:
        for lane in self._lanes:
            await lane.close()


#: Keeps tasks alive until they are done.
_ending: Final[set[asyncio.Task[None]]] = set()


class LaneUser:
    """A client, or a `Lane` object: the lanes that it has opened, and its requests that have not ended."""

    def __init__(self) -> None:
        self._leases: dict[Hashable, SharedLane] = {}
        #: Tickets add and remove themselves.
        self.tickets: set[RemoteTicket] = set()
        weakref.finalize(self, _drop, self._leases)

    def lane(self, terms: LaneSettings) -> SharedLane:
        """The lane for `terms`."""
        if terms.store is not None and _has_its_place():
            terms = msgspec.structs.replace(terms, store=None, key=(terms.key, _INSIDE))
        registry = shared_registry()
        lane = self._leases.get(terms.key)
        return lane if lane is not None and lane.registry is registry else registry.lease(terms, self._leases)

    def opened(self) -> list[SharedLane]:
        """The lanes that are in use."""
        return list(self._leases.values())

    def close(self) -> None:
        """Cancel its requests that wait, and give back its lanes."""
        for ticket in list(self.tickets):
            ticket.abandon()
        for registry, lanes in _by_registry(self._leases):
            ending = registry.release(lanes)
            if ending is not None:
                ending.wait()


#: Marks lanes that are used inside a call with a place in a shared lane.
_INSIDE: Final = "inside a call"


def _has_its_place() -> bool:
    """Whether this code runs in a call whose lane is shared: it has its place there, and would wait for itself in another one.

    A worker process does not know how its call was made, so there it is assumed.
    """
    attempt = current_attempt.get()
    if isinstance(attempt, SubmittedCall):
        return attempt.shares_lane
    return attempt is not None


def _by_registry(leases: dict[Hashable, SharedLane]) -> list[tuple[LaneRegistry, list[SharedLane]]]:
    """Take all lanes out, grouped by registry. Lanes of a parent process are left alone: their thread is in that process."""
    lanes: list[SharedLane] = []
    groups: dict[LaneRegistry, list[SharedLane]] = {}
    while leases:
        lanes.append(leases.popitem()[1])
    for lane in lanes:
        if lane.background.alive:
            groups.setdefault(lane.registry, []).append(lane)
    return list(groups.items())


def _drop(leases: dict[Hashable, SharedLane]) -> None:
    """Give back the lanes of a user that was garbage-collected.

    Garbage may be collected anywhere, even while a lock of ours is held. So the work is done on the background loop.
    """
    for registry, lanes in _by_registry(leases):
        lanes[0].post(_release_on_loop, registry, lanes)


def _release_on_loop(registry: LaneRegistry, lanes: list[SharedLane]) -> None:
    ending = registry.release(lanes)
    if ending is not None:
        ending.start()


def _seconds(value: float | None) -> str:
    return "None" if value is None else f"{value:g} s"


def _log_notice(notice: Notice) -> None:
    level = (
        logging.WARNING
        if notice.what in ("stopped", "breaker_opened", "usage", "exhausted")
        else logging.INFO
    )
    _log.log(level, "%s: %s: %s", notice.lane, notice.what, notice_text(notice.reason))


# -- one a process ------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_registry: LaneRegistry | None = None


def shared_registry() -> LaneRegistry:
    """The registry of this process; in virtual time one for each virtual clock."""
    global _registry  # noqa: PLW0603 - one a process
    with _lock:
        if _registry is None or _registry.loop_factory is not loops.virtual_loop_factory:
            _registry = LaneRegistry(loops.virtual_loop_factory)
        return _registry


def _forget() -> None:
    """In a forked process: the thread that serves the lanes was not copied, and a lock may be held for ever."""
    global _registry, _lock
    _registry, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
