"""Column widths of the tables of the live view: figures are never cut, text is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from rich.cells import cell_len

#: The least width of a column of text.
LEAST_WORDS: Final = 5
#: The least width of the first column, which has the names.
LEAST_NAME: Final = 12


def column_widths(
    names: Sequence[str], rows: Sequence[Sequence[str]], width: int, numbers: Collection[str]
) -> list[int]:
    """The widths of columns with these names. Text is shortened, from the last column on."""
    widths = [max(cell_len(row[place]) for row in (names, *rows)) for place in range(len(names))]
    widths[0] = min(widths[0], max(LEAST_NAME, width // 4))
    over = sum(widths) + 2 * len(widths) - width
    for place in range(len(widths) - 1, -1, -1):
        if over > 0 and names[place] not in numbers:
            taken = min(over, max(0, widths[place] - LEAST_WORDS))
            widths[place] -= taken
            over -= taken
    return widths
