"""Runs the contract tests over every database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer

from headway.stores.sqlite.file import SqliteFile
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store
from headway.wiring.store_access import open_store_file


@pytest.fixture(params=["file", "memory", "postgres"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Opens the same records each time, as threads and processes do."""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        with server.lent_address() as address:
            yield lambda: open_store_file(address)
    elif request.param == "file":
        yield lambda: Store(SqliteFile(tmp_path / "h.db"))
    else:
        memory = SqliteMemory()
        yield lambda: Store(memory)


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Iterator[Store]:
    with open_store() as opened:
        yield opened
