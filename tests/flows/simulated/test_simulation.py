"""Flows in virtual time: Headway's makespan is the critical path; waves are slower and break no dependency."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as some

from headway.cli import main
from headway.errors import UsageError
from headway.flows.simulated import scenario as scenarios
from headway.flows.simulated.scenario import FlowScenario, FlowWork, SimLoop, SimNode, SimPipeline
from headway.flows.simulated.simulation import FlowPolicyResult, run_flow_once, simulate_flow

ROOT = Path(__file__).parents[3]
SLOW_BRANCH = ROOT / "scenarios" / "flows" / "slow-branch.yaml"


def test_the_makespan_is_the_critical_path_and_waves_take_longer() -> None:
    report = simulate_flow("slow", scenarios.load_flow_scenario(SLOW_BRANCH))
    headway, wave = report.policies["headway"], report.policies["wave"]
    assert 1.0 <= headway.ratio <= 1.03
    assert headway.path == ["fetch", "plan", "judge", "decide", "report"]
    assert wave.makespan_s > 2.0 * headway.makespan_s
    assert (headway.unfinished, wave.unfinished) == (0, 0)
    assert headway.rejected_per_1000 == 0.0


def run(work: FlowWork, policy: str = "headway") -> FlowPolicyResult:
    return run_flow_once(FlowScenario(work), policy, seed=1)


def test_waves_wait_for_their_slowest_node() -> None:
    nodes = {"slow": SimNode(seconds=10.0), "a": SimNode(seconds=1.0), "b": SimNode(("a",), seconds=9.0)}
    assert run(FlowWork(nodes)).makespan_s == pytest.approx(10.0)
    assert run(FlowWork(nodes), "wave").makespan_s == pytest.approx(19.0)


def test_a_wave_has_so_many_nodes_at_a_time() -> None:
    nodes = {f"n{n}": SimNode(seconds=1.0) for n in range(6)}
    for policy in ("headway", "wave"):
        assert run(FlowWork(nodes, concurrency=2), policy).makespan_s == pytest.approx(3.0)


def test_pipelines_and_loops_come_last_in_waves() -> None:
    work = FlowWork(
        {
            "slow": SimNode(seconds=30.0),
            "x": SimNode(seconds=2.0),
            "y": SimNode(seconds=1.0),
            "body": SimNode(seconds=3.0, items=2, at_once=1),
            "last": SimNode(("pipe", "loop"), seconds=1.0),
        },
        {"pipe": SimPipeline(("x", "y"), 4, 2)},
        {"loop": SimLoop(("body",), 3)},
    )
    # Side by side: the longest is the slow node. By waves: 30, then four items of 3, then three iterations of 6, then 1.
    assert run(work).makespan_s == pytest.approx(30.0)
    assert run(work, "wave").makespan_s == pytest.approx(30.0 + 12.0 + 18.0 + 1.0)


@given(some.data())
@settings(max_examples=60, deadline=None)
def test_any_graph_takes_its_critical_path(data: some.DataObject) -> None:
    nodes: dict[str, SimNode] = {}
    for n in range(data.draw(some.integers(1, 12))):
        before = data.draw(some.lists(some.sampled_from([*nodes] or [""]), max_size=3, unique=True))
        items = data.draw(some.none() | some.integers(0, 5))
        seconds = data.draw(some.integers(1, 50))
        nodes[f"n{n}"] = SimNode(tuple(filter(None, before)), items, seconds=seconds)
    headway, wave = run(FlowWork(nodes)), run(FlowWork(nodes), "wave")
    assert headway.makespan_s == pytest.approx(headway.critical_path_s)
    assert wave.makespan_s >= headway.makespan_s - 1e-6
    for name, node in nodes.items():
        for earlier in node.after:
            for one in (headway, wave):
                if name in one.nodes and earlier in one.nodes:
                    assert one.nodes[earlier].end_s <= one.nodes[name].start_s


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flow: {nodes: {a: {second: 3}}}", "flow.nodes[...]: Object contains unknown field `second`; did you mean 'seconds'?"),
        ("flow: {nodes: {a: {}}}", "flow.nodes.a: 'seconds' is missing"),
        ("flow: {nodes: {a: {lane: modle}}, lanes: {}}", "unknown field `lanes`"),
        ("flow: {nodes: {a: {lane: modle}}}\nlanes: {model: {provider: {}}}", "did you mean 'model'?"),
        ("flow: {nodes: {a: {after: [b], seconds: 1}, b: {after: [a], seconds: 1}}}", "wait for each other: a, b"),
        ("flow: {nodes: {a: {after: [c], seconds: 1}}}", "'a' is after 'c', and there is no such step"),
        ("flow: {nodes: {a: {seconds: 1}}, loops: {l: {body: [b], iterations: 2}}}", "there is no node 'b'"),
        ("flow: {nodes: {}}", "'flow.nodes' is empty"),
    ],
)  # fmt: skip
def test_an_error_names_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        scenarios.load_flow_scenario(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_prints_a_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(SLOW_BRANCH), "--seed", "1"]) == 0
    out = capsys.readouterr().out
    assert "wave" in out
    assert "fetch → plan → judge" in " ".join(out.split())
    assert main(["simulate", str(SLOW_BRANCH), "--json", "--policy", "headway"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert list(found["policies"]) == ["headway"]
    assert found["policies"]["headway"]["nodes"]["classify"]["units"] == 200
    for flags in (["--lane", "judge"], ["--order", "longest"], ["--plot", "x.svg"], ["--policy", "oracle"]):
        assert main(["simulate", str(SLOW_BRANCH), *flags]) == 2
        assert "for" in capsys.readouterr().err


def test_every_key_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "scenarios.md").read_text(encoding="utf-8")
    assert [key for key in scenarios.known_flow_keys() if f"`{key}`" not in page] == []


def test_the_example_in_the_reference_is_a_scenario(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "scenarios.md").read_text(encoding="utf-8")
    example = next(text for text in page.split("```yaml\n")[1:] if "flow:" in text).partition("```")[0]
    assert isinstance(yaml.safe_load(example), dict)
    path = tmp_path / "example.yaml"
    path.write_text(example)
    assert simulate_flow("example", scenarios.load_flow_scenario(path)).policies["headway"].ratio < 1.1
