"""Flows that are changed and run again: what is kept, what runs again, and what the plan says of it."""

from __future__ import annotations

import json
import os

import pytest
from tests.flows.running.conftest import FlowFolder

#: Two chains: topics → label (agent) → count (tool), and apart (agent).
FLOW = """
  - {id: topics, kind: tool, impl: "./tools/work.py:issues", writes: [topics]}
  - id: label
    kind: agent
    prompt: ./label.md
    for_each: {source: $.topics, concurrency: 2}
    writes: [labels]
  - {id: count, kind: tool, impl: "./tools/count.py:main", reads: [labels], writes: [n]}
  - {id: apart, kind: agent, prompt: ./apart.md, args: {tone: dry}, reads: [mood], writes: [text]}
"""
COUNT = "def main(given):\n    open('calls.txt', 'a').write('count\\n')\n    return len(given['state']['labels'])\n"
ARGS = ("run", "flow.yaml", "--arg", "mood=calm")


@pytest.fixture
def labels(folder: FlowFolder) -> FlowFolder:
    folder.write("label.md", "Label {{item}}.")
    folder.write("apart.md", "Write in a {{args.tone}} tone: {{state.mood}}.")
    folder.write("tools/count.py", COUNT)
    folder.flow(FLOW)
    done = folder.headway(*ARGS)
    assert done.code == 0, done.err
    assert (folder.sent(), folder.calls()) == (4, ["count", "topics"])
    return folder


def again(folder: FlowFolder, *args: str) -> tuple[int, list[str], str]:
    """Requests and calls of one more run, and what it said."""
    sent, calls = folder.sent(), len(folder.calls())
    done = folder.headway(*(args or ARGS))
    assert done.code == 0, done.err
    assert folder.latest()["status"] == "success"
    return folder.sent() - sent, folder.new_calls(calls), done.err


def jobs(folder: FlowFolder) -> list[str]:
    return [one["job"] for one in json.loads(folder.headway("jobs", "--json").out)]


def test_a_changed_prompt_runs_its_node_and_what_reads_it_and_keeps_the_rest(labels: FlowFolder) -> None:
    [first] = jobs(labels)
    labels.write("label.md", "Label {{item}} well.")
    sent, calls, said = again(labels)
    assert (sent, calls) == (3, ["count"])
    assert said.splitlines()[:4] == [
        f"flow.yaml was run before as job {first}; what has not changed is kept:",
        "  kept (2 units): topics (1 unit), apart (1 unit)",
        "  runs again: label: its prompt has changed",
        "  runs again: count: it reads labels of label, which runs again",
    ]
    assert again(labels)[:2] == (0, [])  # The same job, which is complete.


def test_kept_units_count_as_cached_and_cost_nothing(labels: FlowFolder) -> None:
    labels.write("label.md", "Label {{item}} well.")
    again(labels)
    [job, _] = json.loads(labels.headway("jobs", "--json").out)
    assert (job["cached"], job["succeeded"]) == (2, 4)
    status = json.loads(labels.headway("status", "--json").out)
    assert status["cached"] == 2
    assert labels.latest()["nodes"]["topics"] == {
        "status": "success", "reason": "", "units": 1, "succeeded": 1, "failed": 0, "skipped": 0, "cost_usd": 0.0,
    }  # fmt: skip


def test_answers_that_are_the_same_stop_the_change(labels: FlowFolder) -> None:
    """A tool runs again because its file has changed, and returns the same: nothing after it runs again."""
    work = (labels.root / "tools" / "work.py").read_text()
    labels.write("tools/work.py", work + "\nUNUSED = 1\n")
    sent, calls, said = again(labels)
    assert (sent, calls) == (0, ["topics"])
    assert "runs again: topics: its tool has changed: work.py" in said
    assert "runs again: label: it reads topics of topics, which runs again" in said


def test_another_address_of_a_provider_is_not_called_another_model(labels: FlowFolder) -> None:
    old = labels.provider.openai_url
    new = old.replace("127.0.0.1", "localhost")
    settings = (labels.root / "headway.toml").read_text()
    labels.write("headway.toml", settings.replace(old, new))
    labels.flow(FLOW.replace("tone: dry", "tone: warm"))
    _, _, said = again(labels)
    assert "runs again: label: its provider has changed: " in said
    assert "localhost" in said


def test_only_the_items_that_are_new_run(labels: FlowFolder) -> None:
    """An agent that is not given the index keeps the answer of an item that moves in its list."""
    work = (labels.root / "tools" / "work.py").read_text()
    labels.write("tools/work.py", work.replace('["a", "b", "c"]', '["new", "a", "b", "c"]'))
    sent, calls, _ = again(labels)
    assert (sent, calls) == (1, ["count", "topics"])
    assert labels.latest()["state"]["n"] == 4


def test_a_module_beside_a_tool_is_a_part_of_it(folder: FlowFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    folder.write("tools/beside.py", "VALUE = 1\n")
    folder.write("tools/other.py", "VALUE = 1\n")
    folder.write(
        "tools/use.py",
        "import beside\ndef main(given):\n    open('calls.txt', 'a').write('use\\n')\n    return beside.VALUE\n",
    )
    folder.flow("  - {id: use, kind: tool, impl: './tools/use.py:main', writes: [out]}\n")
    assert folder.headway("run", "flow.yaml").code == 0
    folder.write("tools/other.py", "VALUE = 2\n")
    assert again(folder, "run", "flow.yaml")[1] == []
    changed_s = (folder.root / "tools" / "beside.py").stat().st_mtime
    folder.write("tools/beside.py", "VALUE = 2\n")
    os.utime(folder.root / "tools" / "beside.py", (changed_s, changed_s))
    _, calls, said = again(folder, "run", "flow.yaml")
    assert (calls, folder.latest()["state"]["out"]) == (["use"], 2), "size and time are those of its bytecode"
    assert "its tool has changed: beside.py" in said


@pytest.mark.parametrize(
    ("old", "new", "sent", "reason"),
    [
        ("tone: dry", "tone: warm", 1, "runs again: apart: its args have changed: tone"),
        ("prompt: ./apart.md", "prompt: ./apart.md, model: m2", 1, "runs again: apart: its model has changed: m → m2"),
        ("writes: [text]", "writes: [text], schema: {type: string}", 1, "runs again: apart: its spec has changed"),
    ],
)  # fmt: skip
def test_changes_of_a_node_run_that_node(
    labels: FlowFolder, old: str, new: str, sent: int, reason: str
) -> None:
    labels.flow(FLOW.replace(old, new))
    requests, calls, said = again(labels)
    assert (requests, calls) == (sent, [])
    assert reason in said


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "# a comment\n" + text.replace("  - {id: count", "  # another\n  - {id: count"),
        lambda text: text.replace("concurrency: 2", "concurrency: 3, max_failures: 1"),
        lambda text: text.replace(
            "writes: [n]}", "writes: [n], timeout: 9s, on_error: {policy: retry, attempts: 2}}"
        ),
        lambda text: text.replace("args: {tone: dry}", "args: {tone: dry}, when: '$.mood != \"x\"'"),
    ],
)
def test_what_does_not_change_an_answer_runs_nothing(labels: FlowFolder, change) -> None:  # type: ignore[no-untyped-def]
    labels.flow(change(FLOW))
    assert again(labels)[:2] == (0, [])


def test_a_moved_node_and_another_description_run_nothing(labels: FlowFolder) -> None:
    lines = FLOW.strip("\n").splitlines()
    labels.flow("\n" + "\n".join([lines[-1], *lines[:-1]]) + "\n")
    assert again(labels)[:2] == (0, [])


def test_a_changed_input_runs_what_reads_it(labels: FlowFolder) -> None:
    sent, calls, said = again(labels, "run", "flow.yaml", "--arg", "mood=wild")
    assert (sent, calls) == (1, [])
    assert "runs again: apart: it reads the input mood, which has changed" in said


def test_new_and_removed_nodes_are_named(labels: FlowFolder) -> None:
    lines = FLOW.strip("\n").splitlines()
    labels.flow("\n".join([*lines[:-1], lines[-1].replace("id: apart", "id: other")]) + "\n")
    sent, calls, said = again(labels)
    assert (sent, calls) == (1, [])
    assert "  new: other\n  removed: apart\n" in said


# -- flags --------------------------------------------------------------------------------------------------------------


def test_fresh_runs_tools_again_and_agents_from_the_cache(labels: FlowFolder) -> None:
    sent, calls, said = again(labels, *ARGS, "--fresh")
    assert (sent, calls) == (0, ["count", "topics"])
    assert "what has not changed is kept" not in said


def test_no_cache_runs_everything_again_in_a_job_of_its_own(labels: FlowFolder) -> None:
    sent, calls, _ = again(labels, *ARGS, "--no-cache")
    assert (sent, calls) == (4, ["count", "topics"])
    assert again(labels)[:2] == (0, [])  # The newest job with this content is complete.
    assert again(labels, *ARGS, "--no-cache")[0] == 4
    assert len(jobs(labels)) == 3


def test_the_answers_of_no_cache_are_those_of_the_cache_from_then_on(labels: FlowFolder) -> None:
    again(labels, *ARGS, "--no-cache")
    before = labels.headway("show", jobs(labels)[0], "apart").out
    again(labels, *ARGS, "--fresh")
    shown = labels.headway("show", jobs(labels)[0], "apart").out
    assert shown.split("answer")[-1] == before.split("answer")[-1]


def test_a_node_with_cache_false_is_kept_by_a_changed_flow_and_not_by_fresh(folder: FlowFolder) -> None:
    folder.write("ask.md", "hello")
    nodes = "  - {id: ask, kind: agent, prompt: ./ask.md, cache: false, writes: [a]}\n"
    folder.flow(nodes)
    assert folder.headway("run", "flow.yaml").code == 0
    assert again(folder, "run", "flow.yaml", "--fresh")[0] == 1
    folder.flow(nodes + '  - {id: more, kind: tool, impl: "./tools/work.py:whole", writes: [b]}\n')
    assert again(folder, "run", "flow.yaml")[0] == 0


def test_a_tool_with_cache_true_is_cached_by_fresh(folder: FlowFolder) -> None:
    folder.flow('  - {id: issues, kind: tool, impl: "./tools/work.py:issues", cache: true, writes: [a]}\n')
    assert folder.headway("run", "flow.yaml").code == 0
    assert again(folder, "run", "flow.yaml", "--fresh")[1] == []
    assert folder.headway("cache", "clear", "-y").code == 0
    assert again(folder, "run", "flow.yaml", "--fresh")[1] == ["issues"]


def test_tools_without_the_cache_make_no_entries(labels: FlowFolder) -> None:
    assert json.loads(labels.headway("cache", "stats", "--json").out)["entries"] == 4


def test_the_same_prompt_five_times_is_five_calls(folder: FlowFolder) -> None:
    folder.write("ask.md", "hello")
    folder.flow(
        "  - {id: ask, kind: agent, prompt: ./ask.md, for_each: {source: [x, x, x, x, x]}, writes: [a]}\n"
    )
    assert folder.headway("run", "flow.yaml").code == 0
    assert folder.sent() == 5


def test_the_answer_of_a_failed_unit_is_never_reused(folder: FlowFolder) -> None:
    folder.write("ask.md", "#wrong-number")
    nodes = (
        "  - {id: ask, kind: agent, prompt: ./ask.md, writes: [a]}\n"
        '  - {id: good, kind: tool, impl: "./tools/work.py:issues", writes: [b]}\n'
    )
    folder.flow(nodes, state="  schema: {a: integer, b: any}\n")
    assert folder.headway("run", "flow.yaml").code == 1
    sent = folder.sent()
    folder.flow(
        nodes + '  - {id: more, kind: tool, impl: "./tools/work.py:whole", writes: [b]}\n',
        state="  schema: {a: integer, b: any}\n",
    )
    done = folder.headway("run", "flow.yaml")
    assert (done.code, folder.sent() > sent) == (1, True)
    assert "not finished before: ask" in done.err


# -- from and until -----------------------------------------------------------------------------------------------------


def test_from_runs_a_node_and_what_depends_on_it_again(labels: FlowFolder) -> None:
    sent, calls, said = again(labels, *ARGS, "--from", "label")
    assert (sent, calls) == (3, ["count"])
    assert "  runs again: label: --from label" in said
    assert "  kept (2 units): topics (1 unit), apart (1 unit)" in said
    assert again(labels)[:2] == (0, [])
    assert again(labels, *ARGS, "--fresh")[0] == 0  # The new answers are those of the cache.


def test_from_runs_what_changed_before_it_too(labels: FlowFolder) -> None:
    labels.write("apart.md", "Other {{args.tone}} {{state.mood}}.")
    sent, calls, said = again(labels, *ARGS, "--from", "count")
    assert (sent, calls) == (1, ["count"])
    assert "runs again: apart: its prompt has changed" in said


def test_until_runs_what_a_node_needs_and_a_later_run_goes_on(folder: FlowFolder) -> None:
    folder.write("label.md", "Label {{item}}.")
    folder.write("apart.md", "Write {{state.mood}}.")
    folder.write("tools/count.py", COUNT)
    folder.flow(FLOW)
    done = folder.headway(*ARGS, "--until", "label")
    assert (done.code, folder.sent(), folder.calls()) == (0, 3, ["topics"]), done.err
    assert "not run yet: count, apart (--until label); to go on: headway resume" in done.err
    found = folder.results()
    assert (found["status"], found["nodes"]["label"]["status"]) == ("success", "success")
    count = found["nodes"]["count"]
    assert (count["status"], count["reason"]) == ("pending", "not wanted in this run (--until)")
    assert "n" not in found["state"]
    done = folder.headway(*ARGS)
    assert (done.code, folder.sent(), folder.calls()) == (0, 4, ["count", "topics"]), done.err
    assert (folder.results()["status"], len(jobs(folder))) == ("success", 1)


def test_until_the_last_node_completes_the_job(folder: FlowFolder) -> None:
    folder.flow('  - {id: only, kind: tool, impl: "./tools/work.py:issues", writes: [a]}\n')
    assert folder.headway("run", "flow.yaml", "--until", "only").code == 0
    assert json.loads(folder.headway("jobs", "--json").out)[0]["state"] == "complete"


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--from", "lable"], "--from lable: flow.yaml has no node 'lable' — did you mean 'label'?"),
        (
            ["--until", "x"],
            "--until x: flow.yaml has no node 'x' — its nodes are topics, label, count, apart",
        ),
        (
            ["--from", "count", "--until", "label"],
            "--until label ends before --from count: nothing would run again — leave one of them out",
        ),
        (["--from", "label/x"], "--from label/x: 'label' runs no flow — name a node without a slash"),
    ],
)
def test_names_are_checked(labels: FlowFolder, flags: list[str], error: str) -> None:
    done = labels.headway(*ARGS, *flags)
    assert (done.code, done.err.splitlines()) == (2, [f"headway: {error}"])


def test_from_needs_an_earlier_run(folder: FlowFolder) -> None:
    folder.flow('  - {id: only, kind: tool, impl: "./tools/work.py:issues", writes: [a]}\n')
    done = folder.headway("run", "flow.yaml", "--from", "only")
    assert (done.code, "has no answers of an earlier run to keep — run it without --from" in done.err) == (
        2,
        True,
    )


# -- the plan before it starts ------------------------------------------------------------------------------------------


def test_a_dry_run_shows_what_is_kept_and_sends_nothing(labels: FlowFolder) -> None:
    [first] = jobs(labels)
    labels.write("label.md", "Label {{item}} well.")
    done = labels.headway(*ARGS, "--dry-run")
    assert (done.code, labels.sent(), len(jobs(labels))) == (0, 4, 1), done.err
    assert "  runs again: label: its prompt has changed" in done.out
    found = json.loads(labels.headway(*ARGS, "--dry-run", "--json").out)["changes"]
    assert found["since"] == first
    assert found["kept"] == [{"node": "topics", "units": 1}, {"node": "apart", "units": 1}]
    assert [one["node"] for one in found["again"]] == ["label", "count"]
    assert found["again"][0]["reasons"] == ["its prompt has changed"]


def test_a_dry_run_of_from_shows_what_runs_again(labels: FlowFolder) -> None:
    done = labels.headway(*ARGS, "--from", "count", "--dry-run")
    assert (done.code, "  runs again: count: --from count" in done.out) == (0, True), done.err
    assert len(jobs(labels)) == 1


# -- data sets, loops and flows inside ------------------------------------------------------------------------------------

ROWS = """
  - {id: rows, kind: dataset, file: ./rows.jsonl, writes: [rows]}
  - {id: ask, kind: agent, prompt: ./ask.md, for_each: {source: $.rows, concurrency: 4}, writes: [answers]}
"""


def test_only_new_and_changed_rows_run(folder: FlowFolder) -> None:
    folder.write("rows.jsonl", '{"t": "a"}\n{"t": "b"}\n{"t": "c"}\n')
    folder.write("ask.md", "About {{item.t}}.")
    folder.flow(ROWS)
    assert folder.headway("run", "flow.yaml").code == 0
    folder.write("rows.jsonl", '{"t": "new"}\n{"t": "a"}\n{"t": "B"}\n{"t": "c"}\n')
    sent, _, said = again(folder, "run", "flow.yaml")
    assert (sent, len(folder.latest()["state"]["answers"])) == (2, 4)
    assert "runs again: ask: it reads rows of rows, whose rows have changed" in said


OUTER = """
  - {id: issues, kind: tool, impl: "./tools/work.py:issues", writes: [issues]}
  - {id: sub, kind: flow, file: ./sub/flow.yaml, for_each: $.issues, writes: [length]}
  - {id: total, kind: tool, impl: "./tools/work.py:whole", reads: [length], writes: [total]}
"""
INNER = """
graph:
  nodes:
  - {id: label, kind: agent, prompt: ./label.md, reads: [item], writes: [label]}
  - {id: long, kind: tool, impl: "./inner.py:main", reads: [label], writes: [length]}
"""
LONG = (
    "def main(given):\n    open('calls.txt', 'a').write('long\\n')\n    return len(given['state']['label'])\n"
)


@pytest.fixture
def nested(folder: FlowFolder) -> FlowFolder:
    folder.write("sub/flow.yaml", INNER)
    folder.write("sub/label.md", "label {{state.item}}")
    folder.write("sub/inner.py", LONG)
    folder.flow(OUTER)
    done = folder.headway("run", "flow.yaml")
    assert (done.code, folder.sent()) == (0, 3), done.err
    return folder


def test_nodes_of_inner_flows_are_kept_and_run_again_too(nested: FlowFolder) -> None:
    nested.write("sub/inner.py", LONG.replace("len(", "1 + len("))
    sent, calls, said = again(nested, "run", "flow.yaml")
    assert (sent, calls) == (0, ["long", "long", "long", "total"])
    assert "kept (4 units): issues (1 unit), sub/label (3 units)" in said
    assert "runs again: sub/long: its tool has changed: inner.py" in said
    assert "runs again: total: it reads length of sub/long, which runs again" in said


def test_from_a_node_of_an_inner_flow(nested: FlowFolder) -> None:
    sent, calls, _ = again(nested, "run", "flow.yaml", "--from", "sub/long")
    assert (sent, calls) == (0, ["long", "long", "long", "total"])
    done = nested.headway("run", "flow.yaml", "--from", "sub/lnog")
    assert (
        done.code,
        "--from sub/lnog: flow.yaml has no node 'lnog' — did you mean 'long'?" in done.err,
    ) == (
        2,
        True,
    )


def test_until_a_node_of_an_inner_flow_is_a_clear_error(nested: FlowFolder) -> None:
    done = nested.headway("run", "flow.yaml", "--until", "sub/long")
    assert (done.code, done.err.splitlines()) == (
        2,
        ["headway: --until sub/long: a run cannot stop inside a flow that a node runs — --until sub"],
    )


def test_iterations_of_a_loop_are_asked_again_and_kept_by_the_next_version(folder: FlowFolder) -> None:
    """Nothing that the node reads changes from one iteration to the next: it is asked each time all the same."""
    folder.write("ask.md", "hello")
    nodes = "  - {id: ask, kind: agent, prompt: ./ask.md, writes: [a]}\n"
    loop = "  - {id: rounds, body: [ask], max_iters: 3}\n"
    folder.flow(nodes, loops=loop)
    assert folder.headway("run", "flow.yaml").code == 0
    assert folder.sent() == 3
    folder.flow(nodes, loops=loop.replace("3", "4"))
    assert again(folder, "run", "flow.yaml")[0] == 1
    assert again(folder, "run", "flow.yaml", "--fresh")[0] == 0


# -- a job that goes on with other tools ----------------------------------------------------------------------------------


def test_a_resume_with_another_tool_gives_its_answers_the_key_of_that_tool(folder: FlowFolder) -> None:
    """The tool is mended between two runs of one job. The next version of the flow takes the answer for one of the mended tool."""
    broken = "def main(given):\n    raise ValueError('no')\n"
    mended = "def main(given):\n    open('calls.txt', 'a').write('main\\n')\n    return 1\n"
    folder.write("tools/t.py", broken)
    nodes = "  - {id: t, kind: tool, impl: './tools/t.py:main', writes: [a]}\n"
    folder.flow(nodes)
    assert folder.headway("run", "flow.yaml").code == 1
    folder.write("tools/t.py", mended)
    assert folder.headway("resume").code == 0
    folder.flow(nodes + '  - {id: more, kind: tool, impl: "./tools/work.py:whole", writes: [b]}\n')
    assert again(folder, "run", "flow.yaml")[1] == ["more"]
    folder.write("tools/t.py", broken)
    assert folder.headway("run", "flow.yaml").code == 1


def test_answers_of_a_tool_that_was_mended_before_a_retry_are_not_called_kept(folder: FlowFolder) -> None:
    """The units that succeeded with the older file run again in the next job, and the plan says so."""
    run = ("run", "flow.yaml", "--arg", "nums=[1, 2, 3]")
    broken = (
        "def main(given):\n    open('calls.txt', 'a').write('each\\n')\n    return 1 / (given['item'] - 2)\n"
    )
    folder.write("tools/each.py", broken)
    folder.flow(
        "  - {id: apart, kind: tool, impl: './tools/work.py:issues', writes: [topics]}\n"
        "  - {id: each, kind: tool, impl: './tools/each.py:main', for_each: {source: $.nums}, writes: [out]}\n"
    )
    assert folder.headway(*run).code == 1
    folder.write("tools/each.py", broken.replace("1 / (given['item'] - 2)", "5"))
    assert folder.headway("retry", "--failed").code == 0
    _, calls, said = again(folder, *run)
    assert calls == ["each", "each"]
    assert "  kept: apart (1 unit)\n" in said
    assert "  runs again: each: its tool has changed: each.py (2 units made before)\n" in said
    assert again(folder, *run)[1] == []


def test_the_plan_after_until_knows_the_answers_of_older_jobs(labels: FlowFolder) -> None:
    """`label` and `count` have answers of the first job only."""
    apart = "Write in a very {{args.tone}} tone: {{state.mood}}."
    labels.write("apart.md", apart)
    assert labels.headway(*ARGS, "--until", "topics").code == 0
    labels.write("apart.md", f"{apart}!")
    sent, calls, said = again(labels)
    assert (sent, calls) == (1, [])
    assert said.splitlines()[1:3] == [
        "  kept (5 units): topics (1 unit), label (3 units), count (1 unit)",
        "  runs again: apart: its prompt has changed",
    ]
    assert "not finished before" not in said


def test_the_plan_after_until_compares_with_the_job_that_has_the_answers(labels: FlowFolder) -> None:
    changed = ("run", "flow.yaml", "--arg", "mood=wild")
    assert labels.headway(*changed, "--until", "topics").code == 0
    labels.write("tools/count.py", COUNT.replace("len(", "2 * len("))
    sent, calls, said = again(labels, *changed)
    assert (sent, calls) == (1, ["count"])
    assert "  runs again: apart: it reads the input mood, which has changed" in said.splitlines()
