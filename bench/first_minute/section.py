"""The section `first`: what the first minute looks like in real time."""

from __future__ import annotations

from collections.abc import Iterator

from bench.first_minute import failures, short_jobs, unlimited


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield "## The first minute in real time: `headway run` against `headway fake`"
    yield ""
    yield from short_jobs.lines(missed)
    yield from failures.lines(missed)
    yield from unlimited.lines(missed)
