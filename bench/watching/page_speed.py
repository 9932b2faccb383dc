"""How quick the page of the dashboard is in Chromium: its first paint, and whether it stutters while 20 lanes change ten times a second."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from statistics import median
from typing import Any, Final, NamedTuple

from playwright.async_api import Browser, async_playwright
from tests.browser import FLAGS, chromium_path

from bench.watching.busy_page import CHANGES_PER_S, LANES, busy_server

#: Milliseconds until the first paint; the longest task that a reader does not notice; the share of frames that are late.
PAINT_BAR_MS: Final = 300.0
TASK_BAR_MS: Final = 100.0
#: Longer tasks of the browser block it noticeably; shorter ones are not reported by it.
LATE_FRAME_MS: Final = 50.0
LATE_BAR: Final = 0.01
#: Pages that are opened, and how long one is watched.
OPENED: Final = 5
WATCHED_S: Final = 15.0

_PAINTED = """() => new Promise((done) => new PerformanceObserver((list) => done(list.getEntriesByName('first-contentful-paint')[0].startTime))
  .observe({ type: 'paint', buffered: true }))"""
_WATCHED = """(ms) => new Promise((done) => {
  const tasks = [], frames = []; let last = performance.now();
  new PerformanceObserver((list) => tasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: 'longtask' });
  const frame = (now) => { frames.push(now - last); last = now; if (now - start < ms) requestAnimationFrame(frame); else done({ tasks, frames }); };
  const start = performance.now(); requestAnimationFrame(frame);
})"""


class PageSpeed(NamedTuple):
    """What was measured: milliseconds to the first paint of each page, long tasks, and gaps between frames."""

    paints_ms: list[float]
    long_tasks_ms: list[float]
    frames_ms: list[float]

    @property
    def paint_ms(self) -> float:
        return median(self.paints_ms)

    @property
    def longest_task_ms(self) -> float:
        return max(self.long_tasks_ms, default=0.0)

    @property
    def late_share(self) -> float:
        """The share of frames that came late."""
        return sum(gap > LATE_FRAME_MS for gap in self.frames_ms) / max(1, len(self.frames_ms))


def measure() -> PageSpeed:
    """Open pages, and watch one."""
    return asyncio.run(_measure())


async def _measure() -> PageSpeed:
    async with busy_server() as url, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium_path(), args=list(FLAGS))
        try:
            paints = [await _paint(browser, url) for _ in range(OPENED)]
            seen = await _watch(browser, url)
        finally:
            await browser.close()
    return PageSpeed(paints, seen["tasks"], seen["frames"])


async def _paint(browser: Browser, url: str) -> float:
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(url)
    painted: float = await page.evaluate(_PAINTED)
    await context.close()
    return painted


async def _watch(browser: Browser, url: str) -> dict[str, Any]:
    context = await browser.new_context(viewport={"width": 1360, "height": 900})
    page = await context.new_page()
    await page.goto(url)
    await page.locator("article.lane canvas").first.wait_for()
    await page.wait_for_timeout(1000)
    seen: dict[str, Any] = await page.evaluate(_WATCHED, 1000 * WATCHED_S)
    await context.close()
    return seen


def lines(speed: PageSpeed) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield "### The page"
    yield ""
    yield f"In Chromium: a job with {LANES} lanes that changes {CHANGES_PER_S} times a second, watched for {WATCHED_S:.0f} s."
    yield ""
    yield "| | measured | bar |"
    yield "|---|---|---|"
    yield f"| first paint (median of {OPENED}) | {speed.paint_ms:.0f} ms | < {PAINT_BAR_MS:.0f} ms |"
    yield f"| longest task | {f'{speed.longest_task_ms:.0f} ms' if speed.long_tasks_ms else 'none over 50 ms'} | ≤ {TASK_BAR_MS:.0f} ms |"
    yield f"| frames later than {LATE_FRAME_MS:.0f} ms | {100 * speed.late_share:.2f} % | ≤ {100 * LATE_BAR:.0f} % |"


def misses(speed: PageSpeed) -> list[str]:
    """The missed bars."""
    bars = (
        ("first paint", speed.paint_ms, PAINT_BAR_MS, "ms"),
        ("longest task", speed.longest_task_ms, TASK_BAR_MS, "ms"),
        ("late frames", 100 * speed.late_share, 100 * LATE_BAR, "%"),
    )
    return [f"watching: {name} {value:.1f} {unit}, the bar is {bar:.0f} {unit}" for name, value, bar, unit in bars if value > bar]  # fmt: skip
