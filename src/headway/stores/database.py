"""The contract between the store and a database: statements by name, many rows at once, transactions.

The store has the rules and the statements (`queries.sql`). An implementation has the connection, the schema, durability and the
explanation of errors. A database object belongs to one thread, unless its documentation says otherwise.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

from headway.stores.job_lock import JobLease

#: Positional for `?` and `?1`, a mapping for `:name`.
Values = Sequence[Any] | Mapping[str, Any]


#: What a database tells of: commands for a job, a change of a job, work for engines that wait.
Work = Literal["commands", "jobs", "work"]


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

    @property
    def writes_apart(self) -> bool:
        """Whether `write_apart` waits for no other transaction. Otherwise it is one like all others, and better a part of the next one."""

    def write_apart(self, statements: Sequence[tuple[str, Values]]) -> None:
        """Run statements in a transaction that others see in a moment. Those of several processes run one after the other, and wait for
        nothing else. A crash of the server may undo them: then the connection is lost. Inside another transaction they are a part of that one.
        """

    def connection_number(self) -> int:
        """Another number for each connection to a server, from 1 on. A database without a server has 0."""

    def description(self) -> str:
        """The database, its version and its schema, for people."""

    def heard(self, what: Work, job: int) -> bool:
        """Whether these records of a job may have changed since the last call. Asks no server; a database that cannot tell says yes."""

    def wait_for_change(self, job: int, seconds: float) -> None:
        """Wait until a job has changed, or for this long. A database that cannot tell waits for that long."""

    def transaction_number(self) -> int:
        """The number of the transaction that is open, for `was_committed`."""

    def was_committed(self, transaction: int) -> bool:
        """Whether a transaction was committed whose connection was lost during its commit."""

    def set_patience(self, seconds: float | None) -> None:
        """How long a statement that reads, or the beginning of a transaction, waits for a server that is away; then it raises `StoreAway`.
        None: as long as usual."""

    def set_fence(self, lease: JobLease | None) -> None:
        """From now on a transaction raises `JobTaken` at its beginning, unless this lease still has its job. None: no lease is asked for."""

    def abandon(self) -> None:
        """Wait no longer. May be called by any thread."""

    def close(self) -> None:
        """Close the connection."""


class NeverAway:
    """The parts of the contract that are about a server, for a database without one."""

    #: Commits of one machine are quick.
    writes_apart = False

    def connection_number(self) -> int:
        """There is no connection."""
        return 0

    def heard(self, what: Work, job: int) -> bool:
        """A look costs less than the question whether it is needed."""
        return True

    def wait_for_change(self, job: int, seconds: float) -> None:
        """Wait for this long."""
        time.sleep(seconds)

    def transaction_number(self) -> int:
        """There is nothing to ask for later."""
        return 0

    def was_committed(self, transaction: int) -> bool:
        """No connection is lost here."""
        raise AssertionError("a commit without a server has an outcome")

    def set_patience(self, seconds: float | None) -> None:
        """There is nothing to wait for."""

    def set_fence(self, lease: JobLease | None) -> None:
        """A file has no leases: the lock of a job ends with its process, on one machine."""

    def abandon(self) -> None:
        """There is nothing to wait for."""


class DuplicateKey(Exception):
    """A row with this key exists."""


class CheckFailed(Exception):
    """A row violates a constraint of its table."""


@cache
def queries() -> dict[str, str]:
    """Every statement of `queries.sql` by its name."""
    return named_statements(Path(__file__).with_name("queries.sql"))


def named_statements(path: Path) -> dict[str, str]:
    """The statements of a file by their names: each follows a line `-- name: NAME`."""
    text = path.read_text(encoding="utf-8")
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    return {name: body.strip().rstrip(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)}
