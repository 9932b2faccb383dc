"""Items out of whatever holds them, in pages, without holding up the event loop."""

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

#: A page is full with so many items, or after so long: a slow generator's items are not kept back.
PAGE: Final = 100
PAGE_S: Final = 0.02


#: Says how many items may be read now, once any may; 0: none ever again.
Space = Callable[[], Awaitable[int]]


async def pages_of(
    items: Iterable[T] | AsyncIterable[T], threads: Threads, space: Space | None = None
) -> AsyncIterator[list[T]]:
    """Page by page, as far as there is space. What may block to give its next item (a generator, a file) is read in a thread."""
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
                # The next one takes its time: those before it do not wait for it. Whatever comes now is given at once.
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
    """Items one by one: the next is asked for when there is space for it."""
    iterator, left = aiter(items), 0
    while left := left or await space():
        left -= 1
        try:
            item = await anext(iterator)
        except StopAsyncIteration:
            return
        yield item


def _taken(page: deque[T]) -> list[T]:
    """What is there; more may be added at the other end meanwhile."""
    return [page.popleft() for _ in range(len(page))]


def _read(
    iterator: Iterator[Any], page: deque[Any], most: int, until: float
) -> tuple[bool, BaseException | None]:
    """Fill a page; whether there may be more, and what the iterator raised."""
    try:
        for number, item in enumerate(iterator, 1):
            page.append(item)
            if number >= most or time.monotonic() >= until:
                return True, None
    except BaseException as fault:
        return False, fault
    return False, None
