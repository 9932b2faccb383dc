"""What a run does with the cache before it sends anything: it makes keys, serves cached answers, and groups equal requests.

All of it is done in pages, each a transaction, and can be done again: a process that dies in the middle loses nothing,
and the next one goes on where the keys end. From then on the store does the rest, with every batch that is committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec

from headway.engine.cache_keys import CacheUse
from headway.stores.answer_cache import AnswerCache
from headway.stores.store import Store

#: Units in a transaction: some hundredths of a second, so that an interruption is noticed.
PAGE: Final = 2_000


class CacheHits(msgspec.Struct, frozen=True):
    """How many units the cache spared."""

    hits: int
    followers: int

    def text(self) -> str:
        """A line for people."""
        are = "1 more is" if self.followers == 1 else f"{self.followers:,} more are"
        same = f"; {are} identical to another and will share its answer" if self.followers else ""
        return f"{self.hits:,} answered without a call{same}"


class CacheLookup:
    """Runs in a thread of its own. `served` is called with units that got their answer, `say` with lines for people."""

    def __init__(
        self,
        use: CacheUse,
        job: int,
        total: int,
        only: frozenset[int] | None,
        *,
        stopping: Callable[[], bool],
        served: Callable[[list[int]], None],
        say: Callable[[str], None],
    ) -> None:
        self._use, self._job, self._total, self._only = use, job, total, only
        self._stopping, self._served, self._say = stopping, served, say

    def run(self, open_store: Callable[[], Store]) -> None:
        """Make keys, serve answers, group equal requests. If the run is stopping, only the present page is finished."""
        with open_store() as store:
            cache = store.cache
            self._make_keys(cache, linked=store.has_edges(self._job))
            hits = self._serve(cache)
            if not self._stopping():
                self._say(CacheHits(hits, cache.group(self._job, self._only)).text())

    def _make_keys(self, cache: AnswerCache, *, linked: bool) -> None:
        basis = self._use.basis()
        known = cache.keyed(self._job)
        if known.basis != basis:
            cache.rekey(self._job, basis)
        after = known.upto if known.basis == basis else -1
        while not self._stopping() and (page := cache.unkeyed(self._job, after, PAGE)):
            after = page[-1].index
            made = ((each.index, self._use.key(each.route, each.path, each.body)) for each in page)
            cache.add_keys(self._job, [(index, key) for index, key in made if key is not None], after)
        if self._use.mode != "all" and not self._stopping():
            self._tell_of_keys(cache.keyed(self._job).able, linked=linked)

    def _tell_of_keys(self, able: int, *, linked: bool) -> None:
        text = f"{able:,} of {self._total:,} requests may be cached"
        if able < self._total and linked:
            text += (
                "; the others have neither temperature 0 nor a seed, or are made from answers of other rows"
            )
        elif able < self._total:
            text += "; the others have neither temperature 0 nor a seed (--cache-all caches them too)"
        self._say(text)

    def _serve(self, cache: AnswerCache) -> int:
        hits, after = 0, -1
        while not self._stopping():
            page = cache.serve(self._job, after, PAGE, time.time(), self._only)
            if not page:
                break
            self._served(page)
            hits, after = hits + len(page), page[-1]
        return hits
