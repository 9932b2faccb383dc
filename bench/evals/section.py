"""The section `evals`: prompts × providers × tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.evals import beside_promptfoo, report_page, three_lanes
from bench.section_parts import Part, section_of

PARTS: Final[tuple[Part, ...]] = (
    three_lanes.section,
    beside_promptfoo.section,
    report_page.section,
)


def section(missed: list[str]) -> Iterator[str]:
    """All parts."""
    return section_of("evals", PARTS, missed)
