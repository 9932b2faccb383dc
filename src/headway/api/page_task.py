"""Pages of results out of a task of their own, for a consumer who may leave at any moment.

An asynchronous generator that is left in the middle is closed some time later, and at the end of `asyncio.run` in a way in
which it may not wait any more. A task is cancelled and waited for, there as elsewhere: so the run is the task's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Generic, TypeVar

P = TypeVar("P")


class Handing(Generic[P]):
    """One page at a time: the next is taken out of the run when it is asked for."""

    def __init__(self, pages: AsyncGenerator[P, None]) -> None:
        self._page: P | None = None
        self._asked, self._there = asyncio.Event(), asyncio.Event()
        self._work = asyncio.get_running_loop().create_task(self._hand(pages))
        self._work.add_done_callback(self._over)

    async def _hand(self, pages: AsyncGenerator[P, None]) -> None:
        async with aclosing(pages):
            async for page in pages:
                self._page = page
                self._there.set()
                await self._asked.wait()
                self._asked.clear()

    def _over(self, work: asyncio.Task[Any]) -> None:
        if not work.cancelled():
            work.exception()  # Whoever still asks hears of it; who has left does not want to.
        self._there.set()

    async def next(self) -> P | None:
        """The next page; None where there is none."""
        if self._page is not None:
            self._page = None
            self._there.clear()
            self._asked.set()
        if self._work.done():
            self._work.result()
            return None
        await self._there.wait()
        if self._page is None:
            self._work.result()
        return self._page

    def leave(self) -> None:
        """End the run, some time soon."""
        self._work.cancel()

    async def ended(self) -> None:
        """Until it has ended."""
        await asyncio.wait([self._work])
