"""The section `flows`: graphs of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from bench.flows import durable_steps, many_nodes, million_items, rate_limited, slow_branch

PARTS: Final[tuple[Callable[[list[str]], Iterator[str]], ...]] = (
    slow_branch.section,
    many_nodes.section,
    million_items.section,
    durable_steps.section,
    rate_limited.section,
)


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md. A part that fails is a missed bar, and the others are still measured."""
    yield "## Flows"
    yield ""
    for part in PARTS:
        try:
            yield from part(missed)
        except RuntimeError as error:
            missed.append(f"flows: {part.__module__.rpartition('.')[2]}: {error}")
