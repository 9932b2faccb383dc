"""The HTML report of large evals in Debian's Chromium: how long it takes to write, to open and to search, and how large it is.

Opened is from the navigation until the matrix has been painted; searched is from the last key until the rows that are left have been drawn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
from playwright.sync_api import Browser, Page
from tests.browser import DESKTOP, Window, opened_ms, started_browser
from tests.evals.html.eval_views import large_eval, written

#: Rows and columns.
SIZES: Final = ((1_000, 5), (20_000, 5))
TURNS: Final = 5
#: For the smaller one.
OPENED_BAR_MS: Final = 1_000.0


class Measured(msgspec.Struct, frozen=True):
    """One report."""

    cells: int
    megabytes: float
    written_s: float
    opened_ms: float
    searched_ms: float


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield "### The report in a browser"
    yield ""
    yield f"Answers of 400 characters, the median of {TURNS}; Chromium on this machine."
    yield ""
    yield "| cells | file | written | opened | searched | bar |"
    yield "|---|---|---|---|---|---|"
    with TemporaryDirectory() as name, started_browser() as browser:
        for number, (rows, columns) in enumerate(SIZES):
            one = measure(browser, Path(name), rows, columns)
            bar = "" if number else f"opened ≤ {OPENED_BAR_MS:,.0f} ms"
            yield (
                f"| {one.cells:,} | {one.megabytes:.1f} MB | {one.written_s:.2f} s | {one.opened_ms:,.0f} ms | "
                f"{one.searched_ms:,.0f} ms | {bar} |"
            )
            if not number and one.opened_ms > OPENED_BAR_MS:
                missed.append(
                    f"a report of {one.cells:,} cells opens in {one.opened_ms:,.0f} ms, the bar is {OPENED_BAR_MS:,.0f}"
                )
    yield ""


def measure(browser: Browser, folder: Path, rows: int, columns: int) -> Measured:
    """Write a report, open it some times, and search it."""
    began = time.perf_counter()
    report = written(folder, large_eval(rows, columns))
    wrote_s = time.perf_counter() - began
    turns = [opened_and_searched_ms(browser, report, rows - 1) for _ in range(TURNS)]
    return Measured(
        cells=rows * columns,
        megabytes=report.stat().st_size / 1e6,
        written_s=wrote_s,
        opened_ms=median(opened for opened, _ in turns),
        searched_ms=median(searched for _, searched in turns),
    )


def opened_and_searched_ms(browser: Browser, report: Path, row: int) -> tuple[float, float]:
    """Milliseconds until the matrix is painted, and until a search has left one test."""
    window = Window(browser, DESKTOP)
    page = window.open(report)
    opened = opened_ms(page)
    searched = searched_ms(page, row)
    window.close()
    return opened, searched


def searched_ms(page: Page, row: int) -> float:
    """Milliseconds of a search that leaves one test."""
    box = page.get_by_role("searchbox")
    began = time.perf_counter()
    box.fill(f"question number {row}")
    page.locator("[role=grid][aria-rowcount='2']").wait_for()
    return (time.perf_counter() - began) * 1e3
