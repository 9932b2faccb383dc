"""SIGKILL while a changed flow takes over answers: the run after it ends the same, and calls nothing that has ended a second time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.flows.running.conftest import FlowFolder

REPOSITORY = Path(__file__).parents[4]
FLOW = """
  - {id: topics, kind: tool, impl: "./tools/work.py:issues", writes: [topics]}
  - {id: label, kind: agent, prompt: ./label.md, for_each: {source: $.topics, concurrency: 2}, writes: [labels]}
  - {id: apart, kind: agent, prompt: ./apart.md, for_each: {source: $.topics, concurrency: 2}, writes: [texts]}
  - {id: whole, kind: tool, impl: "./tools/count.py:main", reads: [labels, texts], writes: [n]}
"""
COUNT = (
    "def main(given):\n"
    "    open('calls.txt', 'a').write('whole\\n')\n"
    "    return len(given['state']['labels'] + given['state']['texts'])\n"
)


def killed(folder: FlowFolder, *args: str, at: str, n: int) -> None:
    path = f"{REPOSITORY}:{REPOSITORY / 'src'}"
    faults: dict[str, Any] = {"kill": {"at": at, "n": n}}
    env = {**os.environ, "PYTHONPATH": path, "HEADWAY_TEST_FAULTS": json.dumps(faults)}
    command = [sys.executable, "-m", "tests.crash.launcher", *args]
    done = subprocess.run(
        command, check=False, cwd=folder.root, env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == -9, done.stderr


@pytest.mark.parametrize(
    ("at", "n"),
    [("add_unit", 1), ("add_unit", 2), ("hit_unit", 1), ("hit_unit", 2), ("add_hit", 1), ("add_hit", 2), ("set_value", 1), ("set_value", 4), ("add_key", 2)],
)  # fmt: skip
def test_killed_while_answers_are_taken_over(folder: FlowFolder, at: str, n: int) -> None:
    folder.write("label.md", "Label {{item}}.")
    folder.write("apart.md", "Write about {{item}}.")
    folder.write("tools/count.py", COUNT)
    folder.flow(FLOW)
    assert folder.headway("run", "flow.yaml").code == 0
    assert (folder.sent(), folder.calls()) == (6, ["topics", "whole"])
    folder.write("label.md", "Label {{item}} well.")
    killed(folder, "run", "flow.yaml", "-q", at=at, n=n)
    sent = folder.sent()
    done = folder.headway("run", "flow.yaml")
    assert done.code == 0, done.err
    # What was in flight when the process died may be asked again: two at a time.
    assert 9 <= folder.sent() <= 9 + (2 if sent > 6 else 0)
    assert folder.calls() == ["topics", "whole", "whole"]
    found = folder.latest()
    assert (found["status"], found["state"]["n"]) == ("success", 6)
    [job, _] = json.loads(folder.headway("jobs", "--json").out)
    assert (job["cached"], job["succeeded"]) == (4, 4)
