"""Answers of flow nodes: text or JSON, schemas, several fields, types of the state; a wrong answer is a failed attempt."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest
from tests.flows.running.conftest import FlowFolder

MOOD = "{type: object, properties: {mood: {type: string}}, required: [mood], additionalProperties: false}"


def ask(folder: FlowFolder, prompt: str, node: str, state: str = "") -> None:
    """A flow with one agent."""
    folder.write("ask.md", prompt)
    folder.flow(
        f"  - {{id: ask, kind: agent, prompt: ./ask.md, {node}}}\n", **({"state": state} if state else {})
    )


def requests(folder: FlowFolder) -> list[dict[str, Any]]:
    """The requests of the last job: as they were made, then the repairs."""
    with sqlite3.connect(folder.root / ".headway" / "headway.db") as db:
        own = db.execute("SELECT body FROM requests ORDER BY uid").fetchall()
        more = db.execute("SELECT request FROM repairs WHERE request IS NOT NULL ORDER BY id").fetchall()
    return [json.loads(body) for (body,) in own + more]


def test_the_answer_of_an_agent_is_its_text(folder: FlowFolder) -> None:
    ask(folder, "say {{state.word}}", "reads: [word], writes: [said]")
    done = folder.headway("run", "flow.yaml", "--arg", "word=yes")
    assert done.code == 0, done.err
    assert folder.results()["state"]["said"] == "echo: say yes"
    assert "response_format" not in requests(folder)[0]


def test_several_fields_are_an_object_and_the_request_says_so(folder: FlowFolder) -> None:
    ask(folder, "#two", "writes: [title, body]")
    done = folder.headway("run", "flow.yaml")
    assert done.code == 0, done.err
    assert folder.results()["state"] == {"title": "T", "body": "B"}
    [request] = requests(folder)
    schema = request["response_format"]["json_schema"]["schema"]
    assert (schema["required"], schema["additionalProperties"]) == (["title", "body"], False)


def test_missing_keys_are_a_failed_attempt_that_is_repaired_once(folder: FlowFolder) -> None:
    ask(folder, "#half", "writes: [title, body], on_error: {policy: retry, attempts: 2, base_ms: 1}")
    done = folder.headway("run", "flow.yaml")
    assert done.code == 1
    assert "exactly the keys title, body; it is without body" in done.err
    assert folder.sent() == 2
    assert "without body" in requests(folder)[1]["messages"][-1]["content"]
    assert "title" not in folder.results()["state"]


def test_a_schema_is_in_the_request_and_a_wrong_answer_is_repaired(folder: FlowFolder) -> None:
    ask(folder, "#mood", f"writes: [feeling], schema: {MOOD}")
    done = folder.headway("run", "flow.yaml")
    assert done.code == 0, done.err
    assert folder.results()["state"]["feeling"] == {"mood": "good"}
    assert folder.sent() == 2
    assert requests(folder)[0]["response_format"]["json_schema"]["schema"]["required"] == ["mood"]
    shown = folder.headway("show", json.loads(folder.headway("jobs", "--json").out)[0]["job"], "ask").out
    assert "which did not fit" in shown


def test_an_object_with_exactly_the_key_of_the_field_is_unwrapped(folder: FlowFolder) -> None:
    ask(folder, "#wrapped", f"writes: [mood], schema: {MOOD}")
    assert folder.headway("run", "flow.yaml").code == 0
    assert folder.results()["state"] == {"mood": "good"}


def test_the_type_of_a_field_makes_the_answer_json(folder: FlowFolder) -> None:
    ask(folder, "#number", "writes: [score]", "  schema: {score: integer}\n")
    done = folder.headway("run", "flow.yaml")
    assert done.code == 0, done.err
    assert folder.results()["state"]["score"] == 7


def test_an_answer_of_another_type_is_never_a_success(folder: FlowFolder) -> None:
    ask(
        folder,
        "#wrong-number",
        "writes: [score], on_error: {policy: retry, attempts: 2, base_ms: 1}",
        "  schema: {score: integer}\n",
    )
    done = folder.headway("run", "flow.yaml")
    assert (done.code, folder.results()["status"], folder.results()["state"]) == (1, "failed", {})
    assert "the answer is not JSON" in done.err


@pytest.mark.parametrize(
    ("state", "value", "error"),
    [
        ("{out: integer}", "'x'", "'out' must be of type integer, not string"),
        ("{out: {type: integer, schema: {minimum: 3}}}", "2", "out: 2 is less than the minimum of 3"),
        (
            "{out: {type: array, merge: array_append, schema: {items: {type: string}}}}",
            "['a', 3]",
            "3 is not of type",
        ),
    ],
)
def test_the_answer_of_a_tool_must_fit_its_field(
    folder: FlowFolder, state: str, value: str, error: str
) -> None:
    folder.write("tools/give.py", f"def main(given): return {value}\n")
    folder.flow(
        "  - {id: t, kind: tool, impl: './tools/give.py:main', writes: [out], on_error: {policy: retry, attempts: 1}}\n",
        state=f"  schema: {state}\n",
    )
    done = folder.headway("run", "flow.yaml")
    assert (done.code, folder.results()["state"]) == (1, {})
    assert error in done.err


def test_a_tool_with_several_fields_gives_exactly_their_keys(folder: FlowFolder) -> None:
    folder.write("tools/give.py", "def main(given): return {'a': 1, 'c': 2}\n")
    folder.flow(
        "  - {id: t, kind: tool, impl: './tools/give.py:main', writes: [a, b], on_error: {policy: retry, attempts: 1}}\n"
    )
    done = folder.headway("run", "flow.yaml")
    assert done.code == 1
    assert "exactly the keys a, b; it is without b and with c" in done.err


def test_the_schema_of_a_tool_is_checked(folder: FlowFolder) -> None:
    folder.write("tools/give.py", "def main(given): return {'mood': 3}\n")
    folder.flow(
        f"  - {{id: t, kind: tool, impl: './tools/give.py:main', writes: [a], schema: {MOOD}, on_error: {{policy: retry, attempts: 1}}}}\n"
    )
    done = folder.headway("run", "flow.yaml")
    assert (done.code, "answer.mood: 3 is not of type" in done.err) == (1, True)


def test_a_schema_that_is_none_is_an_error_before_anything_starts(folder: FlowFolder) -> None:
    ask(folder, "x", "writes: [a], schema: {typo: object}")
    done = folder.headway("run", "flow.yaml")
    assert (done.code, folder.sent()) == (2, 0)
    assert "flow.yaml, line 3: ask.schema: there is no keyword 'typo'" in done.err


def test_a_prompt_without_a_value_fails_its_unit(folder: FlowFolder) -> None:
    ask(folder, "{{state.word.length}}", "reads: [word], writes: [said]")
    done = folder.headway("run", "flow.yaml", "--arg", "word=yes")
    assert (done.code, folder.sent()) == (1, 0)
    assert "'{{state.word.length}}' has no value" in folder.results()["nodes"]["ask"]["reason"]


def test_a_timeout_of_a_node_ends_its_attempt(folder: FlowFolder) -> None:
    folder.write("slow.py", "import time\ndef main(given):\n    time.sleep(60)\n")
    folder.flow(
        "  - {id: t, kind: tool, impl: './slow.py:main', writes: [a], timeout: 300ms, on_error: {policy: retry, attempts: 2, base_ms: 1}}\n"
    )
    done = folder.headway("run", "flow.yaml", "--timeout", "5m")
    assert (done.code, "no result within 0.3 s" in done.err) == (1, True)
