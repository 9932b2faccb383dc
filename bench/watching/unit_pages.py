"""The search index of a million units: how long it takes to build, its size, and how long pages and searches take."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.watching.stored_job import JOB, LargeStore, RandomTexts
from headway.reports.unit_pages.unit_index import UnitIndex
from headway.reports.unit_pages.unit_page import unit_page
from headway.reports.unit_search import UnitQuery, search_units
from headway.stores.records import Job
from headway.stores.sqlite.file import SqliteFile
from headway.stores.sqlite.search_file import SearchFile
from headway.stores.store import Store
from headway.stores.unit_lists import UnitFilter

PAGE_BAR_S: Final = 0.2
#: Pages that are read of each list.
PAGES: Final = 6
#: The index is built in slices, so that pages are served meanwhile.
SLICE_S: Final = 0.05


class PageTimes(msgspec.Struct, frozen=True):
    """The pages of one list: the first, the median and the slowest, in seconds."""

    first_s: float
    median_s: float
    worst_s: float


class Measured(msgspec.Struct, frozen=True):
    """The index of a store, and the pages of its lists by name."""

    units: int
    build_s: float
    build_cpu_s: float
    slice_s: float
    store_mb: float
    index_mb: float
    pages: Mapping[str, PageTimes]


def measure(large: LargeStore) -> Measured:
    """Build the index of a store, and read pages."""
    with TemporaryDirectory() as name, Store(SqliteFile(large.file, read_only=True)) as store:
        job = store.job(JOB)
        assert job is not None
        file = SearchFile(Path(name) / "search.db", f"{job.id} {job.created_utc}")
        build_s, cpu_s, slice_s = _build(store, job, file)
        pages = {
            title: _pages(store, job, file, query) for title, query in _queries(large.units, large.texts)
        }
        pages["one unit, with its life"] = _unit_pages(store, job, large.units)
        file.close()
        size = sum(one.stat().st_size for one in Path(name).glob("search.db*")) / 1e6
    return Measured(large.units, build_s, cpu_s, slice_s, large.file.stat().st_size / 1e6, size, pages)


def _build(store: Store, job: Job, file: SearchFile) -> tuple[float, float, float]:
    index, began, cpu, slowest = UnitIndex(store, job, file), time.monotonic(), time.process_time(), 0.0
    more = True
    while more:
        at = time.monotonic()
        more = index.advance(SLICE_S, live=False)
        slowest = max(slowest, time.monotonic() - at)
    return time.monotonic() - began, time.process_time() - cpu, slowest


def _queries(units: int, texts: RandomTexts) -> Iterator[tuple[str, UnitQuery]]:
    yield "all units", UnitQuery()
    yield "all units, from 90 % on", UnitQuery(after=f"u{units * 9 // 10}")
    yield "failed units", UnitQuery(wanted=UnitFilter(statuses=("failed",)))
    yield "a code that no unit has", UnitQuery(wanted=UnitFilter(codes=("auth",)))
    yield "an id", UnitQuery(f"unit-{units * 7 // 10:07d}")
    yield "the beginning of ids", UnitQuery("unit-0")
    yield "the most frequent word", UnitQuery(texts.word(0))
    yield "a frequent word of failed units", UnitQuery(texts.word(0), UnitFilter(statuses=("failed",)))
    yield "two words", UnitQuery(f"{texts.word(300)} {texts.word(500)}")
    yield "a rare word", UnitQuery(texts.word(20_000))
    yield "the first two letters of a word", UnitQuery(texts.word(5)[:2])
    yield "a word of an error", UnitQuery("policy 3")
    yield "a word that no unit has", UnitQuery("qqqqqq")


def _pages(store: Store, job: Job, file: SearchFile, query: UnitQuery) -> PageTimes:
    times: list[float] = []
    following: str | None = query.after
    while following is not None and len(times) < PAGES:
        began = time.perf_counter()
        page = search_units(store, job, msgspec.structs.replace(query, after=following), file)
        times.append(time.perf_counter() - began)
        following = page.next
    return PageTimes(times[0], median(times), max(times))


def _unit_pages(store: Store, job: Job, units: int) -> PageTimes:
    times: list[float] = []
    for n in range(PAGES):
        began = time.perf_counter()
        unit_page(store, job, units * n // PAGES, live=False, now_utc=job.created_utc + 1e6)
        times.append(time.perf_counter() - began)
    return PageTimes(times[0], median(times), max(times))


def misses(measured: Measured) -> list[str]:
    """The missed bars."""
    return [
        f"watching, {name}: {times.worst_s * 1e3:.0f} ms, the bar is {PAGE_BAR_S * 1e3:.0f}"
        for name, times in measured.pages.items()
        if times.worst_s > PAGE_BAR_S
    ]


def lines(measured: Measured) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield f"### {measured.units:,} units: the search index, pages and searches"
    yield ""
    yield f"Prompts of 40 words, answers of 35, one unit of 200 failed. Read through the store file; {PAGES} pages of 100 units of each list."
    yield ""
    yield "| index | |"
    yield "|---|---|"
    yield f"| built in | {measured.build_s:.0f} s, {measured.build_cpu_s:.0f} s of CPU |"
    yield f"| longest slice (of {SLICE_S * 1e3:.0f} ms) | {measured.slice_s * 1e3:.0f} ms |"
    yield f"| size | {measured.index_mb:,.0f} MB beside a store of {measured.store_mb:,.0f} MB |"
    yield ""
    yield "| page | first ms | median ms | slowest ms | bar |"
    yield "|---|---|---|---|---|"
    for name, times in measured.pages.items():
        figures = (f"{one * 1e3:.0f}" for one in (times.first_s, times.median_s, times.worst_s))
        yield f"| {name} | {' | '.join(figures)} | ≤ {PAGE_BAR_S * 1e3:.0f} |"
    yield ""
