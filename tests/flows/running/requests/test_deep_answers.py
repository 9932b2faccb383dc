"""Answers that are nested deeply: a failed attempt, also where they were recorded before that was so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.flows.conftest import FlowFile
from tests.flows.running.test_flow_growth import TOOL, Played

from headway.errors import UsageError
from headway.flows.flow_file import load_flow
from headway.flows.json_depth import MOST_LEVELS, TOO_DEEP, is_too_deep
from headway.flows.running.flow_form import FlowForm
from headway.flows.running.recorded_run import rebuilt_run
from headway.flows.running.requests.answer_check import check_value, route_check
from headway.flows.value_of_answer import answer_value
from headway.providers.adapter import Answer, Complaint, Request
from headway.stores.records import StoredRoute, UnitChange
from headway.stores.write_batch import WriteBatch

NODES = (
    "graph:\n  nodes:\n    - {id: say, kind: agent, prompt: ./prompts/plain.md, writes: [said]%s}\n"
    "    - {id: work, kind: tool, impl: './tools/step.py:main', writes: [done]}\n"
)


def nested(levels: int) -> bytes:
    return b'[{"a":' * (levels // 2) + b"[]" * (levels % 2) + b"1" * (1 - levels % 2) + b"}]" * (levels // 2)


@pytest.mark.parametrize("levels", [0, 1, 2, 199, MOST_LEVELS])
def test_so_many_levels_are_fine(levels: int) -> None:
    assert not is_too_deep(nested(levels))


@pytest.mark.parametrize("levels", [MOST_LEVELS + 1, 985, 100_000])
def test_more_levels_are_too_deep(levels: int) -> None:
    assert is_too_deep(nested(levels))
    assert is_too_deep(b"[1," * 3 + nested(levels) + b',"]\\"]"]]]')


def test_brackets_in_texts_and_wide_values_have_no_levels() -> None:
    assert not is_too_deep(json.dumps(["[" * 500, '"{' * 500, "\\", [[]] * 500, {"[": 1}]).encode())


def complaint(flow_file: FlowFile, route: StoredRoute, body: bytes, more: str = "") -> Complaint | None:
    spec = load_flow(flow_file(NODES % more))
    return route_check(FlowForm(spec=spec), [route])(1, Request("/x", b"{}"), Answer(body=body)).complaint


@pytest.mark.parametrize("levels", [MOST_LEVELS + 1, 985, 100_000])
def test_a_deep_answer_is_a_failed_attempt(flow_file: FlowFile, levels: int) -> None:
    tool = StoredRoute("p", "python", "m", 1, label="work")
    assert complaint(flow_file, tool, nested(levels)) == Complaint(TOO_DEEP)
    assert complaint(flow_file, tool, nested(MOST_LEVELS)) is None
    agent, schema = StoredRoute("p", "openai", "m", 1, label="say"), ", schema: {}"
    chat = json.dumps({"choices": [{"message": {"content": nested(levels).decode()}}]}).encode()
    assert complaint(flow_file, agent, chat, schema) == Complaint(TOO_DEEP)
    assert complaint(flow_file, agent, chat) is None  # Of a text nothing is nested.


def test_what_a_user_gives_is_bounded_too(flow_file: FlowFile) -> None:
    spec = load_flow(flow_file(NODES % ""))
    with pytest.raises(UsageError, match=TOO_DEEP):
        check_value(spec, spec.nodes["work"], json.loads(nested(300)), "--answer")


def test_a_deep_recorded_answer_has_no_value(flow_file: FlowFile) -> None:
    node = load_flow(flow_file(NODES % "")).nodes["work"]
    for levels in (MOST_LEVELS + 1, 985, 100_000):
        with pytest.raises(ValueError, match=TOO_DEEP):
            answer_value(node, nested(levels))


def ends_with(played: Played, unit: str, body: bytes) -> list[str]:
    """The unit succeeds with an answer that no check has seen."""
    batch = WriteBatch(played.number, played.worker, grow=played.growth)
    index = played.index(unit)
    batch.change(index, UnitChange("succeeded", tries=1, finished_utc=1.0))
    batch.answers.append((index, None, None, body))
    played.store.commit(batch)
    return [new.custom_id for _, new in batch.grown]


@pytest.mark.parametrize("levels", [300, 985, 100_000])
@pytest.mark.parametrize("writes", ["[one]", "[one, two]"])
def test_a_deep_answer_of_before_fails_its_unit_and_not_the_run(
    tmp_path: Path, levels: int, writes: str
) -> None:
    flow = (
        f"graph:\n  nodes:\n    - {{id: a, {TOOL}, writes: {writes}}}\n"
        f"    - {{id: b, {TOOL}, reads: [one], writes: [three]}}\n"
        "  edges:\n    - {from: a, to: b}\n"
    )
    played = Played(tmp_path, flow, {}, {})
    assert "a" in played.units()
    assert ends_with(played, "a", nested(levels)) == []

    def status() -> Any:
        report = rebuilt_run(played.store, played.job).nodes()["a"]
        return report.status, TOO_DEEP in report.reason

    assert status() == ("failed", True)
    played.restart()
    assert status() == ("failed", True)
