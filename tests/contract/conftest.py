"""Runs the contract tests over every database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headway.stores.sqlite.file import SqliteFile
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store


@pytest.fixture(params=["file", "memory"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Opens the same records each time, as threads and processes do."""
    if request.param == "file":
        return lambda: Store(SqliteFile(tmp_path / "h.db"))
    memory = SqliteMemory()
    return lambda: Store(memory)


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Iterator[Store]:
    with open_store() as opened:
        yield opened
