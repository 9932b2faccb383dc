"""The section `watching`: what the dashboard reads, how soon it answers, and what watching costs."""

from __future__ import annotations

from collections.abc import Iterator

from bench.watching import large_job, page_speed, sample_cost, unit_pages, watched_run
from bench.watching.stored_job import UNITS, large_store


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield "## Watching: `headway ui` beside a large job"
    yield ""
    print(f"watching: a store of {UNITS:,} units …", flush=True)
    with large_store() as large:
        print("watching: its search index …", flush=True)
        measured = unit_pages.measure(large)
        missed += unit_pages.misses(measured)
        yield from unit_pages.lines(measured)
        print("watching: the dashboard over it …", flush=True)
        pages = large_job.measure(large)
        missed += large_job.misses(pages)
        yield from large_job.lines(pages)
    print("watching: a run that is watched …", flush=True)
    costs = watched_run.measure()
    missed += watched_run.misses(costs)
    yield from watched_run.lines(costs)
    print("watching: samples of lanes …", flush=True)
    samples = sample_cost.measure()
    missed += sample_cost.misses(samples)
    yield from sample_cost.lines(samples)
    print("watching: the page in Chromium …", flush=True)
    speed = page_speed.measure()
    missed += page_speed.misses(speed)
    yield from page_speed.lines(speed)
