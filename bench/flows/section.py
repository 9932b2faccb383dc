"""The section `flows`: graphs of work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.flows import durable_steps, many_nodes, million_items, rate_limited, slow_branch
from bench.section_parts import Part, section_of

PARTS: Final[tuple[Part, ...]] = (
    slow_branch.section,
    many_nodes.section,
    million_items.section,
    durable_steps.section,
    rate_limited.section,
)


def section(missed: list[str]) -> Iterator[str]:
    """All parts."""
    return section_of("flows", PARTS, missed)
