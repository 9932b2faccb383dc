"""The statements of the store in PostgreSQL's words.

There is one set of statements, `stores/queries.sql`. Most of them are translated: placeholders, lists as JSON, and joins in a given order.
The few that use what only SQLite has are written again in `queries.sql` beside this file, under the same names. This file runs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from headway.stores.database import Values, named_statements, queries

#: The statements that are written again.
OWN: Final = Path(__file__).with_name("queries.sql")
#: Comments, strings and quoted names have no placeholders. A cast (`::bigint`) is not one, either.
_TOKEN: Final = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\"[^\"]*\"|::\w+|\?\d*|:\w+")
#: What stands for a list of numbers: `json_each` with a placeholder.
_AMONG: Final = re.compile(r"\b(NOT )?IN \(SELECT value FROM json_each\((\?\d*|:\w+)\)\)")
_EACH: Final = re.compile(r"\bjson_each\((\?\d*|:\w+)\) AS (\w+)")
#: SQLite's way to fix the order of a join.
_ORDERED_JOIN: Final = re.compile(r"\bCROSS JOIN (\w+(?: AS \w+)?)(\s+)ON\b")
#: A limit of -1 is none.
_LIMIT: Final = re.compile(r"\bLIMIT (\?\d*|:\w+)")
#: A parameter that is only compared with NULL has no type of its own.
_IS_NULL: Final = re.compile(r"(\?\d*|:\w+) IS NULL\b")
_INSERT: Final = re.compile(r"INSERT INTO (\w+) \(([^()]*)\)\s+VALUES \(([?\d, ]+)\)")
_READS: Final = re.compile(r"(?:\s|--[^\n]*\n)*(?:SELECT|WITH)\b")


class Statement(NamedTuple):
    """A statement as PostgreSQL gets it."""

    sql: str
    #: The names of the parameters in the order of `$1`, `$2` …; empty: they are positional.
    names: tuple[str, ...]
    #: The table and the columns of an INSERT that only takes its parameters in order: rows may come by COPY instead.
    copy_into: tuple[str, str] | None
    #: Whether it changes nothing, and may be run again after a lost connection.
    reads: bool

    def arguments(self, values: Values) -> Sequence[Any]:
        """The values in the order of the parameters."""
        if isinstance(values, Mapping):
            return [values[name] for name in self.names]
        return values


@cache
def statements() -> dict[str, Statement]:
    """Every statement of the store by its name."""
    own = named_statements(OWN)
    return {name: translated(own.get(name, sql)) for name, sql in queries().items()}


def translated(sql: str) -> Statement:
    """A statement in PostgreSQL's words."""
    insert = _INSERT.fullmatch(sql)
    sql = _AMONG.sub(_among, sql)
    sql = _EACH.sub(lambda match: f"unnest({_numbers(match[1])}) AS {match[2]}(value)", sql)
    sql = _ORDERED_JOIN.sub(r"JOIN \1\2ON", sql)
    sql = _LIMIT.sub(r"LIMIT nullif(\1::bigint, -1)", sql)
    sql = _IS_NULL.sub(r"\1::text IS NULL", sql)
    placed, names = _with_places(sql)
    columns = None
    if insert is not None and re.findall(r"\d+", insert[3]) == [
        str(n + 1) for n in range(insert[3].count("?"))
    ]:
        columns = (insert[1], insert[2])
    return Statement(placed, names, columns, _READS.match(sql) is not None)


def _among(match: re.Match[str]) -> str:
    return f"{'<> ALL' if match[1] else '= ANY'} ({_numbers(match[2])})"


def _numbers(place: str) -> str:
    """An array from a JSON list of numbers: both differ only in their brackets."""
    return f"translate({place}, '[]', '{{}}')::bigint[]"


def _with_places(sql: str) -> tuple[str, tuple[str, ...]]:
    """The statement with `$1`, `$2` … as placeholders, and the names that they had."""
    names: list[str] = []
    count = 0

    def place(match: re.Match[str]) -> str:
        nonlocal count
        token = match[0]
        if token == "?":
            count += 1
            return f"${count}"
        if token[0] == "?":
            return f"${token[1:]}"
        if token[0] == ":" and token[1] != ":":
            if token[1:] not in names:
                names.append(token[1:])
            return f"${names.index(token[1:]) + 1}"
        return token

    return _TOKEN.sub(place, sql), tuple(names)
