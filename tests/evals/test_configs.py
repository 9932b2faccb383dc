"""Every configuration in `configs` gives the matrix that its expected.json states."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.evals.config_runs import CONFIGS, FAKE, NAMES, run_config
from tests.evals.result_cells import ResultCell, differences, expected_cells, read_cells

from headway.evals.assertions.registry import KINDS
from headway.fake.process import FakeProcess, fake_process

PASSED, BELOW = 0, 5
#: They need `functions`, the API before tools, which the fake does not have.
UNANSWERED = {"is-valid-function-call", "is-valid-openai-function-call"}
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
    done = run_config(name, tmp_path, fake.url, "--max-attempts", "2")
    assert done.results.exists(), done.err
    assert not differences(expected, read_cells(done.results)), done.err
    assert done.code == _exit_code(expected), done.err


@pytest.mark.parametrize("name", NAMES)
def test_a_configuration_is_small(name: str) -> None:
    assert 0 < len(expected_cells(CONFIGS / name / "expected.json")) <= CELLS


def test_every_configuration_is_run() -> None:
    folders = {path.name for path in CONFIGS.iterdir() if path.is_dir()}
    assert folders == set(NAMES)


def test_every_assertion_is_used() -> None:
    used = {name for config in NAMES for name in _assertion_types(_config(config))}
    assert set(KINDS) - used == UNANSWERED


def _exit_code(cells: dict[str, ResultCell]) -> int:
    return PASSED if all(cell.status == "pass" for cell in cells.values()) else BELOW


def _runs_javascript(name: str) -> bool:
    text = (CONFIGS / name / "promptfooconfig.yaml").read_text()
    return "javascript" in text or "transform" in text


def _config(name: str) -> Any:
    return yaml.safe_load((CONFIGS / name / "promptfooconfig.yaml").read_text())


def _assertion_types(value: Any) -> Iterator[str]:
    """Every `type` of an assertion, without "not-"."""
    if isinstance(value, list):
        for item in value:
            yield from _assertion_types(item)
    if isinstance(value, dict):
        for assertion in value.get("assert") or ():
            yield str(assertion["type"]).removeprefix("not-")
        for item in value.values():
            yield from _assertion_types(item)
