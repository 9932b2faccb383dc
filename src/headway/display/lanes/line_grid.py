"""Rows of cells as aligned lines of a terminal: figures are never cut, text is; nothing is wider than the terminal.

It is drawn by hand, since a table of rich takes ten times as long, and the live view is drawn on the loop that sends requests.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from headway.display.columns import column_widths
from headway.safe_text import one_line

#: Between two columns, and at both edges.
GAP: Final = "  "
EDGE: Final = " "
_PLAIN: Final = Style()


class GridRow(msgspec.Struct, frozen=True):
    """A row: its cells, the style of all of it, and styles of single cells: column → style, or a style for each character. If it has
    fewer cells than there are columns, the last one takes the room of the others.
    """

    cells: Sequence[str]
    style: str = ""
    cell_styles: dict[int, str | tuple[str, ...]] = {}


def grid_lines(
    names: Sequence[str],
    rows: Sequence[GridRow],
    width: int,
    numbers: Collection[str],
    *,
    ellipsis: str = "…",
) -> list[Text]:
    """A line with the names of the columns, and one for each row."""
    shown = [[one_line(cell).replace("…", ellipsis) for cell in row.cells] for row in rows]
    widths = column_widths(names, [_padded(cells, len(names)) for cells in shown], width, numbers)
    right = [name in numbers for name in names]
    lines = [_line(names, widths, right, GridRow(names, "dim"), ellipsis)]
    lines += [_line(cells, widths, right, row, ellipsis) for cells, row in zip(shown, rows, strict=True)]
    for line in lines:
        line.truncate(width, overflow="crop")  # A terminal may be narrower than the figures.
    return lines


def _line(
    cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], row: GridRow, ellipsis: str
) -> Text:
    text = Text(EDGE, style=row.style, no_wrap=True, overflow="crop")
    for place, cell in enumerate(cells):
        if place:
            text.append(GAP)
        style = row.cell_styles.get(place, "")
        spans = place == len(cells) - 1 < len(widths) - 1
        width = sum(widths[place:]) + len(GAP) * (len(widths) - 1 - place) if spans else widths[place]
        fitted = _fitted(cell, width, ellipsis, right=right[place] and not spans)
        if isinstance(style, tuple):
            for own, group in groupby(zip(style, fitted, strict=False), key=itemgetter(0)):
                text.append("".join(character for _, character in group), own or None)
        else:
            text.append(fitted, style or None)
    text.rstrip()
    return text


def _padded(cells: list[str], columns: int) -> list[str]:
    """The cells for the widths of columns: a cell that takes the room of others needs no width."""
    return cells if len(cells) == columns else [*cells[:-1], *([""] * (columns - len(cells) + 1))]


def _fitted(cell: str, width: int, ellipsis: str, *, right: bool) -> str:
    length = cell_len(cell)
    if length > width:
        keep = max(0, width - len(ellipsis))
        return set_cell_size(cell, keep) + ellipsis[: width - keep]
    blank = " " * (width - length)
    return blank + cell if right else cell + blank
