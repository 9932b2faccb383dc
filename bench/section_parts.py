"""A section that has several parts: one that fails is a missed bar, and the others are still measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator

Part = Callable[[list[str]], Iterator[str]]


def section_of(name: str, parts: tuple[Part, ...], missed: list[str]) -> Iterator[str]:
    """The section's part of bench/RESULTS.md."""
    yield f"## {name.capitalize()}"
    yield ""
    for part in parts:
        try:
            yield from part(missed)
        except RuntimeError as error:
            missed.append(f"{name}: {part.__module__.rpartition('.')[2]}: {error}")
