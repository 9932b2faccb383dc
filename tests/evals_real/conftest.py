"""One namespace for all tests of a pytest worker."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from bench.evals import promptfoo
from tests.agents_real import room
from tests.agents_real.room import Room


@pytest.fixture(scope="session")
def shared_room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    missing = promptfoo.missing()
    if missing and os.environ.get(promptfoo.REQUIRED):
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    with room.opened(tmp_path_factory.mktemp("room")) as opened:
        yield opened
