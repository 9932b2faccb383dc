"""How long each page of the dashboard takes for a job of a million units: as the first request, again, and searches over the whole index.

`headway ui` is a process, and what is measured is the whole answer over its socket.
"""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.watching.stored_job import JOB, LargeStore, RandomTexts

#: Requests of each kind; the slowest counts.
TURNS: Final = 5
INDEX_S: Final = 1_800.0
#: The slowest answer.
PAGE_BAR_MS: Final = 200.0
_URL: Final = re.compile(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)")


class PageTime(msgspec.Struct, frozen=True):
    """The time of the first request and the longest of all, in milliseconds."""

    page: str
    first_ms: float
    worst_ms: float


class LargeJobPages(msgspec.Struct):
    """The times of all pages, and how long the search index took in the background."""

    units: int
    index_s: float
    pages: list[PageTime]


def measure(large: LargeStore) -> LargeJobPages:
    """Open every page of a job, wait for the index, and search."""
    with _dashboard(large.folder) as client:
        pages = [_timed(client, page, path) for page, path in _pages(large.units)]
        index_s = _wait_for_index(client)
        pages += [_timed(client, page, path) for page, path in _searches(large.texts)]
    return LargeJobPages(large.units, index_s, pages)


def _pages(units: int) -> Iterator[tuple[str, str]]:
    job = f"/api/jobs/{JOB}"
    yield "the list of jobs", "/api/jobs"
    yield "the job", job
    yield "its lanes", "/api/lanes"
    yield "its history", f"{job}/history"
    yield "the first units", f"{job}/units"
    yield "units after the middle", f"{job}/units?after=u{units // 2}"
    yield "failed units", f"{job}/units?status=failed"
    yield "units that were never sent", f"{job}/units?status=pending"
    yield "units by the beginning of their id", f"{job}/units?q=unit-0009"
    yield "one unit", f"{job}/units/{units - 1}"


def _searches(texts: RandomTexts) -> Iterator[tuple[str, str]]:
    job = f"/api/jobs/{JOB}/units"
    yield "search: a frequent word", f"{job}?q={texts.word(0)}"
    yield "search: a rare word", f"{job}?q={texts.word(25_000)}"
    yield "search: three words", f"{job}?q={texts.word(3)}+{texts.word(40)}+{texts.word(400)}"
    yield "search: a word of failed units only", f"{job}?q=policy&status=failed"
    yield "search: a frequent word of failed units", f"{job}?q={texts.word(0)}&status=failed"
    yield "search: nothing is found", f"{job}?q=xylophonequartz"


class _Client:
    def __init__(self, port: int, token: str) -> None:
        self._port, self._headers = port, {"Authorization": f"Bearer {token}"}

    def get(self, path: str) -> tuple[float, Any]:
        """The milliseconds of a request, and its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60.0)
        try:
            began = time.perf_counter()
            connection.request("GET", path, headers=self._headers)
            answer = connection.getresponse()
            body = answer.read()
            took = 1000.0 * (time.perf_counter() - began)
        finally:
            connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {body[:200]!r}")
        return took, json.loads(body)


@contextmanager
def _dashboard(folder: Path) -> Iterator[_Client]:
    words = [sys.executable, "-m", "headway", "ui", "--port", "0", "--no-open"]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = _URL.search(process.stdout.readline())
            if found is None:
                raise RuntimeError("headway ui has not started")
            yield _Client(int(found[1]), found[2])
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(10.0)


def _timed(client: _Client, page: str, path: str) -> PageTime:
    times = [client.get(path)[0] for _ in range(TURNS)]
    return PageTime(page, times[0], max(times))


def _wait_for_index(client: _Client) -> float:
    """Seconds until the index is complete. Someone looks all the time, as a page does."""
    began = time.monotonic()
    while client.get(f"/api/jobs/{JOB}/units?q=unit-0")[1]["indexing"] is not None:
        if time.monotonic() - began > INDEX_S:
            raise RuntimeError("the search index does not get complete")
        time.sleep(1.0)
    return time.monotonic() - began


def misses(pages: LargeJobPages) -> list[str]:
    """The missed bars."""
    slow = (page for page in pages.pages if page.worst_ms > PAGE_BAR_MS)
    return [
        f"watching: {page.page} took {page.worst_ms:.0f} ms, the bar is {PAGE_BAR_MS:.0f} ms" for page in slow
    ]


def lines(pages: LargeJobPages) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield f"### The dashboard over a job of {pages.units:,} units"
    yield ""
    yield f"Each page {TURNS} times, over its socket; the slowest counts. The bar: ≤ {PAGE_BAR_MS:.0f} ms, search included. The search index was built beside the"
    yield f"requests in {pages.index_s:.0f} s."
    yield ""
    yield "| page | first ms | slowest ms |"
    yield "|---|---|---|"
    for page in pages.pages:
        yield f"| {page.page} | {page.first_ms:.0f} | {page.worst_ms:.0f} |"
    yield ""
