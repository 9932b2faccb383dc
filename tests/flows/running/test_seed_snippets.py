"""The YAML of seed 001, completed with small prompts and tools, run against the fake provider."""

from __future__ import annotations

import json
from pathlib import Path

from tests.flows.running.conftest import FlowFolder

MINIMAL = """
runtime:
  concurrency: 4
graph:
  nodes:
  - {id: one, kind: agent, prompt: ./prompts/plain.md, writes: [a]}
  - {id: two, kind: agent, prompt: ./prompts/plain.md, writes: [b]}
"""
REVIEW = """
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
SEQUENTIAL = """
runtime:
  concurrency: 1
graph:
  nodes:
  - {id: one, kind: agent, prompt: ./prompts/plain.md, writes: [a]}
"""
AGGRESSIVE = """
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
RETRY = """
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
FETCH = (
    """console.log(JSON.stringify([{title: 'It crashes'}, {title: 'Dark mode'}, {title: 'Install?'}]))\n"""
)
#: Fails twice, as a network does.
CALL_API = """import fs from 'node:fs'
fs.appendFileSync('tries', 'x')
if (fs.readFileSync('tries', 'utf8').length < 3) { console.error('ECONNRESET'); process.exit(1) }
console.log(JSON.stringify({fine: true}))
"""


def prepared(folder: FlowFolder, flow: str) -> FlowFolder:
    folder.write("flow.yaml", flow)
    folder.write("prompts/plain.md", "Say something.")
    folder.write("prompts/review.md", "Review {{state.diff}} for {{item}} ({{index}}).")
    folder.write("prompts/triage.md", "Label issue {{index}}: {{item.title}}")
    folder.write("tools/fetch.mjs", FETCH)
    folder.write("tools/call-api.mjs", CALL_API)
    return folder


def test_the_minimal_example_runs_both_nodes(folder: FlowFolder) -> None:
    done = prepared(folder, MINIMAL).headway("run", "flow.yaml")
    assert done.code == 0, done.err
    assert folder.results()["state"] == {"a": "echo: Say something.", "b": "echo: Say something."}


def test_the_sequential_example(folder: FlowFolder) -> None:
    assert prepared(folder, SEQUENTIAL).headway("run", "flow.yaml").code == 0


def test_the_review_in_dimensions(folder: FlowFolder) -> None:
    folder.write("in.json", json.dumps({"diff": "+1", "dimensions": ["style", "bugs", "tests", "speed"]}))
    done = prepared(folder, REVIEW).headway("run", "flow.yaml", "--state", "in.json")
    assert done.code == 0, done.err
    wanted = [
        f"echo: Review +1 for {name} ({n})." for n, name in enumerate(["style", "bugs", "tests", "speed"])
    ]
    assert folder.results()["state"]["findings"] == wanted


def test_the_aggressive_example_triages_every_issue(folder: FlowFolder) -> None:
    done = prepared(folder, AGGRESSIVE).headway("run", "flow.yaml")
    assert done.code == 0, done.err
    titles = ["It crashes", "Dark mode", "Install?"]
    assert folder.results()["state"]["labels"] == [
        f"echo: Label issue {n}: {title}" for n, title in enumerate(titles)
    ]


def test_the_retry_example_succeeds_at_the_third_attempt(folder: FlowFolder) -> None:
    done = prepared(folder, RETRY).headway("run", "flow.yaml")
    assert done.code == 0, done.err
    assert (Path("tries").read_text(), folder.results()["nodes"]["call_api"]["succeeded"]) == ("xxx", 1)
