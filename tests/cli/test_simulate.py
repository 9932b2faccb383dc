"""The `headway simulate` command."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli import main

ROOT = Path(__file__).parents[2]
DEMO = str(ROOT / "scenarios" / "demo.yaml")

SMALL = """
about: a small one
seeds: [1, 2]
lanes:
  one: {work: {units: 30}, provider: {rpm: 600, depth_s: 1, headers: openai}}
  two: {work: {units: 10}, provider: {max_concurrency: 2}, told: truth}
"""


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return str(path)


def test_a_table_for_people(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", small]) == 0
    out = capsys.readouterr().out
    for word in ("small (worst of 2 seeds)", "headway", "halving", "pool-32", "÷ bound", "a small one"):
        assert word in out


def test_json_for_programs(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", small, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["scenario"] == "small"
    assert set(result["policies"]) == {"headway", "oracle", "known-rate", "halving", "pool-128", "pool-32"}
    headway = result["policies"]["headway"]
    for figures in (headway, *headway["lanes"].values()):
        assert figures["ratio"] == pytest.approx(figures["makespan_s"] / figures["bound_s"])
        assert figures["ratio"] >= 1.0
        assert figures["rejected_per_1000"] >= 0.0
    assert set(headway["lanes"]) == {"one", "two"}


def test_flags_narrow_the_scenario(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--policy", "headway", "--lane", "two", "--seed", "5", "--order", "longest", "--json"]
    assert main(["simulate", small, *flags]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result["policies"]) == ["headway"]
    assert list(result["policies"]["headway"]["lanes"]) == ["two"]
    assert result["seeds"] == [5]


def test_a_plot_is_written_and_reported(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lanes.svg"
    assert main(["simulate", small, "--policy", "headway", "--plot", str(path)]) == 0
    assert path.stat().st_size > 1000
    assert f"wrote {path}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--policy", "magic"], "no policy 'magic' — policies: headway,"),
        (["--lane", "three"], "no lane 'three' — lanes: one, two"),
        (["--order", "random"], "'--order'"),
        (["--plot", "lanes.gif"], "lanes.gif: a plot must be .svg or .png"),
        (["--plot", "nowhere/lanes.svg"], "nowhere/lanes.svg: cannot be written"),
    ],
)
def test_a_mistake_is_one_line(
    small: str, flags: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", small, *flags]) == 2
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_missing_scenario_is_reported_with_a_place_to_look(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "nowhere.yaml"]) == 2
    assert (
        capsys.readouterr().err == "headway: nowhere.yaml: no such file — a checkout has some in scenarios/\n"
    )


def test_the_demo_runs_as_a_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headway", "simulate", DEMO, "--policy", "headway"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert "moody" in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_line(small: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    command = [sys.executable, "-m", "headway", "simulate", small, "--policy", "headway", "--json"]
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "cannot be written" in done.stderr


def test_characters_that_a_terminal_lacks_are_replaced(small: str) -> None:
    command = [sys.executable, "-m", "headway", "simulate", small, "--policy", "headway"]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=env, capture_output=True, timeout=60, check=True)
    assert b"? bound" in done.stdout


def test_a_narrow_terminal_keeps_the_names_whole() -> None:
    from rich.console import Console

    from headway.sim.result_table import result_table
    from headway.sim.runner import simulate
    from headway.sim.scenario import load

    report = simulate("demo", load(Path(DEMO)), ("headway", "pool-128"))
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(result_table(report, console.width))
    text = console.export_text()
    assert "pool-128" in text
    assert "…" not in text
