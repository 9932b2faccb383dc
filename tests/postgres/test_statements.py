"""Each statement of the store is one that PostgreSQL understands; and how statements are translated."""

from __future__ import annotations

import psycopg
import pytest
from tests.postgres_server import PostgresServer

from headway.stores.database import named_statements, queries
from headway.stores.postgres import statements as module
from headway.stores.postgres.address import parse_address
from headway.stores.postgres.database import PostgresDatabase
from headway.stores.postgres.statements import statements, translated

#: These make a temporary table and cannot be prepared; the contract tests of changed inputs run them.
TEMPORARY = {"make_reusable", "drop_reusable", "add_reusable", "take_reusable"}


def test_the_server_can_prepare_every_statement(postgres_server: PostgresServer) -> None:
    db = PostgresDatabase(parse_address(postgres_server.address("prepared")))
    problems = {}
    for name, statement in statements().items():
        if name not in TEMPORARY:
            try:
                db.connection.execute(f"PREPARE one AS {statement.sql}".encode())
                db.connection.execute("DEALLOCATE one")
            except psycopg.Error as error:
                problems[name] = str(error)
    db.close()
    assert problems == {}


def test_only_statements_of_the_store_are_written_again() -> None:
    own = named_statements(module.OWN)
    assert own.keys() < queries().keys()
    assert len(own) < len(queries()) / 10


@pytest.mark.parametrize(
    ("sqlite", "postgres"),
    [
        ("SELECT a FROM t WHERE b = ? AND c = '?' -- ?", "SELECT a FROM t WHERE b = $1 AND c = '?' -- ?"),
        ("SELECT ?2, ?1", "SELECT $2, $1"),
        ("SELECT :b, :a, :b, c::text", "SELECT $1, $2, $1, c::text"),
        (
            "WHERE u IN (SELECT value FROM json_each(?))",
            "WHERE u = ANY (translate($1, '[]', '{}')::bigint[])",
        ),
        (
            "WHERE u NOT IN (SELECT value FROM json_each(?4))",
            "WHERE u <> ALL (translate($4, '[]', '{}')::bigint[])",
        ),
        ("FROM a CROSS JOIN b AS c ON c.x = a.x", "FROM a JOIN b AS c ON c.x = a.x"),
        ("SELECT 1 LIMIT ?", "SELECT 1 LIMIT nullif($1::bigint, -1)"),
    ],
)
def test_translation(sqlite: str, postgres: str) -> None:
    assert translated(sqlite).sql == postgres


def test_text_with_a_null_character_is_kept_readable(postgres_server: PostgresServer) -> None:
    db = PostgresDatabase(parse_address(postgres_server.address("prepared")))
    db.execute("add_lane", ("key\0", "name"))
    assert [row[1] for row in db.execute("lanes")] == ["key␀"]
    db.close()
