"""How many requests of an account are answered at once, and who waits for a place.

Past the cap a request is refused, or, where the plan has a queue, waits in the order of arrival.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Slots:
    """`size` places (None: any number) and a queue of `queue` (True: any number)."""

    def __init__(self, size: int | None, queue: int | bool = False) -> None:
        self.size = size
        self.queue = queue
        self.taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def has_room(self) -> bool:
        """Whether one more may come in, be it to wait."""
        if self.size is None or self.taken < self.size:
            return True
        return self.queue is True or len(self._waiting) < self.queue

    @property
    def must_wait(self) -> bool:
        """Whether the next one has to wait for its place."""
        return self.size is not None and self.taken >= self.size

    async def enter(self) -> None:
        """Take a place, once there is one."""
        if not self.must_wait:
            self.taken += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()  # the place had just been handed over
            else:
                self._waiting.remove(turn)
            raise

    def leave(self) -> None:
        """Give the place to the next in line, or back."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.taken -= 1
