"""Reads items in pages, without blocking the event loop."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

from headway.api.threads import Threads

T = TypeVar("T")

#: A page ends with so many items, or after so long: items of a slow generator are not held back.
PAGE: Final = 100
PAGE_S: Final = 0.02


#: Waits until items may be read, and returns how many; 0: reading is over.
Space = Callable[[], Awaitable[int]]


async def pages_of(
    items: Iterable[T] | AsyncIterable[T], threads: Threads, space: Space | None = None
) -> AsyncIterator[list[T]]:
    """Items page by page, while there is space. What may block (a generator, a file) is read in a thread."""
    if isinstance(items, AsyncIterable):
        async for item in items if space is None else _within(items, space):
            yield [item]
        return
    iterator = iter(items)
    if isinstance(items, Collection):
        while page := list(islice(iterator, await _most(space))):
            yield page
        return
    more = True
    while more and (most := await _most(space)):
        until = time.monotonic() + PAGE_S
        got: deque[T] = deque()
        reading = asyncio.get_running_loop().create_task(
            threads.run(partial(_read, iterator, got, most, until))
        )
        try:
            await asyncio.wait([reading], timeout=2 * PAGE_S)
            if got and not reading.done():
                # The next item is slow: yield those before it now.
                yield _taken(got)
            more, fault = await reading
        finally:
            reading.cancel()
        yield _taken(got)
        if fault is not None:
            raise fault


async def _most(space: Space | None) -> int:
    """How many items the next page may have."""
    return PAGE if space is None else min(PAGE, await space())


async def _within(items: AsyncIterable[T], space: Space) -> AsyncIterator[T]:
    """Items one by one: the next is requested when there is space for it."""
    iterator, left = aiter(items), 0
    while left := left or await space():
        left -= 1
        try:
            item = await anext(iterator)
        except StopAsyncIteration:
            return
        yield item


def _taken(page: deque[T]) -> list[T]:
    """Remove the items that are there. Another thread may append more meanwhile."""
    return [page.popleft() for _ in range(len(page))]


def _read(
    iterator: Iterator[Any], page: deque[Any], most: int, until: float
) -> tuple[bool, BaseException | None]:
    """Fill a page; returns whether there may be more, and what the iterator raised."""
    try:
        for number, item in enumerate(iterator, 1):
            page.append(item)
            if number >= most or time.monotonic() >= until:
                return True, None
    except BaseException as fault:
        return False, fault
    return False, None
