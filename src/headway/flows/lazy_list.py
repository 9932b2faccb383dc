"""Lists that are read in pages when their elements are needed: the rows of a data set, the answers of a million iterations.

A `LazyList` never changes and holds at most one page. Expressions, `for_each` sources and pipelines take it as they take a
list. It becomes a plain list only where a request or a result is written (`plain`, `encode_value`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, overload

import msgspec

#: Elements that are read at once. An answer may have megabytes.
PAGE: Final = 256


class LazyList(Sequence[Any]):
    """A list that is read in pages. Subclasses have `__len__` and `read`."""

    _first = 0
    _page: Sequence[Any] = ()

    def read(self, first: int, limit: int) -> list[Any]:
        """The elements from the place `first` on, at most `limit` of them."""
        raise NotImplementedError

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[n] for n in range(*place.indices(len(self)))]
        if not self._first <= place < self._first + len(self._page):
            place = self._turn_to(place)
        return self._page[place - self._first]

    def _turn_to(self, place: int) -> int:
        """Read the page of a place; returns the place, counted from 0."""
        size = len(self)
        if not -size <= place < size:
            raise IndexError("list index out of range")
        place %= size
        if not self._first <= place < self._first + len(self._page):
            self._first = place // PAGE * PAGE
            self._page = self.read(self._first, PAGE)
        return place

    def __iter__(self) -> Iterator[Any]:
        first = 0
        while page := self.read(first, PAGE):
            yield from page
            first += len(page)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | tuple | LazyList):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


def plain(value: Any) -> Any:
    """The value with plain lists. Only whole values, and elements of lazy lists, may be lazy."""
    return [plain(one) for one in value] if isinstance(value, LazyList) else value


def encode_value(value: Any) -> bytes:
    """The value as JSON."""
    return msgspec.json.encode(value, enc_hook=_listed)


def _listed(value: Any) -> list[Any]:
    if isinstance(value, LazyList):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")
