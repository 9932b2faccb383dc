"""The attached files of requests that are being sent, read from the store.

A file is in memory once, however many requests send it at the same time, and stays until its place is needed. All files together have
a ceiling: a request whose files do not fit waits until others are sent. A request that alone is above the ceiling is sent alone.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from headway.engine.recorder import Recorder
from headway.errors import StoreError
from headway.providers.attached_body import AttachedBody, marks_in
from headway.stores.store import Store

#: Bytes of files in memory.
MOST_BYTES: Final = 128 << 20


class _HeldFile:
    """A file that is in memory or on its way, and how many requests are sending it."""

    __slots__ = ("content", "size", "users")

    def __init__(self, size: int, content: asyncio.Future[bytes | None]) -> None:
        self.size, self.content = size, content
        self.users = 0


class AttachmentReader:
    """The files of one run. All methods are for the engine's thread."""

    def __init__(self, recorder: Recorder, most: int = MOST_BYTES) -> None:
        self._recorder, self._most = recorder, most
        #: By digest; those that were used last are at the end.
        self._held: OrderedDict[str, _HeldFile] = OrderedDict()
        self._bytes = 0
        self._waiting: deque[tuple[asyncio.Future[None], Mapping[str, int]]] = deque()

    @property
    def held_bytes(self) -> int:
        """Bytes of files that are in memory or on their way."""
        return self._bytes

    async def open(self, body: bytes) -> AttachedBody:
        """The body with its files."""
        files = marks_in(body)
        await self._admitted(files)
        release = partial(self._release, tuple(files))
        try:
            contents = {digest: await self._content(digest) for digest in files}
        except BaseException:
            release()
            raise
        return AttachedBody(body, contents, release)

    async def _admitted(self, files: Mapping[str, int]) -> None:
        """Wait until there is room, in the order of the calls."""
        if not self._waiting and self._fits(files):
            self._take(files)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, files))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release(files)
            raise

    def _fits(self, files: Mapping[str, int]) -> bool:
        """Whether these files fit beside those that are being sent. The others give way."""
        in_use = sum(held.size for held in self._held.values() if held.users)
        more = sum(size for digest, size in files.items() if not self._is_used(digest))
        return not more or not in_use or in_use + more <= self._most

    def _is_used(self, digest: str) -> bool:
        held = self._held.get(digest)
        return held is not None and held.users > 0

    def _take(self, files: Mapping[str, int]) -> None:
        for digest, size in files.items():
            if digest not in self._held:
                self._held[digest] = self._read(digest, size)
                self._bytes += size
            self._held.move_to_end(digest)
            self._held[digest].users += 1
        self._evict()

    def _read(self, digest: str, size: int) -> _HeldFile:
        content: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._recorder.read(partial(_content, self._recorder.job, digest), content.set_result)
        return _HeldFile(size, content)

    async def _content(self, digest: str) -> bytes:
        # Shielded: others may wait for the same file.
        data = await asyncio.shield(self._held[digest].content)
        if data is None:
            raise StoreError(f"an attached file is not in the database: {digest[:16]}")
        return data

    def _release(self, files: Iterable[str]) -> None:
        for digest in files:
            self._held[digest].users -= 1
        self._evict()
        while self._waiting:
            turn, wanted = self._waiting[0]
            if not turn.done() and not self._fits(wanted):
                return
            self._waiting.popleft()
            if not turn.done():
                self._take(wanted)
                turn.set_result(None)

    def _evict(self) -> None:
        """Drop files that no request is sending, the oldest first, until the rest fits."""
        for digest in [digest for digest, held in self._held.items() if not held.users]:
            if self._bytes <= self._most:
                return
            self._bytes -= self._held.pop(digest).size


def _content(job: int, digest: str, store: Store) -> bytes | None:
    return store.attachment(job, digest)
