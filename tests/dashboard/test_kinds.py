"""A flow that waits, an eval and a review in one database, as the API shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.crash.stage import Stage
from tests.dashboard.dashboard_process import DashboardProcess, dashboard

from headway.cli import main
from headway.fake.process import FakeProcess
from headway.testing import fake_provider

HOSTILE = "<script>alert(1)</script>"
TOOLS = """
def issues(given):
    return ["a", "b", "c"]

def triage(given):
    if given["item"] == "b":
        raise ValueError("cannot triage <script>alert(1)</script>")
    return given["item"]

def never(given):
    return 1
"""
FLOW = """
runtime: {concurrency: 4}
state:
  schema: {draft: array, labels: array, when: any, late: any, none: any}
graph:
  nodes:
  - {id: draft, kind: tool, impl: "./work.py:issues", writes: [draft]}
  - {id: triage, kind: tool, impl: "./work.py:triage", for_each: {source: $.draft, max_failures: 1}, writes: [labels]}
  - {id: publish, kind: human, prompt: ./ask.md, reads: [draft], writes: [when]}
  - {id: late, kind: tool, impl: "./work.py:never", reads: [when], writes: [late]}
"""
EVAL = f"""
description: Greetings
prompts: ['Say {{{{word}}}}', 'Shout {{{{word}}}} {HOSTILE}']
providers: [echo]
tests:
  - vars: {{word: [hello, bye, well]}}
    assert: [{{type: contains, value: '{{{{word}}}}'}}]
  - vars: {{word: loud}}
    assert: [{{type: contains, value: nothing}}]
"""
FINDING = {
    "rule": "wrong-condition", "severity": "high", "confidence": 0.9, "message": f"It subtracts. {HOSTILE}", "suggestion": "",
    "start_line": 5, "end_line": 5, "quote": "return a - b",
}  # fmt: skip
ANSWERS: tuple[dict[str, Any], ...] = (
    {"contains": "return a - b", "turns": [{"findings": [FINDING]}]},
    {"turns": [{"findings": []}]},
)
ADD = "import os\n\n\ndef add(a, b):\n    return a - b\n"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardProcess]:
    root = tmp_path_factory.mktemp("kinds")
    patch = pytest.MonkeyPatch()
    patch.chdir(root)
    patch.setenv("P_KEY", "sk-any")
    try:
        _run_all(root)
        with dashboard(Stage(root, FakeProcess("", 0, 0), "", 0)) as running:
            yield running
    finally:
        patch.undo()


def _run_all(root: Path) -> None:
    files = {
        "work.py": TOOLS, "flow.yaml": FLOW, "ask.md": f"Publish {{{{state.draft}}}}? {HOSTILE}", "promptfooconfig.yaml": EVAL,
        "src/add.py": ADD, "src/one.py": "one = 1\n", "src/two.py": "two = 2\n",
    }  # fmt: skip
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    with fake_provider(latency="2ms", answers=ANSWERS) as provider:
        (root / "headway.toml").write_text(
            f'[providers.alpha]\nkind = "openai"\nbase_url = "{provider.openai_url}"\napi_key_env = "P_KEY"\n'
        )
        assert main(["run", "flow.yaml", "--name", "flow", "-q"]) == 4
        assert main(["eval", "--name", "eval", "-q"]) == 5, "a test fails"
        review = ["review", "src", "--model", "alpha/m", "--axis", "correctness", "--axis", "security"]
        assert main([*review, "--name", "review", "-q"]) == 0


def test_a_flow_is_a_graph_with_its_figures_and_its_question(page: DashboardProcess) -> None:
    flow = page.get("/api/jobs/flow/flow").json
    nodes = {node["id"]: node for node in flow["nodes"]}
    assert {name: node["status"] for name, node in nodes.items()} == {
        "draft": "success", "triage": "success", "publish": "waiting", "late": "pending",
    }  # fmt: skip
    counts = nodes["triage"]["counts"]
    assert (counts["units"], counts["succeeded"], counts["failed"]) == (3, 2, 1)
    assert "for each of" in nodes["triage"]["detail"]
    edges = {(edge["from"], edge["to"]): edge["taken"] for edge in flow["edges"]}
    assert edges == {("draft", "triage"): True, ("draft", "publish"): True, ("publish", "late"): None}
    [asked] = flow["waiting"]
    assert asked["unit"] == "publish"
    assert HOSTILE in asked["question"]
    job = page.get("/api/jobs/flow").json
    assert job["state"] == "parked"
    assert job["nodes"]["publish"]["waiting"] == ["publish"]
    [waits] = [one for one in job["trouble"] if one["node"] == "publish"]
    assert (waits["command"], waits["action"]["body"]) == (
        "headway approve flow publish",
        {"node": "publish"},
    )
    assert waits["do"] == "Approve or reject it; then resume the job."


def test_an_eval_is_paged_by_rows_and_has_its_figures(page: DashboardProcess) -> None:
    first = page.get("/api/jobs/eval/eval?limit=3").json
    assert (len(first["columns"]), len(first["rows"]), first["total_rows"]) == (2, 3, 4)
    rest = page.get(f"/api/jobs/eval/eval?limit=3&after={first['next']}").json
    assert (len(rest["rows"]), rest["next"], "totals" in rest) == (1, None, False)
    statuses = [[cell["status"] for cell in row["cells"]] for row in [*first["rows"], *rest["rows"]]]
    assert statuses == [["pass", "pass"]] * 3 + [["fail", "fail"]]
    assert first["totals"]["counts"]["passed"] == 6
    shouted = first["rows"][0]["cells"][1]
    assert shouted["output"].startswith("Shout hello")
    assert HOSTILE in shouted["output"]
    [judged] = rest["rows"][0]["cells"][0]["asserts"]
    assert (judged["type"], judged["passed"]) == ("contains", False)


def test_a_review_has_its_files_and_each_finding_beside_its_code(page: DashboardProcess) -> None:
    first = page.get("/api/jobs/review/review?limit=2").json
    assert [file["path"] for file in first["files"]] == ["src/add.py", "src/one.py"]
    rest = page.get(f"/api/jobs/review/review?limit=2&after={first['next']}").json
    assert ([file["path"] for file in rest["files"]], rest["next"]) == (["src/two.py"], None)
    assert first["files"][0]["findings"]["high"] >= 1
    file = page.get("/api/jobs/review/review/file?path=src/add.py").json
    assert (file["code"], file["first_line"]) == (ADD.splitlines(), 1)
    assert file["findings"][0]["start_line"] == 5
    assert HOSTILE in file["findings"][0]["message"]
    for path in ("../headway.toml", "/etc/passwd", "", "src/none.py"):
        assert page.get(f"/api/jobs/review/review/file?path={path}").status == 400


def test_each_part_is_of_its_own_kind_of_job(page: DashboardProcess) -> None:
    for job in ("flow", "eval", "review"):
        parts = page.get(f"/api/jobs/{job}").json["parts"]
        assert [name for name, has in parts.items() if has and name != "agents"] == [job]
        for part in ("flow", "eval", "review"):
            answer = page.get(f"/api/jobs/{job}/{part}")
            assert answer.status == (200 if part == job else 409)
            assert answer.headers["content-type"] == "application/json"


def test_jobs_come_in_pages(page: DashboardProcess) -> None:
    names: list[str] = []
    path: str | None = "/api/jobs?limit=2"
    while path is not None:
        answer: dict[str, Any] = page.get(path).json
        names += [row["job"] for row in answer["jobs"]]
        path = None if answer["next"] is None else f"/api/jobs?limit=2&after={answer['next']}"
    assert names == ["review", "eval", "flow"]
    assert json.dumps(page.get("/api/lanes").json)
