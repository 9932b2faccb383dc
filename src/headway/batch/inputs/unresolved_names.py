"""Warns of `{{name}}` in rows whose name a row stores, but not one that the reader can use.

`{{name}}` is literal text unless an earlier row stores that name. Two cases are probably mistakes, so that the user gets a warning:
the row that stores the name comes later in the file, or it was left out as a bad row (`--skip-bad-rows`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

#: Names that are remembered as literal text, and that a warning shows.
MOST_REMEMBERED: Final = 1_000
MOST_SHOWN: Final = 3


class UnresolvedNames:
    """It gets the names of every row once, in the order of the file."""

    def __init__(self) -> None:
        #: A name → the first row that has it as literal text.
        self._literal: dict[str, str] = {}
        #: A name → the line of the bad row that should have stored it, until a later row stores it.
        self._left_out: dict[str, int] = {}
        #: A name → the warning about it.
        self._later: dict[str, str] = {}
        self._lost: dict[str, str] = {}

    def left_out(self, line: int, name: str) -> None:
        """The bad row in this line would have stored a name."""
        self._left_out[name] = line

    def read(self, row: str, names: Iterable[str], stored: Iterable[str]) -> None:
        """A row has these names in its text, of which earlier rows have stored some."""
        for name in names:
            if name in self._left_out:
                self._lost.setdefault(
                    name, f"{{{{{name}}}}} in row '{row}' (line {self._left_out[name]} stores it)"
                )
            elif name not in stored and len(self._literal) < MOST_REMEMBERED:
                self._literal.setdefault(name, row)

    def stored(self, row: str, name: str) -> None:
        """A row stores a name."""
        self._left_out.pop(name, None)
        if (reader := self._literal.pop(name, None)) is not None:
            self._later[name] = f"{{{{{name}}}}} in row '{reader}' (row '{row}' stores it)"

    def warnings(self) -> list[str]:
        """One line for each of the two cases."""
        lines = []
        if self._later:
            lines.append(
                f"warning: sent as literal text, because the row that stores the name comes later: {_list(self._later)}"
            )
        if self._lost:
            lines.append(
                "warning: sent as literal text or with an earlier value, because the row that stores the name was left out: "
                + _list(self._lost)
            )
        return lines


def _list(found: dict[str, str]) -> str:
    shown = list(found.values())[:MOST_SHOWN]
    more = len(found) - len(shown)
    return ", ".join(shown) + (f", and {more:,} more" if more else "")
