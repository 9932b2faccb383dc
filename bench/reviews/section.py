"""The section `reviews` of bench/RESULTS.md."""

from __future__ import annotations

from collections.abc import Iterator

from bench.reviews import estimates, four_workers, large_tree


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield "## Reviews of files"
    yield ""
    yield from four_workers.lines(missed)
    yield from large_tree.lines(missed)
    yield from estimates.lines(missed)
