"""Flow files: seed 001's snippets, every error at once, and what waits for what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headway.errors import InputError
from headway.flows.flow_file import check_flow, load_flow
from headway.flows.spec import AUTO, FlowSpec

FlowFile = Callable[[str], Path]

SEED_REVIEW = """
runtime:
  concurrency: 4
graph:
  nodes:
    - id: review
      kind: agent
      prompt: ./prompts/review.md
      for_each:
        source: $.dimensions
        concurrency: 3
      reads: [diff, dimensions]
      writes: [findings]
"""
SEED_TRIAGE = """
runtime:
  concurrency: 8
graph:
  nodes:
    - id: fetch_issues
      kind: tool
      impl: ./tools/fetch.mjs
      writes: [issues]
    - id: triage
      kind: agent
      prompt: ./prompts/triage.md
      for_each:
        source: $.issues
        concurrency: 5
      reads: [issues]
      writes: [labels]
"""
SEED_RETRY = """
graph:
  nodes:
    - id: call_api
      kind: tool
      impl: ./tools/call-api.mjs
      on_error:
        policy: retry
        attempts: 3
        backoff: exponential
        base_ms: 200
"""


def tool(name: str, reads: str = "", writes: str = "", more: str = "") -> str:
    return f"    - {{id: {name}, kind: tool, impl: './tools/step.py:main', reads: [{reads}], writes: [{writes}]{more}}}\n"


def graph(*nodes: str, more: str = "", before: str = "") -> str:
    return f"{before}graph:\n  nodes:\n{''.join(nodes)}{more}"


def waits(flow: FlowSpec, name: str) -> set[str]:
    return {one.id for one in flow.step(name).after}


def errors(path: Path) -> list[str]:
    checked = check_flow(path)
    assert checked.flow is None
    return [problem.text("flow.yaml") for problem in checked.problems if problem.severity == "error"]


def test_the_review_of_the_seed(flow_file: FlowFile) -> None:
    flow = load_flow(flow_file(SEED_REVIEW))
    review = flow.nodes["review"]
    assert flow.concurrency == 4
    assert review.for_each is not None
    assert (review.for_each.source, review.for_each.concurrency) == ("$.dimensions", 3)
    assert flow.inputs == ("diff", "dimensions")
    assert flow.fields["findings"].merge == "array_append"
    assert review.cache


def test_the_triage_of_the_seed(flow_file: FlowFile) -> None:
    flow = load_flow(flow_file(SEED_TRIAGE))
    assert waits(flow, "triage") == {"fetch_issues"}
    assert flow.step_order == ("fetch_issues", "triage")
    assert flow.inputs == ()
    assert not flow.nodes["fetch_issues"].cache


def test_the_retry_of_the_seed(flow_file: FlowFile) -> None:
    policy = load_flow(flow_file(SEED_RETRY)).nodes["call_api"].on_error
    assert (policy.policy, policy.attempts, policy.backoff, policy.base_ms) == (
        "retry",
        3,
        "exponential",
        200,
    )


def test_every_error_at_once_with_lines_and_near_words(flow_file: FlowFile) -> None:
    text = """runtime: {concurency: 4}
graph:
  nodes:
    - id: a
      kind: agnt
    - id: b
      kind: agent
      prompt: ./prompts/reviw.md
      when: $.x = 1
    - id: b
      kind: human
      impl: ./tools/fetch.mjs
  edges:
    - {from: a, to: fetchh}
"""
    found = errors(flow_file(text))
    assert [line.split(":")[1] for line in found] == ["1", "5", "8", "9", "10", "14"]
    assert "did you mean 'concurrency'?" in found[0]
    assert "did you mean 'agent'?" in found[1]
    assert "did you mean 'review.md'?" in found[2]
    assert "equality is '=='" in found[3]
    assert "used twice" in found[4]
    assert "there are a, b" in found[5]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected a mapping"),
        ("graph: {nodes: []}", "there are no nodes"),
        (graph(tool("a", "y", "x"), tool("b", "x", "y")), "a cycle: b → a → b"),
        (graph(tool("a"), tool("b"), more="  edges: [{from: a, to: b}, {from: b, to: a}]"), "a cycle"),
        (graph(tool("a"), more="  edges: [{from: a, to: a}]"), "leads to itself"),
        (
            graph(tool("a", "x"), before="state: {schema: {y: string}}\n"),
            "reads 'x', which state.schema does not",
        ),
        (
            graph(tool("a", "", "x"), tool("b", "", "x"), before="state: {schema: {x: {merge: set_once}}}\n"),
            "two writers: 'a' and 'b'",
        ),
        (
            graph(tool("a", "", "x", ", for_each: [1]"), before="state: {schema: {x: {merge: set_once}}}\n"),
            "expected a mapping, not a list",
        ),
        (
            graph(
                tool("a", "", "x", ", for_each: {source: [1]}"),
                before="state: {schema: {x: {merge: set_once}}}\n",
            ),
            "more than once",
        ),
        (graph(tool("a", "", "x", ", when: 'false'")), "unreachable: its 'when' is always false"),
        (
            graph(tool("a", "", "x", ", when: false"), tool("b", "x")),
            "'b' is unreachable: no node that runs writes 'x'",
        ),
        (graph(tool("a", more=", for_each: {source: length($.x)}")), "expected a path such as"),
        (graph(tool("a", more=", timeout: soon")), "expected a duration"),
        (graph(tool("a", more=", prompt: x.md")), "a node of kind tool has no 'prompt'"),
        (graph("    - {id: a, kind: agent}\n"), "'prompt' is missing"),
        (graph("    - {id: a, kind: tool, impl: ./tools/step.py}\n"), "names no function"),
        (graph("    - {id: a, kind: agent, prompt: ./prompts/review.md}\n"), "does not read 'diff'"),
        (graph("    - {id: a, kind: agent, prompt: ./prompts/triage.md}\n"), "has no 'for_each'"),
        (graph(tool("a"), more="  loops: [{body: a}]"), "never ends"),
        (graph(tool("a"), more="  loops: [{body: b, max_iters: 2}]"), "there is no node 'b'"),
        (graph(tool("a"), more="  loops: [{body: a, until: true}]"), "always true"),
        (
            graph(
                tool("a", "g"),
                tool("b", "", "g"),
                more="  pipelines: [{items: [1], stages: [a, b], concurrency: 2}]",
            ),
            "set its concurrency to 1",
        ),
        (
            graph(
                tool("a"),
                tool("b"),
                more="  pipelines: [{items: [1], stages: a}]\n  loops: [{body: a, max_iters: 1}]",
            ),
            "is in 'pipeline_1' and in 'loop_1'",
        ),
        (graph(tool("a"), before="state: {schema: {x: {type: strng}}}\n"), "did you mean 'string'?"),
        (
            graph(tool("a"), before="state: {schema: {x: {type: integer, default: no}}}\n"),
            "not of type integer",
        ),
        (graph("    - {id: a, kind: flow, file: flow.yaml}\n"), "contains itself"),
    ],
)
def test_what_is_refused(flow_file: FlowFile, text: str, says: str) -> None:
    assert any(says in line for line in errors(flow_file(text))), errors(flow_file(text))


def test_edges_decide_between_two_that_read_each_other(flow_file: FlowFile) -> None:
    text = graph(tool("a", "y", "x"), tool("b", "x", "y"), more="  edges: [{from: a, to: b}]")
    flow = load_flow(flow_file(text))
    assert (waits(flow, "a"), waits(flow, "b")) == (set(), {"a"})


def test_conditions_are_read_too(flow_file: FlowFile) -> None:
    more = "  edges: [{from: b, to: c, when: $.x > 1}]"
    flow = load_flow(flow_file(graph(tool("a", "", "x"), tool("b"), tool("c"), more=more)))
    assert waits(flow, "c") == {"a", "b"}
    edge = next(one for one in flow.nodes["c"].after if one.edge)
    assert (edge.id, edge.when) == ("b", "$.x > 1")


def test_a_pipeline_is_one_step(flow_file: FlowFile) -> None:
    text = graph(
        tool("split", "", "chapters"),
        tool("translate", "glossary", "pages"),
        tool("terms", "pages", "glossary"),
        tool("bind", "pages"),
        more="  pipelines: [{id: book, items: $.chapters, stages: [translate, terms]}]",
    )
    flow = load_flow(flow_file(text))
    assert waits(flow, "book") == {"split"}
    assert waits(flow, "bind") == {"book"}
    assert waits(flow, "translate") == set()
    assert waits(flow, "terms") == {"translate"}
    assert flow.step_order == ("split", "book", "bind")


def test_members_of_a_loop_wait_only_for_what_they_read(flow_file: FlowFile) -> None:
    text = graph(
        tool("improve", "report", "text"),
        tool("check", "text", "report"),
        tool("count", "", "n"),
        more="  loops: [{id: polish, body: [improve, check, count], until: $.report == 'ok', budget: 0.5}]",
        before="state: {schema: {report: {type: string, default: ''}, text: string, n: any}}\n",
    )
    flow = load_flow(flow_file(text))
    assert (waits(flow, "check"), waits(flow, "count"), waits(flow, "polish")) == ({"improve"}, set(), set())
    assert (flow.loops["polish"].max_iters, flow.loops["polish"].budget_usd) == (100, 0.5)


def test_auto_and_percentages(flow_file: FlowFile) -> None:
    more = ", for_each: {source: $.rows, concurrency: auto, max_failures: 2.5%}"
    flow = load_flow(flow_file(graph(tool("a", "rows", "b", more), before="runtime: {concurrency: auto}\n")))
    each = flow.nodes["a"].for_each
    assert each is not None
    assert (flow.concurrency, each.concurrency, each.max_failures.allowed(200)) == (AUTO, AUTO, 5)


def test_a_misspelt_read_is_a_warning_without_a_state(flow_file: FlowFile) -> None:
    checked = check_flow(flow_file(graph(tool("a", "", "issues"), tool("b", "isues"))))
    assert checked.flow is not None
    assert [one.hint for one in checked.problems] == ["did you mean 'issues'?"]


def test_a_read_of_what_only_the_node_itself_writes_is_a_warning(flow_file: FlowFile) -> None:
    alone = check_flow(flow_file(graph(tool("a", "x", "x"))))
    assert alone.flow is not None
    assert [one.text("f") for one in alone.problems] == [
        "f:3: warning: node 'a' reads 'x', which only it writes — give a value with --arg x=VALUE, or a default in state.schema"
    ]
    in_loop = graph(tool("a", "x", "x"), more="  loops:\n    - {body: [a], max_iters: 2}\n")
    assert check_flow(flow_file(in_loop)).problems == ()
    with_default = graph(tool("a", "x", "x"), before="state: {schema: {x: {default: 1}}}\n")
    assert check_flow(flow_file(with_default)).problems == ()


def test_load_raises_with_every_error(flow_file: FlowFile) -> None:
    with pytest.raises(InputError) as caught:
        load_flow(flow_file("grph: 1\n"))
    assert len(caught.value.problems) == 2


def test_ten_thousand_nodes_take_seconds(flow_file: FlowFile) -> None:
    nodes = [tool(f"n{i}", f"f{i - 1}" if i % 10 else "", f"f{i}") for i in range(10_000)]
    edges = "".join(f"    - {{from: n{i}, to: n{i + 10}}}\n" for i in range(0, 9_000, 10))
    flow = load_flow(flow_file(graph(*nodes, more="  edges:\n" + edges)))
    assert len(flow.step_order) == 10_000
