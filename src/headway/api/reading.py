"""Items out of whatever holds them, in pages, without holding up the event loop."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, AsyncIterator, Collection, Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeVar

from headway.api.threads import Threads

T = TypeVar("T")

#: A page is full with so many items, or after so long: a slow generator's items are not kept back.
PAGE: Final = 100
PAGE_S: Final = 0.02


async def pages_of(items: Iterable[T] | AsyncIterable[T], threads: Threads) -> AsyncIterator[list[T]]:
    """Page by page. What may block to give its next item (a generator, a file, a cursor) is read in a thread."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield [item]
        return
    iterator = iter(items)
    if isinstance(items, Collection):
        while page := list(islice(iterator, PAGE)):
            yield page
        return
    more = True
    while more:
        page, more, fault = await threads.run(lambda: _page(iterator))
        yield page
        if fault is not None:
            raise fault


def _page(iterator: Iterator[Any]) -> tuple[list[Any], bool, Exception | None]:
    """The next items, whether there may be more, and what the iterator raised after them."""
    until = time.monotonic() + PAGE_S
    page: list[Any] = []
    try:
        for item in iterator:
            page.append(item)
            if len(page) >= PAGE or time.monotonic() >= until:
                return page, True, None
    except Exception as fault:
        return page, False, fault
    return page, False, None
