"""The section `evals`: prompts × providers × tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from bench.evals import beside_promptfoo, report_page, three_lanes

PARTS: Final[tuple[Callable[[list[str]], Iterator[str]], ...]] = (
    three_lanes.section,
    beside_promptfoo.section,
    report_page.section,
)


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md. A part that fails is a missed bar, and the others are still measured."""
    yield "## Evals"
    yield ""
    for part in PARTS:
        try:
            yield from part(missed)
        except RuntimeError as error:
            missed.append(f"evals: {part.__module__.rpartition('.')[2]}: {error}")
