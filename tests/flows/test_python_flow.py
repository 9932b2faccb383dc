"""`headway.Flow`: the same graph from Python and from YAML."""

from __future__ import annotations

import subprocess
import sys
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


# -- running it ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def doubling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> headway.Flow:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "headway.toml").write_text("")
    tool = "def main(given):\n    open('calls', 'a').write('x')\n    return given['item'] * given['state']['by']\n"
    (tmp_path / "times.py").write_text(tool)
    flow = headway.Flow("doubling", folder=tmp_path)
    flow.field("by", "integer")
    flow.field("numbers", "array")
    flow.field("products", "array", merge="array_append")
    flow.add("times", "tool", impl="./times.py:main", for_each="$.numbers", reads="by", writes="products")
    return flow


def test_a_flow_runs_in_a_program(doubling: headway.Flow) -> None:
    result = doubling.run({"by": 2, "numbers": [1, 2, 3]}, progress=False)
    assert (result.status, result.state["products"]) == ("success", [2, 4, 6])
    assert (result.nodes["times"].units, result.nodes["times"].succeeded) == (3, 3)


def test_with_a_database_a_finished_flow_is_not_run_again(doubling: headway.Flow, tmp_path: Path) -> None:
    first = doubling.run({"by": 2, "numbers": [1, 2]}, db="flows.db", name="mine", progress=False)
    again = doubling.run({"by": 2, "numbers": [1, 2]}, db="flows.db", progress=False)
    assert (first, first.job) == (again, "mine")
    assert (tmp_path / "calls").read_text() == "xx"
    fresh = doubling.run(
        {"by": 2, "numbers": [1, 2]}, db="flows.db", fresh=True, concurrency=2, progress=False
    )
    assert (fresh.state, fresh.job != "mine") == (first.state, True)


def test_failures_are_in_the_results(doubling: headway.Flow) -> None:
    result = doubling.run({"by": 2, "numbers": [None]}, progress=False)
    assert (result.status, result.nodes["times"].failed) == ("failed", 1)
    assert "TypeError" in result.nodes["times"].reason


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ({}, "doubling needs a value of by, numbers"),
        ({"by": "2", "numbers": []}, "'by' must be of type integer"),
    ],
)
def test_a_state_that_does_not_fit_is_an_error(
    doubling: headway.Flow, state: dict[str, Any], error: str
) -> None:
    with pytest.raises(UsageError, match=error):
        doubling.run(state)


def test_an_unknown_argument_is_an_error(doubling: headway.Flow) -> None:
    with pytest.raises(TypeError, match="there is no argument 'database'"):
        doubling.run({}, database="x")  # type: ignore[call-arg]


def test_a_script_that_runs_its_own_functions_as_tools_needs_the_guard(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text("")
    script = tmp_path / "script.py"
    text = (
        "import headway\nflow = headway.Flow('own')\n"
        "@flow.node(writes='n')\ndef give(given): return 7\n"
        "GUARDprint(flow.run(progress=False))\n"
    )
    for guard, wanted in (
        ("if __name__ == '__main__': ", "state={'n': 7}"),
        ("", "put what starts work below"),
    ):
        script.write_text(text.replace("GUARD", guard))
        done = subprocess.run(
            [sys.executable, str(script)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert wanted in done.stdout + done.stderr


def test_the_exception_names_every_mistake(tmp_path: Path) -> None:
    flow = headway.Flow("x", folder=tmp_path)
    flow.agent("a", prompt="none.md")
    flow.agent("b", prompt="neither.md")
    with pytest.raises(InputError) as error:
        flow.spec()
    lines = str(error.value).splitlines()
    assert lines[0] == "flow 'x' has 2 errors:"
    assert "'none.md'" in lines[1]
    assert "'neither.md'" in lines[2]
