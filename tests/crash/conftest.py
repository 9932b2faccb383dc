"""One fake provider for all crash tests of a worker, and the output of an uninterrupted run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.crash.stage import Stage, plain

from headway.fake.process import FakeProcess, fake_process

_numbers = itertools.count()

Reference = Callable[[int], list[dict[str, Any]]]


@pytest.fixture(scope="session")
def quick_fake() -> Iterator[FakeProcess]:
    """A provider without limits that answers within 15 to 40 ms and runs as long as the tests."""
    with fake_process("--latency", "15ms-40ms") as fake:
        yield fake


@pytest.fixture
def stage(tmp_path: Path, quick_fake: FakeProcess) -> Stage:
    """A directory with forty units for the quick provider."""
    made = Stage(tmp_path, quick_fake, f"{tmp_path.parent.parent.name}-{tmp_path.name}-{next(_numbers)}")
    made.configure()
    made.write_input()
    return made


@pytest.fixture(scope="session")
def reference(quick_fake: FakeProcess, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """The output of an uninterrupted run of so many units."""
    known: dict[int, list[dict[str, Any]]] = {}

    def rows_of(units: int) -> list[dict[str, Any]]:
        if units not in known:
            root = tmp_path_factory.mktemp("reference")
            stage = Stage(root, quick_fake, f"reference-{root}-{units}".replace("/", "_"), units)
            stage.configure("max_concurrency = 64")
            stage.write_input()
            done = stage.run("run", "in.jsonl", "-q")
            assert done.returncode == 0, done.stderr
            known[units] = plain(stage.rows())
        return known[units]

    return rows_of
