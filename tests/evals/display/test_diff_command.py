"""`headway diff` of two evals, as a user types it."""

from __future__ import annotations

import json

from tests.cli.conftest import Headway
from tests.crash.stage import Stage

CONFIG = """
prompts: ['PROMPT {{x}}']
providers: [alpha/m]
tests:
  - {vars: {x: one}, assert: [{type: contains, value: say}]}
  - {vars: {x: two}, assert: [{type: contains, value: sing}]}
  - {vars: {x: three}}
"""


def run(stage: Stage, headway: Headway, prompt: str, name: str) -> None:
    path = stage.root / f"{name}.yaml"
    path.write_text(CONFIG.replace("PROMPT", prompt), encoding="utf-8")
    done = headway("eval", path.name, "--name", name, "-q")
    assert done.code == 5, done.err


def test_two_prompts_on_the_same_tests(stage: Stage, headway: Headway) -> None:
    run(stage, headway, "say", "before")
    run(stage, headway, "sing", "after")
    shown = headway("diff", "before", "after")
    assert shown.code == 0, shown.err
    assert "1 better, 1 worse, 1 with another answer and the same verdict" in shown.out
    assert "say {{x}} → [" in shown.out
    assert "this may be noise" in shown.out
    assert "[-say-]{+sing+} two" in shown.out
    data = json.loads(headway("diff", "before", "after", "--json").out)
    assert data["changes"] == {"better": 1, "worse": 1, "changed": 1}
    assert [cell["kind"] for cell in data["cells"]] == ["worse", "better", "changed"]
    assert data["columns"][0]["comparison"]["tests"] == 3


def test_an_eval_is_compared_with_an_eval(stage: Stage, headway: Headway) -> None:
    run(stage, headway, "say", "before")
    assert headway("run", "in.jsonl", "--name", "rows", "-q").code == 0
    alone, mixed = headway("diff", "before"), headway("diff", "before", "rows")
    assert (alone.code, mixed.code) == (2, 2)
    assert "job before is an eval — name the eval to compare it with" in alone.err
    assert "the other job is none" in mixed.err
    models = headway("diff", "before", "before", "--models", "a", "b")
    assert "--models is not for evals" in models.err


def test_the_files_of_a_run(stage: Stage, headway: Headway) -> None:
    """All forms at once, from the records of a real run."""
    path = stage.root / "all.yaml"
    path.write_text(CONFIG.replace("PROMPT", "say"), encoding="utf-8")
    names = ["all.json", "all.csv", "all.xml", "all.md"]
    done = headway("eval", path.name, *(word for name in names for word in ("--out", name)))
    assert done.code == 5, done.err
    assert "2 of 3 passed, 1 failed" in done.out
    assert "failed: row 2" in done.out
    rows = json.loads((stage.root / "all.json").read_text())["results"]["results"]
    assert [row["success"] for row in rows] == [True, False, True]
    assert rows[0]["response"]["output"] == "echo: say one"
    for name in names[1:]:
        assert "echo: say two" in (stage.root / name).read_text(), name
    refused = headway("eval", path.name, "--out", "all.pdf")
    assert refused.code == 2
    assert "cannot be written as .pdf" in refused.err
