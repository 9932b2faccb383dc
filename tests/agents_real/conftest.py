"""The room of each pytest worker, and a bed with a fake provider for each test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.agents_real import clis, room
from tests.agents_real.room import Bed, Room
from tests.crash.stage import wait_for

Beds = Callable[..., Bed]


@pytest.fixture(scope="session")
def shared_room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    missing = clis.missing()
    if missing and os.environ.get(clis.REQUIRED):
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    with room.opened(tmp_path_factory.mktemp("room")) as opened:
        yield opened


@pytest.fixture
def bed(shared_room: Room, tmp_path: Path) -> Iterator[Beds]:
    """Makes the bed: a fake with these settings, and a directory. No process of it outlives the test."""
    with ExitStack() as stack:
        made: list[Bed] = []

        def make(**config: Any) -> Bed:
            fake = stack.enter_context(shared_room.fake(tmp_path, config))
            made.append(Bed(tmp_path, shared_room, fake))
            return made[0]

        yield make
        for one in made:
            wait_for("no process is left", partial(_is_empty, one))


def _is_empty(one: Bed) -> bool:
    return not one.processes()
