"""Every configuration in `configs` gives the matrix that its expected.json states."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.evals.config_runs import CONFIGS, FAKE, NAMES, run_config
from tests.evals.result_cells import ResultCell, differences, expected_cells, read_cells

from headway.fake.process import FakeProcess, fake_process

PASSED, BELOW = 0, 5
#: No configuration is larger.
CELLS = 30


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeProcess]:
    with fake_process("--config", str(FAKE)) as running:
        yield running


@pytest.mark.parametrize("name", NAMES)
def test_the_matrix_of_a_configuration(name: str, tmp_path: Path, fake: FakeProcess) -> None:
    if _runs_javascript(name) and shutil.which("node") is None:
        pytest.skip("node is not installed: apt-get install nodejs")
    expected = expected_cells(CONFIGS / name / "expected.json")
    done = run_config(name, tmp_path, fake.url)
    assert done.results.exists(), done.err
    assert not differences(expected, read_cells(done.results)), done.err
    assert done.code == (PASSED if _all_pass(expected) else BELOW), done.err


@pytest.mark.parametrize("name", NAMES)
def test_a_configuration_is_small(name: str) -> None:
    assert 0 < len(expected_cells(CONFIGS / name / "expected.json")) <= CELLS


def test_every_configuration_is_run() -> None:
    folders = {path.name for path in CONFIGS.iterdir() if path.is_dir()}
    assert folders == set(NAMES)


def _all_pass(cells: dict[str, ResultCell]) -> bool:
    return all(cell.status == "pass" for cell in cells.values())


def _runs_javascript(name: str) -> bool:
    text = (CONFIGS / name / "promptfooconfig.yaml").read_text()
    return "javascript" in text or "transform" in text
