"""The schema of a PostgreSQL store: its migrations and its version.

Migrations are numbered files, applied forward only. All of them are applied in one transaction, under an advisory lock: of several
processes that open a new store at once, one makes the tables and the others find them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from headway.errors import NewerRecords, NoRecords, StoreError
from headway.stores.postgres.address import Address

Connection = psycopg.Connection[tuple[Any, ...]]


@cache
def migrations() -> tuple[str, ...]:
    """The migrations in order. The number in the name of a file is the version after it."""
    folder = Path(__file__).with_name("migrations")
    files = sorted(each for each in folder.iterdir() if each.name.endswith(".sql"))
    return tuple(each.read_text(encoding="utf-8") for each in files)


def version(connection: Connection, address: Address) -> int:
    """The version of the schema; 0: there are no tables yet. A schema with tables of another program is an error."""
    tables = connection.execute(
        "SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = $1 AND relkind = 'r'",
        (address.schema,),
    ).fetchall()
    if not tables:
        return 0
    if ("headway_version",) not in tables:
        raise StoreError(
            f"the schema '{address.schema}' of {address.shown} has tables of another program",
            hint="add ?schema=NAME to the address",
        )
    row = connection.execute("SELECT version FROM headway_version").fetchone()
    number: int = row[0] if row else 0
    if number > len(migrations()):
        raise NewerRecords(
            f"{address.shown} was written by a newer Headway (schema {number}, this one knows {len(migrations())})",
            hint="upgrade headway",
        )
    return number


def require(connection: Connection, address: Address) -> None:
    """NoRecords if the store has no tables; StoreError if they are older than this version can read."""
    number = version(connection, address)
    if number == 0:
        raise NoRecords(
            f"there is no store of Headway in {address.shown}",
            hint="'headway run FILE' makes them; --db names another database",
        )
    if number < len(migrations()):
        raise StoreError(
            f"{address.shown} was written by an older Headway (schema {number}, this one needs {len(migrations())})",
            hint="the next 'headway run' or 'headway resume' upgrades it",
        )


def migrate(connection: Connection, address: Address) -> None:
    """Make the schema, and apply the missing migrations."""
    known = migrations()
    if version(connection, address) == len(known):
        return
    name = sql.Identifier(address.schema).as_string(None)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock($1::bigint)", (address.lock_key("migrations"),))
        number = version(connection, address)
        for script in known[number:]:
            if number == 0:
                script = (
                    f"CREATE SCHEMA IF NOT EXISTS {name};\nCREATE TABLE headway_version (version bigint NOT NULL);\n"
                    f"INSERT INTO headway_version VALUES (0);\n{script}"
                )
            connection.execute(script)
            number += 1
        connection.execute("UPDATE headway_version SET version = $1", (number,))
