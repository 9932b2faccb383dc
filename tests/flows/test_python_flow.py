"""`headway.Flow`: the same graph from Python and from YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import headway
from headway.errors import InputError, UsageError
from headway.flows.flow_file import load_flow
from headway.flows.spec import FlowSpec


def fetch(call: dict[str, Any]) -> list[str]:
    return ["a", "b"]


def count(call: dict[str, Any]) -> int:
    return len(call["state"]["labels"])


@pytest.fixture
def flow(tmp_path: Path) -> headway.Flow:
    (tmp_path / "triage.md").write_text("Label {{item}}")
    flow = headway.Flow("triage", concurrency=4, folder=tmp_path)
    flow.node(writes="issues")(fetch)
    flow.agent(
        "triage",
        prompt="./triage.md",
        for_each={"source": "$.issues", "concurrency": "auto", "max_failures": "10%"},
        reads=["issues"],
        writes="labels",
        on_error={"policy": "retry", "attempts": 3},
    )
    flow.node(reads="labels", writes="total", when="length($.labels) > 0")(count)
    flow.edge("fetch", "count")
    return flow


def without_lines(spec: FlowSpec) -> FlowSpec:
    return replace(
        spec,
        nodes={name: replace(node, line=0) for name, node in spec.nodes.items()},
        fields={name: replace(field, line=0) for name, field in spec.fields.items()},
        edges=tuple(replace(edge, line=0) for edge in spec.edges),
    )


def test_python_and_yaml_make_the_same_graph(flow: headway.Flow, tmp_path: Path) -> None:
    path = tmp_path / "triage.yaml"
    path.write_text(flow.to_yaml())
    assert without_lines(load_flow(path)) == without_lines(flow.spec())
    assert flow.spec().step_order == ("fetch", "triage", "count")


def test_a_decorated_function_stays_a_function(flow: headway.Flow) -> None:
    assert flow.node(id="again")(fetch) is fetch
    node = flow.spec().nodes["again"]
    assert (node.impl, node.function) == (Path(__file__).resolve(), "fetch")


def test_pipelines_loops_and_fields(flow: headway.Flow) -> None:
    flow.node(id="one", reads="total", writes="page")(fetch)
    flow.node(id="two", writes="done")(fetch)
    flow.field("done", "boolean", default=False)
    for name in ("issues", "labels", "total", "page"):
        flow.field(name)
    flow.pipeline([1, 2], "one")
    flow.loop("two", until="$.done", max_iters=3)
    spec = flow.spec()
    assert spec.pipelines["pipeline_1"].items == (1, 2)
    assert spec.loops["loop_1"].max_iters == 3


def test_every_error_at_once(flow: headway.Flow) -> None:
    flow.add("x", "tol")
    flow.edge("fetch", "nowhere")
    with pytest.raises(InputError) as caught:
        flow.to_yaml()
    assert len(caught.value.problems) == 2


def test_a_function_that_cannot_be_imported(flow: headway.Flow) -> None:
    def inner(call: Any) -> None: ...

    with pytest.raises(UsageError, match="inside a function"):
        flow.node()(inner)
