"""SIGKILL in the middle of an eval with conversations, stored outputs and graders: the results equal those of an uninterrupted run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.crash.sampling import SIDES, some
from tests.crash.stage import Stage

from headway.fake.process import FakeProcess

CONFIG = """
prompts:
  - 'Say {{word}} {{first}}'
  - '[{% for turn in _conversation %}{"role": "user", "content": "{{turn.input}}"},
     {"role": "assistant", "content": "{{turn.output}}"},{% endfor %}{"role": "user", "content": "{{word}}"}]'
providers: [alpha/a, alpha/b]
defaultTest:
  assert:
    - {type: contains, value: '{{word}}'}
    - type: llm-rubric
      value: is kind
      provider: alpha/judge
      rubricPrompt: 'say {"pass": true, "score": 0.5, "reason": "kind"}'
tests:
  - {vars: {word: one}, options: {storeOutputAs: first}}
  - {vars: {word: [two, three]}}
  - {vars: {word: four}, options: {runSerially: true}}
  - {vars: {word: [five, six]}}
"""
#: Fields of results that say when and how.
_OF_TIME = {"latencyMs", "latency", "id", "evalId", "timestamp", "createdAt", "durationMs", "cached"}


def staged(root: Path, fake: FakeProcess, tag: str) -> Stage:
    root.mkdir()
    stage = Stage(root, fake, tag)
    stage.configure("max_concurrency = 4")
    (root / "promptfooconfig.yaml").write_text(CONFIG)
    return stage


def results(stage: Stage) -> Any:
    return plain(json.loads((stage.root / "promptfooconfig.results.json").read_text())["results"])


def plain(value: Any) -> Any:
    """Results without times."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items() if key not in _OF_TIME and "atency" not in key}
    return [plain(one) for one in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, quick_fake: FakeProcess) -> Any:
    stage = staged(tmp_path_factory.mktemp("eval") / "whole", quick_fake, "eval-whole")
    done = stage.run("eval", "-q")
    assert done.returncode in (0, 5), done.stderr
    return results(stage)


@pytest.mark.parametrize(
    ("at", "moments"),
    [("add_unit", (1,)), ("set_rendered", (1, 3)), ("add_answer", (2, 5)), ("COMMIT", (12, 6))],
)
def test_killed_and_resumed(
    tmp_path: Path, quick_fake: FakeProcess, uninterrupted: Any, at: str, moments: tuple[int, ...]
) -> None:
    stage = staged(tmp_path / "killed", quick_fake, f"eval-{at}-{tmp_path.name}")
    for n in moments:
        for when in some(SIDES, n % 2):
            stage.ends_by_kill("eval", "-q", faults={"kill": {"at": at, "when": when, "n": n}})
    done = stage.run("eval", "-q")
    assert done.returncode in (0, 5), done.stderr
    assert results(stage) == uninterrupted
