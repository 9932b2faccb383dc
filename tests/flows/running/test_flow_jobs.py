"""Flows as a user runs them: inputs, results, exit codes, resuming, retrying, exporting, and whose file is whose."""

from __future__ import annotations

import json

import pytest
from tests.flows.running.conftest import FlowFolder

FLOW = """
  - {id: issues, kind: tool, impl: "./tools/work.py:issues", writes: [issues]}
  - id: triage
    kind: tool
    impl: ./tools/work.py:triage
    for_each: {source: $.issues, concurrency: 2, max_failures: TOLERANCE}
    reads: [broken]
    writes: [labels]
  - {id: count, kind: tool, impl: "./tools/work.py:count", reads: [labels], writes: [n]}
"""
LABELS = [{"label": "A", "of": 0}, {"label": "B", "of": 1}, {"label": "C", "of": 2}]
ALL_CALLS = ["count", "issues", "triage#0", "triage#1", "triage#2"]


@pytest.fixture
def triage(folder: FlowFolder) -> FlowFolder:
    folder.flow(FLOW.replace("TOLERANCE", "0"))
    return folder


def test_a_flow_of_tools_runs_to_its_results_file(triage: FlowFolder) -> None:
    done = triage.headway("run", "flow.yaml", "--arg", "broken=[]")
    assert done.code == 0, done.err
    found = triage.results()
    assert list(found) == ["job", "status", "state", "nodes"]
    assert found["status"] == "success"
    assert found["state"] == {"broken": [], "issues": ["a", "b", "c"], "labels": LABELS, "n": 3}
    assert found["nodes"]["triage"] == {
        "status": "success", "reason": "", "units": 3, "succeeded": 3, "failed": 0, "skipped": 0, "cost_usd": 0.0,
    }  # fmt: skip
    again = triage.headway("run", "flow.yaml", "--arg", "broken=[]")
    assert (again.code, "is already complete" in again.err) == (0, True)
    assert triage.calls() == ALL_CALLS


def test_a_flow_of_tools_needs_no_provider(triage: FlowFolder) -> None:
    triage.write("headway.toml", "")
    assert triage.headway("run", "flow.yaml", "--arg", "broken=[]").code == 0


def test_an_agent_without_a_provider_is_an_error_with_its_line(folder: FlowFolder) -> None:
    folder.write("headway.toml", "")
    folder.write("ask.md", "hello")
    folder.flow("  - {id: ask, kind: agent, prompt: ./ask.md, model: nobody/x, writes: [a]}\n")
    done = folder.headway("run", "flow.yaml")
    assert done.code == 2
    assert "flow.yaml, line 3: ask: there is no provider" in done.err


def test_a_failure_outside_the_tolerance_is_partial_and_a_resume_needs_no_arguments(
    triage: FlowFolder,
) -> None:
    done = triage.headway("run", "flow.yaml", "--arg", 'broken=["b"]')
    assert done.code == 1
    assert "cannot triage b" in done.err
    found = triage.results()
    assert (found["status"], found["nodes"]["triage"]["failed"]) == ("partial", 1)
    count = found["nodes"]["count"]
    assert (count["status"], count["reason"]) == ("skipped", "triage failed")
    assert "labels" not in found["state"]
    assert triage.headway("resume").code == 1
    assert triage.calls() == ["issues", "triage#0", "triage#1", "triage#1", "triage#2"]


def test_a_tolerated_failure_is_success_and_is_not_tried_again(folder: FlowFolder) -> None:
    folder.flow(FLOW.replace("TOLERANCE", "1"))
    args = ("run", "flow.yaml", "--arg", 'broken=["b"]')
    done = folder.headway(*args)
    assert (done.code, folder.results()["state"]["n"]) == (0, 2)
    assert "done:" in done.err
    assert folder.headway(*args).code == 0
    assert folder.headway("resume").code == 0
    assert folder.calls() == ALL_CALLS


def test_retry_failed_runs_what_follows_too(triage: FlowFolder) -> None:
    assert triage.headway("run", "flow.yaml", "--arg", 'broken=["b"]').code == 1
    tools = (triage.root / "tools" / "work.py").read_text()
    triage.write("tools/work.py", tools.replace('.get("broken", [])', '.get("mended", [])'))
    done = triage.headway("retry", "--failed")
    assert done.code == 0, done.err
    assert triage.results()["state"]["labels"] == LABELS
    assert triage.results()["state"]["n"] == 3


def test_retry_runs_one_unit_again(triage: FlowFolder) -> None:
    triage.headway("run", "flow.yaml", "--arg", "broken=[]", "--name", "one")
    done = triage.headway("retry", "one", "count")
    assert done.code == 0, done.err
    assert triage.calls() == sorted([*ALL_CALLS, "count"])


def test_retry_refuses_a_unit_that_other_nodes_have_used(triage: FlowFolder) -> None:
    triage.headway("run", "flow.yaml", "--arg", "broken=[]", "--name", "one")
    done = triage.headway("retry", "one", "count", "triage[1]")
    assert done.code == 2
    assert "triage[1] has an answer that other nodes have used: it does not run again in job one" in done.err
    assert "'headway run flow.yaml --from triage'" in done.err
    assert triage.calls() == ALL_CALLS
    assert triage.headway("run", "flow.yaml", "--arg", "broken=[]", "--from", "triage").code == 0


def test_retry_refuses_a_failure_that_others_have_built_upon(folder: FlowFolder) -> None:
    folder.flow(FLOW.replace("TOLERANCE", "1"))
    assert folder.headway("run", "flow.yaml", "--arg", 'broken=["b"]', "--name", "one").code == 0
    done = folder.headway("retry", "one", "triage[1]")
    assert done.code == 2
    assert "triage[1] stays failed, because other nodes have used what was written without it" in done.err
    assert folder.calls() == ALL_CALLS


def test_retry_runs_a_named_failure_again_with_what_follows(triage: FlowFolder) -> None:
    assert triage.headway("run", "flow.yaml", "--arg", 'broken=["b"]', "--name", "one").code == 1
    tools = (triage.root / "tools" / "work.py").read_text()
    triage.write("tools/work.py", tools.replace('.get("broken", [])', '.get("mended", [])'))
    done = triage.headway("retry", "one", "triage[1]")
    assert done.code == 0, done.err
    assert "1 unit to run again, and what follows" in done.err
    assert triage.results("flow.one")["state"]["n"] == 3


def test_the_job_has_its_name_for_tools_also_with_fresh_and_name(folder: FlowFolder) -> None:
    folder.flow(
        '  - {id: seen, kind: tool, impl: "./tools/work.py:whole", args: {tone: dry}, writes: [seen]}\n'
    )
    assert folder.headway("run", "flow.yaml", "--name", "mine").code == 0
    found = folder.results("flow.mine")
    assert found["state"]["seen"] == {
        "state": {}, "args": {"tone": "dry"}, "item": None, "index": None, "node": "seen", "job": "mine",
    }  # fmt: skip
    assert folder.headway("run", "flow.yaml", "--fresh").code == 0
    fresh = json.loads(folder.headway("jobs", "--json").out)[0]["job"]
    found = folder.results()
    assert (found["job"], found["state"]["seen"]["job"]) == (fresh, fresh)
    assert fresh != "mine"


# -- inputs -------------------------------------------------------------------------------------------------------------

TYPED = """  schema:
    topic: string
    pages: integer
    tags: {type: array, default: []}
"""
SEEN = (
    '  - {id: seen, kind: tool, impl: "./tools/work.py:whole", reads: [topic, pages, tags], writes: [seen]}\n'
)


@pytest.fixture
def typed(folder: FlowFolder) -> FlowFolder:
    folder.flow(SEEN, state=TYPED + "    seen: any\n")
    return folder


def test_a_key_that_is_given_twice_is_an_error(folder: FlowFolder) -> None:
    folder.flow("  - {id: a, kind: tool, impl: './tools/work.py:whole', reads: [topic], writes: [x]}\n")
    done = folder.headway("run", "flow.yaml", "--arg", "topic=rail", "--arg", "topic=ships")
    assert (done.code, done.err) == (2, "headway: --arg topic is given twice — give each key one value\n")
    assert not (folder.root / ".headway").exists()


def test_an_argument_is_read_by_the_type_of_its_field_and_wins_over_the_file(typed: FlowFolder) -> None:
    typed.write("in.json", '{"topic": "trains", "pages": 3}')
    done = typed.headway("run", "flow.yaml", "--state", "in.json", "--arg", "topic=5", "--arg", 'tags=["x"]')
    assert done.code == 0, done.err
    assert typed.results()["state"]["seen"]["state"] == {"topic": "5", "pages": 3, "tags": ["x"]}


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["--arg", "topic=x"], "flow.yaml needs a value of pages — give it with --arg pages=VALUE"),
        (
            ["--arg", "topic=x", "--arg", "pages=many"],
            "--arg pages: 'pages' must be of type integer, not string",
        ),
        (
            ["--arg", "topic=x", "--arg", "page=3"],
            "--arg page: flow.yaml has no field 'page' — did you mean 'pages'?",
        ),
        (["--arg", "topic"], "--arg topic: expected key=value — such as --arg topic=trains"),
        (
            ["--state", "none.json"],
            "--state none.json: no such file or directory — name a file with a JSON object",
        ),
        (["--state", "list.json"], '--state list.json is not a JSON object — write {"field": value}'),
        (["--state", "wrong.json"], "--state wrong.json: 'pages' must be of type integer, not string"),
    ],
)
def test_an_input_that_does_not_fit_is_one_line(typed: FlowFolder, args: list[str], error: str) -> None:
    typed.write("list.json", "[]")
    typed.write("wrong.json", '{"topic": "x", "pages": "3"}')
    done = typed.headway("run", "flow.yaml", *args)
    assert (done.code, done.err.splitlines()) == (2, [f"headway: {error}"])
    assert not (typed.root / ".headway").exists()


def test_inputs_are_for_flows(folder: FlowFolder) -> None:
    folder.write("in.jsonl", '{"id": "a", "prompt": "hello"}\n')
    done = folder.headway("run", "in.jsonl", "--arg", "a=1")
    assert (done.code, done.err.startswith("headway: --arg is for flows (.yaml)")) == (2, True)


# -- flags --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "flags",
    [
        ["--prompt", "x"], ["--schema", "s.json"], ["--limit", "3"], ["--first", "1"], ["--then", "x"], ["--skip-bad-rows"],
        ["--serial"], ["--delay", "1s"], ["--worktree"], ["--text-only"], ["--out-dir", "d"], ["--out-order", "completion"],
        ["--only-failed"], ["--model", "m"], ["--cache"],
    ],
)  # fmt: skip
def test_flags_for_rows_are_refused_in_one_line(triage: FlowFolder, flags: list[str]) -> None:
    done = triage.headway("run", "flow.yaml", "--arg", "broken=[]", *flags)
    assert done.code == 2
    [line] = done.err.splitlines()
    assert line.startswith(f"headway: {flags[0]} is for rows, not for flows — "), line


def test_flags_for_rows_are_refused_by_resume_too(triage: FlowFolder) -> None:
    triage.headway("run", "flow.yaml", "--arg", "broken=[]")
    done = triage.headway("resume", "--serial")
    assert (done.code, "--serial is for rows, not for flows" in done.err) == (2, True)


def test_concurrency_counts_nodes_and_holds_for_later_runs(folder: FlowFolder) -> None:
    """Two nodes meet at a barrier of files: with one node at a time, neither would end."""
    folder.write(
        "tools/meet.py",
        "import os, time\n"
        "def main(given):\n"
        "    open(given['node'], 'w').close()\n"
        "    other = {'left': 'right', 'right': 'left'}[given['node']]\n"
        "    give_up = time.monotonic() + given['args']['patience']\n"
        "    while not os.path.exists(other):\n"
        "        if time.monotonic() > give_up: raise TimeoutError('alone')\n"
        "        time.sleep(0.005)\n"
        "    return given['node']\n",
    )
    node = (
        "  - {{id: {0}, kind: tool, impl: './tools/meet.py:main', args: {{patience: {1}}}, writes: [{0}]}}\n"
    )
    folder.flow(node.format("left", 20) + node.format("right", 20))
    done = folder.headway("run", "flow.yaml", "--concurrency", "2")
    assert (done.code, folder.results()["state"]) == (0, {"left": "left", "right": "right"}), done.err
    settings = folder.headway("jobs", "--json").out
    assert '"concurrency":2' not in settings.replace(" ", "")  # Not the cap of requests in flight.


def test_max_attempts_and_max_cost_are_taken(folder: FlowFolder) -> None:
    folder.write("ask.md", "hello")
    folder.flow("  - {id: ask, kind: agent, prompt: ./ask.md, writes: [a]}\n")
    done = folder.headway("run", "flow.yaml", "--max-attempts", "2", "--max-duration", "1m")
    assert done.code == 0, done.err


# -- results --------------------------------------------------------------------------------------------------------------


def test_results_go_where_out_says_and_to_standard_output(triage: FlowFolder) -> None:
    assert triage.headway("run", "flow.yaml", "--arg", "broken=[]", "--out", "mine.json").code == 0
    assert json.loads((triage.root / "mine.json").read_text())["status"] == "success"
    done = triage.headway("run", "flow.yaml", "--arg", "broken=[]", "--fresh", "--out", "-", "-q")
    assert json.loads(done.out)["state"]["n"] == 3
    refused = triage.headway("run", "flow.yaml", "--arg", "broken=[]", "--out", "mine.csv")
    assert (refused.code, "the results of a flow are one JSON file" in refused.err) == (2, True)


def test_the_results_of_another_job_are_never_replaced(triage: FlowFolder) -> None:
    assert triage.headway("run", "flow.yaml", "--arg", "broken=[]").code == 0
    first = triage.results()
    done = triage.headway("run", "flow.yaml", "--arg", 'broken=["b"]')
    assert "flow.results.json has the results of job" in done.err
    assert triage.results() == first
    triage.write("other.yaml", (triage.root / "flow.yaml").read_text() + "\n")
    done = triage.headway("run", "other.yaml", "--arg", "broken=[1]", "--out", "flow.results.json")
    assert (done.code, triage.results()) == (2, first)
    assert "has the results of another job" in done.err
    assert "--force" in done.err
    done = triage.headway("run", "other.yaml", "--arg", "broken=[1]", "--out", "flow.results.json", "--force")
    assert (done.code, triage.results()["state"]["broken"]) == (0, [1])


def test_a_file_of_the_user_is_never_replaced(triage: FlowFolder) -> None:
    triage.write("flow.results.json", '{"mine": true}')
    done = triage.headway("run", "flow.yaml", "--arg", "broken=[]")
    assert (done.code, (triage.root / "flow.results.json").read_text()) == (2, '{"mine": true}')
    assert "exists and is not the output of job" in done.err
    assert triage.calls() == []


def test_a_batch_takes_no_json_file(folder: FlowFolder) -> None:
    folder.write("in.jsonl", '{"id": "a", "prompt": "hello"}\n')
    done = folder.headway("run", "in.jsonl", "--out", "out.json")
    assert (done.code, "results cannot be written as .json" in done.err) == (2, True)


def test_export_writes_the_results_as_they_are(triage: FlowFolder) -> None:
    triage.headway("run", "flow.yaml", "--arg", "broken=[]")
    assert json.loads(triage.headway("export").out) == triage.results()
    assert triage.headway("export", "--out", "copy.json").code == 0
    assert json.loads((triage.root / "copy.json").read_text()) == triage.results()


def test_show_has_what_a_tool_was_given_and_its_answer(triage: FlowFolder) -> None:
    triage.headway("run", "flow.yaml", "--arg", 'broken=["b"]', "--name", "one")
    shown = triage.headway("show", "one", "triage[0]").out
    assert "tool work.py:triage" in shown
    assert '"item": "a"' in shown
    assert '"label": "A"' in shown
    failed = triage.headway("show", "one", "triage[1]").out
    assert "cannot triage b; last on standard error: looked at b" in failed
    assert "Traceback" in failed


def test_jobs_and_status_read_well(triage: FlowFolder) -> None:
    triage.headway("run", "flow.yaml", "--arg", 'broken=["b"]', "--name", "one")
    assert "one" in triage.headway("jobs").out
    status = triage.headway("status").out
    assert "flow " in status
    assert "cannot triage b" in status


def test_the_file_may_change_its_comments_and_stays_the_same_job(triage: FlowFolder) -> None:
    triage.headway("run", "flow.yaml", "--arg", "broken=[]")
    text = (triage.root / "flow.yaml").read_text()
    triage.write("flow.yaml", "# a comment\n\n" + text)
    assert "is already complete" in triage.headway("run", "flow.yaml", "--arg", "broken=[]").err
    triage.write("tools/work.py", "# changed\n" + (triage.root / "tools" / "work.py").read_text())
    assert "was run before as job" in triage.headway("run", "flow.yaml", "--arg", "broken=[]").err


def test_a_file_of_events_with_other_contents_is_refused_before_a_job_is_made(folder: FlowFolder) -> None:
    folder.flow("  - {id: one, kind: tool, impl: './tools/work.py:whole', writes: [x]}\n")
    folder.write("txt.jsonl", "a shopping list\n")
    done = folder.headway("run", "flow.yaml", "--events", "txt.jsonl")
    assert (done.code, "--events txt.jsonl has other contents" in done.err) == (2, True)
    assert not (folder.root / ".headway").exists() or "flow" not in folder.headway("jobs").out
    assert (folder.root / "txt.jsonl").read_text() == "a shopping list\n"


def test_the_results_of_a_job_without_units_are_not_replaced(folder: FlowFolder) -> None:
    folder.flow("  - {id: ask, kind: human, writes: [fine]}\n")
    assert folder.headway("run", "flow.yaml", "--name", "one", "--out", "out.json").code == 4
    assert json.loads((folder.root / "out.json").read_text())["job"] == "one"
    done = folder.headway("run", "flow.yaml", "--fresh", "--name", "two", "--out", "out.json")
    assert (done.code, "has the results of another job, 'one'" in done.err) == (2, True), done.err
    assert folder.headway("run", "flow.yaml", "--fresh").code == 4
    first = folder.results()["job"]
    assert folder.headway("run", "flow.yaml", "--fresh", "--name", "three").code == 4
    assert folder.results()["job"] == first
    assert folder.headway("run", "flow.yaml", "--fresh").code == 4
    assert folder.results()["job"] == first


def test_a_pipeline_in_which_an_item_failed_is_done_with_failures(folder: FlowFolder) -> None:
    folder.write(
        "tools/pick.py",
        "def main(given):\n    if given['item'] == 'b': raise ValueError('no b')\n    return 1\n",
    )
    folder.flow(
        "  - {id: p1, kind: tool, impl: './tools/pick.py:main', writes: [x]}\n"
        "  - {id: after, kind: tool, impl: './tools/work.py:whole', reads: [x], writes: [y]}\n",
        pipelines="  - {id: each, items: [a, b, c], stages: [p1]}\n",
    )
    done = folder.headway("run", "flow.yaml", "--name", "one")
    found = folder.results("flow.one")
    assert (done.code, found["status"], found["state"]["y"]["state"]) == (1, "partial", {"x": 1})
    graph = folder.headway("graph", "flow.yaml").out
    assert "each" in graph
    assert "done, 3/3, 1 failed" in graph
    status = folder.headway("status", "one").out
    assert "p1: failed" not in status


def test_items_that_are_no_list_are_refused_before_anything_starts(folder: FlowFolder) -> None:
    folder.flow(
        "  - {id: each, kind: tool, impl: './tools/work.py:triage', for_each: {source: $.nums}, writes: [out]}\n"
    )
    done = folder.headway("run", "flow.yaml", "--arg", "nums=abc")
    assert (done.code, folder.calls()) == (2, [])
    assert "--arg nums: 'nums' must be a list, not string: each.for_each.source is $.nums" in done.err


def test_a_value_that_a_node_replaces_is_told(folder: FlowFolder) -> None:
    folder.flow(
        "  - {id: make, kind: tool, impl: './tools/work.py:issues', writes: [x]}\n"
        "  - {id: after, kind: tool, impl: './tools/work.py:whole', reads: [x], writes: [y]}\n"
    )
    done = folder.headway("run", "flow.yaml", "--arg", "x=abc")
    assert done.code == 0, done.err
    assert "the value of x is replaced: make writes x" in done.err
    assert "the value of y" not in done.err


def test_show_says_how_units_are_named(triage: FlowFolder) -> None:
    assert triage.headway("run", "flow.yaml", "--arg", "broken=[]").code == 0
    job = triage.results()["job"]
    for unit, says in (
        (["triage#1"], f"no unit 'triage#1' — 'headway show {job} triage' lists those of triage"),
        (
            [],
            f"name a unit of job {job}: headway show {job} UNIT — UNIT can be a node: 'headway status {job}' lists them",
        ),
        (["nothing"], f"no unit and no node 'nothing' — 'headway graph --job {job}' shows its nodes"),
    ):
        shown = triage.headway("show", job, *unit)
        assert (shown.code, says in shown.err) == (2, True), shown.err


def test_one_unit_that_is_tried_again_is_it(triage: FlowFolder) -> None:
    assert triage.headway("run", "flow.yaml", "--arg", 'broken=["b"]').code == 1
    triage.write("mended", "")
    again = triage.headway("resume")
    assert "4 units so far, 3 already done\n" in again.err  # And `count`, which follows.
    assert "1 unit failed before: it is tried again; what succeeded stays" in again.err


def test_tools_that_keep_their_answers_save_no_tokens(triage: FlowFolder) -> None:
    assert triage.headway("run", "flow.yaml", "--arg", "broken=[]").code == 0
    triage.flow(FLOW.replace("TOLERANCE", "0").replace("[n]", "[many]"))
    again = triage.headway("run", "flow.yaml", "--arg", "broken=[]")
    assert "  4 answered without a call\n" in again.err, again.err


def test_a_loop_that_used_all_its_iterations_says_so(folder: FlowFolder) -> None:
    step = '{id: add, kind: tool, impl: "./tools/work.py:issues", writes: [issues]}'
    folder.flow(f"  - {step}\n  loops: [{{id: grow, body: [add], until: $.never, max_iters: 3}}]\n")
    done = folder.headway("run", "flow.yaml", "--arg", "never=false")
    assert done.code == 0, done.err
    line = next(one for one in folder.headway("graph", "flow.yaml").out.splitlines() if "grow" in one)
    assert line.endswith("all 3 iterations were used (max_iters)"), line


def test_an_answer_that_does_not_fit_is_no_exception_of_the_tool(folder: FlowFolder) -> None:
    folder.flow(
        '  - {id: list, kind: tool, impl: "./tools/work.py:issues", schema: {type: object}, writes: [a]}\n'
    )
    done = folder.headway("run", "flow.yaml")
    assert done.code == 1
    assert "for example list: the answer does not fit: " in done.err
    assert "raised" not in done.err
