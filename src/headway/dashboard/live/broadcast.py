"""One poller for everything that is watched, and its watchers.

A poller begins with its first watcher and ends with its last: nothing is read where nobody looks. A watcher who reads slowly gets fewer events:
of those that replace each other only the last, of the others the latest `MOST_WAITING`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from typing import Final, Protocol

from headway.dashboard.live.live_event import LiveEvent, live_event
from headway.dashboard.records.record_reader import RecordReader
from headway.errors import HeadwayError, NoRecords
from headway.stores.store import Store

#: Events that wait for one watcher.
MOST_WAITING: Final = 200
#: Watchers at once, of all browsers together.
MOST_WATCHERS: Final = 64


class WatchedRecords(Protocol):
    """What is looked at again and again."""

    #: The events for someone who begins to watch after others.
    first: list[LiveEvent]

    def look(self, store: Store) -> list[LiveEvent]:
        """What is new since the last look. Called in a thread."""


class TooManyWatchers(Exception):
    """So many pages are open that another one gets no events."""


class Watcher:
    """One EventSource: what it has not got yet."""

    def __init__(self) -> None:
        self._waiting: deque[LiveEvent] = deque(maxlen=MOST_WAITING)
        self._news = asyncio.Event()
        self._is_over = False

    def tell(self, events: list[LiveEvent]) -> None:
        """Add events."""
        for event in events:
            if event.replaces:
                for earlier in [one for one in self._waiting if one.kind == event.kind]:
                    self._waiting.remove(earlier)
            self._waiting.append(event)
        if events:
            self._news.set()

    def end(self) -> None:
        """No more events follow."""
        self._is_over = True
        self._news.set()

    async def frames(self, wait_s: float) -> AsyncIterator[bytes]:
        """The events as they come; an empty text after `wait_s` without one."""
        while True:
            try:
                await asyncio.wait_for(self._news.wait(), wait_s)
            except TimeoutError:
                yield b""
                continue
            self._news.clear()
            if self._waiting:
                frames = b"".join(event.frame() for event in self._waiting)
                self._waiting.clear()
                yield frames
            if self._is_over:
                return


class _Poller:
    """Looks at one thing as long as it has watchers."""

    def __init__(self, watched: WatchedRecords, pause_s: float) -> None:
        self.watched, self.pause_s = watched, pause_s
        self.watchers: set[Watcher] = set()
        self.task: asyncio.Task[None] | None = None

    async def poll(
        self, read: Callable[[Callable[[Store], list[LiveEvent]]], Awaitable[list[LiveEvent]]]
    ) -> None:
        """Look, tell all watchers, and pause; longer where a look takes long."""
        clock = asyncio.get_running_loop().time
        trouble = ""
        while True:
            began = clock()
            try:
                news = await read(self.watched.look)
                trouble = ""
            except NoRecords:  # Nothing has been run yet.
                news = []
            except HeadwayError as error:
                news = [] if str(error) == trouble else [live_event("problem", {"error": str(error)})]
                trouble = str(error)
            for watcher in self.watchers:
                watcher.tell(news)
            took_s = clock() - began
            await asyncio.sleep(max(self.pause_s - took_s, took_s))


class Broadcast:
    """All pollers."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader
        self._pollers: dict[Hashable, _Poller] = {}

    def join(self, name: Hashable, make: Callable[[], WatchedRecords], pause_s: float) -> Watcher:
        """Begin to watch. Raises `TooManyWatchers`."""
        if sum(len(poller.watchers) for poller in self._pollers.values()) >= MOST_WATCHERS:
            raise TooManyWatchers
        poller = self._pollers.get(name)
        watcher = Watcher()
        if poller is None:
            poller = self._pollers[name] = _Poller(make(), pause_s)
            poller.task = asyncio.create_task(poller.poll(self._reader.read))
            poller.task.add_done_callback(lambda task: self._drop(name, poller, task))
        else:
            watcher.tell(poller.watched.first)
        poller.watchers.add(watcher)
        return watcher

    def leave(self, name: Hashable, watcher: Watcher) -> None:
        """Watch no more. The last watcher ends the poller."""
        poller = self._pollers.get(name)
        if poller is None:
            return
        poller.watchers.discard(watcher)
        if not poller.watchers and poller.task is not None:
            del self._pollers[name]
            poller.task.cancel()

    def close(self) -> None:
        """End all pollers and the streams of their watchers."""
        for name, poller in list(self._pollers.items()):
            for watcher in list(poller.watchers):
                watcher.end()
                self.leave(name, watcher)

    def _drop(self, name: Hashable, poller: _Poller, task: asyncio.Task[None]) -> None:
        """A poller that failed: its watchers connect again, and see why."""
        if task.cancelled():
            return
        task.exception()
        for watcher in poller.watchers:
            watcher.end()
        if self._pollers.get(name) is poller:
            del self._pollers[name]
