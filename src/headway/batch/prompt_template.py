"""A prompt with columns in it: `Translate: {{text}}`.

A name between two pairs of braces is a column. There are no expressions, no attributes and no code, so that neither a template nor
a table can execute anything. The text of a cell is inserted unchanged and is not searched for names. `{{{{` writes `{{`;
closing braces outside a name are literal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from headway.errors import ConfigError, UsageError

#: A name has no braces, so `{{{text}}}` is the column `text` between single braces.
_TOKENS: Final = re.compile(r"\{\{\{\{|\{\{([^{}]*)\}\}")
_LEAST_LIKENESS: Final = 0.5
_MOST_NAMED: Final = 20


class Template:
    """A text with names of columns in it. `flag` is its command-line flag, for messages."""

    def __init__(self, text: str, flag: str) -> None:
        self._flag = flag
        #: Texts and names alternate; a text comes first and last.
        self._texts: list[str] = []
        self.names: list[str] = []
        literal = ""
        end = 0
        for token in _TOKENS.finditer(text):
            literal += self._literal(text[end : token.start()])
            end = token.end()
            if token[1] is None:
                literal += "{{"
            else:
                self._texts.append(literal)
                self.names.append(self._name(token[1]))
                literal = ""
        self._texts.append(literal + self._literal(text[end:]))

    def _literal(self, text: str) -> str:
        if "{{" in text:
            raise UsageError(
                f"{self._flag}: '{{{{' is opened and not closed",
                hint="write '{{{{' where two braces are meant",
            )
        return text

    def _name(self, inside: str) -> str:
        name = inside.strip()
        if not name:
            raise UsageError(f"{self._flag}: '{{{{{inside}}}}}' is not a column")
        return name

    def must_name_one_of(self, columns: Sequence[str]) -> None:
        """Raise if the prompt is not a column but has a column in single braces: probably a mistake."""
        text = "".join(self._texts)
        mistaken = next((name for name in columns if not self.names and f"{{{name}}}" in text), None)
        if mistaken is not None:
            raise UsageError(
                f"{self._flag} has '{{{mistaken}}}' in it, which would be sent as literal text",
                hint=f"a column is named with two braces: '{{{{{mistaken}}}}}'",
            )

    def bind(self, columns: Sequence[str], table: str) -> BoundTemplate:
        """The template for a table with these columns. Raises if a name is not one of them."""
        for name in self.names:
            if name not in columns:
                raise ConfigError(
                    f"{table} has no column '{name}', which {self._flag} names", hint=_nearest(name, columns)
                )
        return BoundTemplate(self._texts, [columns.index(name) for name in self.names])


class BoundTemplate:
    """A template whose names are resolved to positions in a record."""

    def __init__(self, texts: list[str], places: list[int]) -> None:
        self._first, self._rest = texts[0], list(zip(places, texts[1:], strict=True))

    def is_blank(self, record: Sequence[str]) -> bool:
        """Whether it names columns, and all of them are empty in this record."""
        return bool(self._rest) and not any(record[place].strip() for place, _ in self._rest)

    def render(self, record: Sequence[str]) -> str:
        """The text for one record."""
        pieces = [self._first]
        for place, text in self._rest:
            pieces += (record[place], text)
        return "".join(pieces)


def _nearest(name: str, columns: Sequence[str]) -> str:
    """A hint for an unknown column. Usual mistakes are capital letters, and another separator than the comma."""
    import difflib  # imported only for an error

    divider = next((mark for mark in ";\t|" if len(columns) == 1 and mark in columns[0]), None)
    if divider is not None:
        separators = {";": "semicolons", "\t": "tabs (name it .tsv)", "|": "bars"}[divider]
        return f"its columns seem to be separated by {separators}, not commas: {columns[0]!r}"
    folded = {column.casefold(): column for column in reversed(columns)}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=_LEAST_LIKENESS)
    if near:
        return f"did you mean '{folded[near[0]]}'?"
    if len(columns) == 1 and ";" in columns[0]:
        return "its columns seem to be separated by semicolons: save it with commas"
    more = ", …" if len(columns) > _MOST_NAMED else ""
    return f"there are {', '.join(columns[:_MOST_NAMED])}{more}"
