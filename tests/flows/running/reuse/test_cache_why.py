"""`headway cache why JOB NODE`: what changed since the last answer of a node."""

from __future__ import annotations

import json

import pytest
from tests.flows.running.conftest import FlowFolder

FLOW = """
  - {id: topics, kind: tool, impl: "./tools/work.py:issues", writes: [topics]}
  - {id: label, kind: agent, prompt: ./label.md, for_each: $.topics, writes: [labels]}
  - {id: apart, kind: agent, prompt: ./apart.md, args: {tone: dry}, reads: [mood, topics], writes: [text]}
"""


@pytest.fixture
def labels(folder: FlowFolder) -> FlowFolder:
    folder.write("label.md", "Label {{item}}.\nBe brief.\n")
    folder.write("apart.md", "Write in a {{args.tone}} tone: {{state.mood}}.")
    folder.flow(FLOW)
    run(folder, "one")
    return folder


def run(folder: FlowFolder, name: str, *more: str, mood: str = "calm") -> None:
    done = folder.headway("run", "flow.yaml", "--arg", f"mood={mood}", "--name", name, *more)
    assert done.code == 0, done.err


def why(folder: FlowFolder, job: str, node: str) -> list[str]:
    done = folder.headway("cache", "why", job, node)
    assert done.code == 0, done.err
    return done.out.splitlines()


def test_the_first_job_has_nothing_to_compare(labels: FlowFolder) -> None:
    assert why(labels, "one", "apart") == [
        "apart of job one was called",
        "  no earlier job of this flow has this unit",
    ]


def test_changed_lines_of_a_prompt_and_units_of_a_for_each(labels: FlowFolder) -> None:
    labels.write("label.md", "Label {{item}}.\nBe very brief.\n")
    run(labels, "two")
    assert why(labels, "two", "label") == [
        "label[0] of job two was called; beside job one:",
        "  its prompt changed",
        "    - Be brief.",
        "    + Be very brief.",
        "  label has 3 units: 3 were called, 0 kept their answers (headway cache why two UNIT)",
    ]
    assert why(labels, "two", "topics") == [
        "topics of job two was not called",
        "  nothing changed: it has the answer of topics of job one",
    ]


def test_args_state_model_and_tool(labels: FlowFolder) -> None:
    labels.flow(FLOW.replace("tone: dry", "tone: warm").replace("./apart.md", "./apart.md, model: m2"))
    work = (labels.root / "tools" / "work.py").read_text()
    labels.write("tools/work.py", work.replace('["a", "b", "c"]', '["a", "x", "c", "d"]'))
    run(labels, "two", mood="wild")
    assert why(labels, "two", "apart") == [
        "apart of job two was called; beside job one:",
        "  its args changed",
        "    tone: dry → warm",
        "  its model changed",
        "    model: m → m2",
        "  the state that it reads changed",
        "    mood: calm → wild",
        "    topics: 3 → 4 elements, the first that differs is [1]: b → x",
    ]
    assert why(labels, "two", "topics")[1:] == ["  its tool changed", "    work.py: changed"]
    assert why(labels, "two", "label[1]")[1:] == ["  its item changed", "    b → x"]
    assert why(labels, "two", "label[3]")[1:] == ["  no earlier job of this flow has this unit"]
    assert (
        why(labels, "two", "label")[-1]
        == "  label has 4 units: 2 were called, 2 kept their answers (headway cache why two UNIT)"
    )


@pytest.mark.parametrize(
    ("flags", "node", "text"),
    [
        (["--no-cache"], "apart", "it ran because of --no-cache"),
        (["--from", "apart"], "apart", "it ran because of --from apart"),
        (
            ["--fresh"],
            "topics",
            "it ran because of --fresh, and its cache is off (cache: true turns it on)",
        ),
    ],
)
def test_flags_are_named_where_nothing_changed(
    labels: FlowFolder, flags: list[str], node: str, text: str
) -> None:
    run(labels, "two", *flags)
    assert why(labels, "two", node)[1] == f"  nothing changed since job one; {text}"


def test_an_answer_that_was_cleared(labels: FlowFolder) -> None:
    labels.headway("cache", "clear", "-y")
    run(labels, "two", "--fresh")
    assert (
        why(labels, "two", "apart")[1]
        == "  nothing changed since job one; it ran because of --fresh, and the cache had no answer: it was cleared"
    )


def test_json_has_the_same(labels: FlowFolder) -> None:
    labels.flow(FLOW.replace("tone: dry", "tone: warm"))
    run(labels, "two")
    found = json.loads(labels.headway("cache", "why", "two", "apart", "--json").out)
    assert (found["unit"], found["outcome"], found["compared"]) == ("apart", "called", "one")
    assert found["changed"] == [{"part": "args", "text": "its args changed", "details": ["tone: dry → warm"]}]


def test_mistakes_are_one_line(labels: FlowFolder) -> None:
    for node, error in (
        ("lable", "job one has no node 'lable' — did you mean 'label'?"),
        ("label[9]", "job one has no unit 'label[9]' yet — see 'headway status one'"),
    ):
        done = labels.headway("cache", "why", "one", node)
        assert (done.code, done.err.splitlines()) == (2, [f"headway: {error}"])
    labels.write("in.jsonl", '{"id": "a", "prompt": "hello"}\n')
    assert labels.headway("run", "in.jsonl", "--name", "rows").code == 0
    done = labels.headway("cache", "why", "rows", "a")
    assert (done.code, "job rows is no flow" in done.err) == (2, True)
