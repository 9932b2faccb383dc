"""Runs an asynchronous generator of result pages in a task, so that a consumer may stop at any moment.

A generator that is abandoned half-way is closed some time later, and at the end of `asyncio.run` it may no longer await
anything. A task is always cancelled and awaited, so the run belongs to a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Generic, TypeVar

P = TypeVar("P")


class PageTask(Generic[P]):
    """Gives one page at a time; the run continues when the next one is requested."""

    def __init__(self, pages: AsyncGenerator[P, None]) -> None:
        self._page: P | None = None
        self._requested, self._ready = asyncio.Event(), asyncio.Event()
        self._work = asyncio.get_running_loop().create_task(self._run(pages))
        self._work.add_done_callback(self._done)

    async def _run(self, pages: AsyncGenerator[P, None]) -> None:
        async with aclosing(pages):
            async for page in pages:
                self._page = page
                self._ready.set()
                await self._requested.wait()
                self._requested.clear()

    def _done(self, work: asyncio.Task[Any]) -> None:
        if not work.cancelled():
            work.exception()  # Marks it as retrieved: `next` raises it, and a consumer that has left does not need it.
        self._ready.set()

    async def next(self) -> P | None:
        """The next page; None at the end."""
        if self._page is not None:
            self._page = None
            self._ready.clear()
            self._requested.set()
        if self._work.done():
            self._work.result()
            return None
        await self._ready.wait()
        if self._page is None:
            self._work.result()
        return self._page

    def cancel(self) -> None:
        """Cancel the run."""
        self._work.cancel()

    async def wait_ended(self) -> None:
        """Wait until the run has ended."""
        await asyncio.wait([self._work])
