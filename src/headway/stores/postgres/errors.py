"""PostgreSQL's errors as `StoreError`s that say what is wrong and what to do. No secret of the address is in them."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors

from headway.errors import StoreAway, StoreError
from headway.stores.database import CheckFailed, DuplicateKey
from headway.stores.postgres.address import Address

#: How much of a message is shown.
_MOST_TEXT: Final = 300

_EXPLANATIONS: Final[tuple[tuple[type[psycopg.Error], str, str], ...]] = (
    (
        errors.DiskFull,
        "no space is left for {db}",
        "free some disk space on the server, then run 'headway resume'; everything committed is safe",
    ),
    (
        errors.LockNotAvailable,
        "{db} is locked by another process",
        "end the process that holds it, then try again",
    ),
    (
        errors.ReadOnlySqlTransaction,
        "{db} may not be written",
        "use the address of the primary server, or a role that may write",
    ),
    (
        errors.InsufficientPrivilege,
        "the role may not use {db}: {text}",
        "grant it the rights of the role that made the records (for a first run: CREATE on the database), or use another role",
    ),
    (
        errors.UndefinedTable,
        "{db} is not a Headway database, or the role may not see its records",
        "name another one with --db, or grant the role USAGE on the schema",
    ),
    (errors.UndefinedColumn, "{db} is not a Headway database", "name another one with --db"),
    (errors.InvalidSchemaName, "{db} has no records yet", "'headway run FILE' creates them"),
    (
        errors.ProgramLimitExceeded,
        "a value is too large for {db}: {text}",
        "make the row or its attachment smaller",
    ),
)


def explanation(address: Address, error: psycopg.Error, *, lost: bool = False) -> Exception:
    """The error to raise instead. `lost`: the connection is gone, and the server may come back."""
    if isinstance(error, errors.UniqueViolation):
        return DuplicateKey(str(error))
    if isinstance(error, errors.CheckViolation):
        return CheckFailed(str(error))
    text = _text(address, error)
    if lost:
        return StoreAway(
            f"{address.shown} does not answer: {text}",
            hint="start the server, then run 'headway resume'; everything committed is safe",
        )
    for kind, message, hint in _EXPLANATIONS:
        if isinstance(error, kind):
            return StoreError(message.format(db=address.shown, text=text), hint=hint)
    return StoreError(f"{address.shown}: {text}")


def refused(address: Address, error: psycopg.Error) -> StoreError:
    """The error of a connection that was not made."""
    text = _text(address, error)
    lower = text.lower()
    if "does not exist" in lower and "database" in lower:
        return StoreError(
            f"{address.shown} does not exist",
            hint="make it with 'createdb NAME', or name another one with --db",
        )
    if any(part in lower for part in ("password", "authentication", "no pg_hba.conf entry", "role")):
        return StoreError(
            f"{address.shown} refuses the login: {text}",
            hint="check the user, and give the password by PGPASSWORD or ~/.pgpass",
        )
    return StoreAway(
        f"{address.shown} cannot be reached: {text}",
        hint="check that the server runs and the address of --db is right",
    )


def _text(address: Address, error: psycopg.Error) -> str:
    """The essence of a message: its first line, or the last one of a failed connection."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    line = (
        lines[0]
        .removesuffix(" Multiple connection attempts failed. All failures were:")
        .removeprefix("connection failed: ")
    )
    return address.scrubbed(line)[:_MOST_TEXT]
