"""The section `watching` of RESULTS.md: what it costs a run to be watched."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

from bench.watching import large_job, page_speed, watched_run
from bench.watching.watched_run import WatchedCosts

#: The growth of the CPU of a unit, with a scrape each second and an EventSource client.
GROWTH_BAR: Final = 1.03
#: The slowest answer of the dashboard over a job of a million units.
PAGE_BAR_MS: Final = 200.0


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield "## Watching: what a run pays for being watched"
    yield ""
    yield f"{watched_run.UNITS:,} small requests without latency, alone and watched, in turns. The bar: CPU per unit ≤ {GROWTH_BAR:g} × that of a run alone."
    yield ""
    print("watching: a run that is watched …", flush=True)
    costs = watched_run.measure()
    yield "| a run | µs CPU per unit | against alone |"
    yield "|---|---|---|"
    yield f"| alone | {median(costs.alone):.0f} | |"
    yield f"| with a scrape each second ({costs.scrapes} in all) | {median(costs.scraped):.0f} | {costs.growth(costs.scraped):.3f} |"
    if costs.shown:
        yield f"| and with the dashboard open ({costs.events} events) | {median(costs.shown):.0f} | {costs.growth(costs.shown):.3f} |"
    yield ""
    missed += misses(costs)
    yield from _large_job(missed)
    print("watching: the page in Chromium …", flush=True)
    speed = page_speed.measure()
    yield from page_speed.lines(speed)
    yield ""
    missed += page_speed.misses(speed)


def _large_job(missed: list[str]) -> Iterator[str]:
    print("watching: a job of a million units …", flush=True)
    pages = large_job.measure()
    yield f"### The dashboard over a job of {pages.units:,} units"
    yield ""
    yield f"Each page {large_job.TURNS} times, over its socket; the slowest counts. The bar: ≤ {PAGE_BAR_MS:.0f} ms, search included. The search index was built beside it"
    yield f"in {pages.index_s:.0f} s."
    yield ""
    yield "| page | first ms | slowest ms |"
    yield "|---|---|---|"
    for page in pages.pages:
        yield f"| {page.page} | {page.first_ms:.0f} | {page.worst_ms:.0f} |"
        if page.worst_ms > PAGE_BAR_MS:
            missed.append(
                f"watching: {page.page} took {page.worst_ms:.0f} ms, the bar is {PAGE_BAR_MS:.0f} ms"
            )
    yield ""


def misses(costs: WatchedCosts) -> list[str]:
    """The missed bar."""
    growth = costs.growth(costs.shown or costs.scraped)
    if growth <= GROWTH_BAR:
        return []
    return [f"watching: CPU per unit {growth:.3f} × that of a run alone, the bar is {GROWTH_BAR:g}"]
