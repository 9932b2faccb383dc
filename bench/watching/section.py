"""The section `watching`: what the dashboard reads, how soon it answers, and what watching costs."""

from __future__ import annotations

from collections.abc import Iterator

from bench.watching import large_job, page_speed, unit_pages, watched_run


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield "## Watching: `headway ui` beside a large job"
    yield ""
    print(f"watching: {unit_pages.UNITS:,} units …", flush=True)
    measured = unit_pages.measure()
    missed += unit_pages.misses(measured)
    yield from unit_pages.lines(measured)
    print(f"watching: the dashboard over {large_job.UNITS:,} units …", flush=True)
    pages = large_job.measure()
    missed += large_job.misses(pages)
    yield from large_job.lines(pages)
    print("watching: a run that is watched …", flush=True)
    costs = watched_run.measure()
    missed += watched_run.misses(costs)
    yield from watched_run.lines(costs)
    print("watching: the page in Chromium …", flush=True)
    speed = page_speed.measure()
    missed += page_speed.misses(speed)
    yield from page_speed.lines(speed)
