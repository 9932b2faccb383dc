"""The contract between the store and a database: statements by name, many rows at once, transactions.

The store has the rules and the statements (`queries.sql`). An implementation has the connection, the schema, durability and the
explanation of errors. A database object belongs to one thread, unless its documentation says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any, Protocol

#: Positional for `?` and `?1`, a mapping for `:name`.
Values = Sequence[Any] | Mapping[str, Any]


class Database(Protocol):
    """One connection. Errors of the database are raised as `StoreError`, with a hint."""

    @property
    def read_only(self) -> bool:
        """Whether every change fails."""

    def execute(self, name: str, values: Values = ()) -> list[Any]:
        """Run a statement of `queries()`; returns its rows as tuples."""

    def executemany(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement for each row. One with numbered `VALUES (…)` may take several rows at once, in their order: a row must not
        depend on what an earlier one changed."""

    def transaction(self) -> AbstractContextManager[None]:
        """The statements inside are committed together, durably, or not at all. Inside another transaction it is a
        part of that one.

        What is read inside stays true until the end: transactions that change the same records run one after the other, across
        all processes.
        """

    def close(self) -> None:
        """Close the connection."""


class DuplicateKey(Exception):
    """A row with this key exists."""


class CheckFailed(Exception):
    """A row violates a constraint of its table."""


@cache
def queries() -> dict[str, str]:
    """Every statement of `queries.sql` by its name."""
    text = Path(__file__).with_name("queries.sql").read_text(encoding="utf-8")
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    return {name: body.strip().rstrip(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)}
