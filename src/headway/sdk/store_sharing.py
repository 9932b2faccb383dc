"""One lane of clients among the jobs of a store that use the same lane: it records its claims there, and keeps to its share.

A lane begins with what the store knows of it, and the first request waits until the claims of others were read. Then they are read
five times a second while the lane is used. An idle lane reads nothing; its next request waits for a new look. If the store cannot be
read or written any more, the lane goes on alone, and the log `headway` says so.

All methods are for the loop that the lane's calls run on. The store is used in a thread of its own.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import msgspec

from headway.config.database_address import shown_database
from headway.core.events import Granted, Share
from headway.core.lanes.job_share import Grant
from headway.core.lanes.lane import LaneState
from headway.engine.calls import Calls
from headway.engine.flights import LaneHandle
from headway.engine.recorder import LEARN_S
from headway.engine.recording.lane_records import RestoredLane, lane_row, oldest_start_utc, restore_levels
from headway.engine.recording.store_clock import StoreClock
from headway.engine.sharing.lane_sharing import LISTEN_S, LaneSharing
from headway.engine.store_reader import StoreReader
from headway.stores.claims import FIRST_CLIENT, ClaimNews
from headway.stores.records import RecordedStart, StoredLane
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch
from headway.wiring.store_access import open_store_file

#: As a job without a weight of its own.
WEIGHT: Final = 1.0
#: A lane with nothing in flight whose use has fallen below this share is idle.
IDLE_USE: Final = 0.01

_log: Final = logging.getLogger("headway")
_Value = TypeVar("_Value")


class StorePlace(msgspec.Struct, frozen=True):
    """Where a lane is shared: the file, the lane's key there (by the salt of the store), and its name if it is new there."""

    db: str
    key: Callable[[bytes], str]
    name: str
    #: Whether the program has named the lane: then it is the same as every lane of that name.
    named: bool


class StoreSharing:
    """The lane `name` of these calls, shared through a store."""

    def __init__(self, place: StorePlace, name: str, calls: Calls) -> None:
        self._place, self._name, self._calls = place, name, calls
        self._loop = asyncio.get_running_loop()
        self._client = FIRST_CLIENT + secrets.randbits(40)
        self._handles: dict[str, LaneHandle] = {}
        self._clock = StoreClock()
        self._sharing = LaneSharing(
            self._client, WEIGHT, self._handles, self._clock, of_program=place.named, comes_later=True
        )
        #: What waits until the shares are known.
        self._waiting: list[Callable[[], None]] = []
        self._known = self._looking = self._over = False
        self._next_look: asyncio.TimerHandle | None = None
        self._learned_utc = 0.0
        #: A loop with virtual time must not skip time while the thread works.
        self._holds: set[asyncio.Future[None]] = set()
        #: While it is closed: when its claims are removed.
        self._ended: asyncio.Future[None] | None = None
        self._reader = StoreReader(lambda: open_store_file(place.db), self._from_thread, self._failed)
        self._begin()

    def when_known(self, act: Callable[[], None]) -> None:
        """Call it once the shares of other jobs are known."""
        if self._known or self._over:
            act()
            return
        self._waiting.append(act)
        if not self._looking and self._handles:
            self._look()

    async def close(self) -> None:
        """Remove the claims, and keep what the lane has learned."""
        if self._next_look is not None:
            self._next_look.cancel()
        if not self._over:
            self._over = True
            self._ended = ended = self._loop.create_future()
            utc = self._clock.utc()
            rows = self._rows(utc)
            self._read(
                lambda store: store.claims.end_client(self._client, rows, utc),
                lambda _: None if ended.done() else ended.set_result(None),
            )
            await ended
        self._reader.close()
        self._release()

    # -- the beginning ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._reader.start()
        lane = self._calls.open(self._name)
        if lane is None:  # Nothing will start any more.
            self._over = True
            return
        self._looking = True
        self._read(partial(_stored, self._place, self._clock, lane), self._opened)

    def _opened(self, found: tuple[StoredLane, list[RecordedStart]]) -> None:
        stored, starts = found
        lane = self._calls.lane(self._name)
        handle = self._handles[self._name] = LaneHandle(self._name, stored.name, stored)
        handle.lane = lane
        if not lane.seq:  # Otherwise the lane is in use already, and knows more than the store.
            restored = RestoredLane(lane, handle.record, self._loop.time(), self._clock.utc())
            restore_levels({handle.id: restored}, starts)
        self._look()

    # -- looking at others --------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._looking, self._next_look = True, None
        self._read(self._sharing.read, self._share)

    def _share(self, news: ClaimNews) -> None:
        """Renew our claim, and keep to what others leave of the lane."""
        if self._over:
            return
        batch, utc = WriteBatch(self._client), self._clock.utc()
        self._sharing.expects_work = bool(self._waiting)
        self._known = bool(self._waiting) or not self._is_idle()
        look = self._calls.share(self._sharing, news, batch)
        for note in look.notes:
            _log.info("%s: %s", self._name, note.text)
        self._calls.tell(*look.events)
        rows = self._rows(utc) if utc - self._learned_utc >= LEARN_S else {}
        if not batch and not rows:
            self._shared()
            return
        self._read(
            lambda store: store.claims.renew_client(self._client, batch.claims.items(), rows, batch.seen_utc),
            lambda _: self._renewed(batch),
        )

    def _renewed(self, batch: WriteBatch) -> None:
        """Others can see the claim."""
        for act in batch.after_commit:
            act()
        self._shared()

    def _shared(self) -> None:
        """What waits may start, if the look has found what it may use. Otherwise the next look does, because we can be seen now."""
        if self._over:
            return
        if self._waiting and not (self._known and self._sharing.is_granted):
            self._look()
            return
        self._looking = False
        self._release()
        if self._known:
            self._next_look = self._loop.call_later(LISTEN_S, self._look)
        else:
            self._sharing.rest()

    def _is_idle(self) -> bool:
        lane = self._calls.lane(self._name)
        if lane.in_flight or lane.queue or not lane.traffic.started:
            return False
        rate, mean = lane.traffic.rate_at(self._loop.time()), lane.traffic.mean_costs()
        return all(rate * mean[meter.place] < IDLE_USE * meter.rate for meter in lane.limits.meters)

    def _rows(self, utc: float) -> dict[int, tuple[bytes, bytes, float]]:
        """What the lane has learned, if it has sent something."""
        handle = self._handles.get(self._name)
        if handle is None or handle.lane is None or not handle.lane.seq:
            return {}
        self._learned_utc = utc
        view = next(view for view in self._calls.lanes.lanes if view.key == self._name)
        return {handle.id: lane_row(handle.lane, handle.record, view, self._loop.time(), utc)}

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for act in waiting:
            act()

    # -- the store ----------------------------------------------------------------------------------------------------

    def _read(self, query: Callable[[Store], _Value], then: Callable[[_Value], None]) -> None:
        hold: asyncio.Future[None] = self._loop.create_future()
        self._holds.add(hold)
        hold_for = getattr(self._loop, "hold_for", None)
        if hold_for is not None:
            hold_for(hold)

        def deliver(value: _Value) -> None:
            self._holds.discard(hold)
            if not hold.done():
                hold.set_result(None)
            then(value)

        self._reader.read(query, deliver)

    def _from_thread(self, act: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(act)

    def _failed(self, error: Exception) -> None:
        """The store cannot be used any more."""
        self._over = True
        for hold in self._holds:
            if not hold.done():
                hold.set_result(None)
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)
        _log.warning(
            "%s: not shared with other jobs any more: %s: %s",
            self._name,
            shown_database(self._place.db),
            error,
        )
        if self._handles:
            self._calls.tell(Share(self._name, Grant()), Granted(math.inf))
        self._release()


def _stored(
    place: StorePlace, clock: StoreClock, lane: LaneState, store: Store
) -> tuple[StoredLane, list[RecordedStart]]:
    """The lane in the store. A job may have given it another name, which stays."""
    clock.correct(store.clock_ahead_s())
    since_utc = oldest_start_utc([lane], clock.utc())
    key = place.key(store.salt())
    known = next((lane for lane in store.lanes() if lane.key == key), None)
    return known or store.lane(key, place.name), store.starts_since(since_utc)
