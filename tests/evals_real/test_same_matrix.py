"""Headway and the real promptfoo, against the same fake: the same matrix, the same scores, the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from bench.evals import promptfoo
from tests.agents_real.room import Room, RoomFake
from tests.evals.config_runs import CONFIGS, FAKE, SHARED, run_config
from tests.evals.result_cells import differences, expected_cells, read_cells


@pytest.fixture(scope="module")
def fake(shared_room: Room, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoomFake]:
    folder = tmp_path_factory.mktemp("fake")
    with shared_room.fake(folder, yaml.safe_load(FAKE.read_text())) as running:
        yield running


@pytest.mark.parametrize("name", SHARED)
def test_both_give_the_same_matrix(name: str, tmp_path: Path, shared_room: Room, fake: RoomFake) -> None:
    ours = run_config(name, tmp_path, fake.url, prefix=shared_room.prefix)
    targets, results = promptfoo.targets(fake.url), tmp_path / "real.json"
    real = promptfoo.evaluate(shared_room.prefix, tmp_path / "promptfooconfig.yaml", results, targets)
    assert results.exists(), real.printed
    assert not differences(expected_cells(CONFIGS / name / "expected.json"), read_cells(results))
    assert ours.results.exists(), ours.err
    assert not differences(read_cells(results), read_cells(ours.results)), ours.err
