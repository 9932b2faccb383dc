"""What `make crash`, `make soak` and `make fuzz` record: the tests' own counts, added up, and every failure."""

from __future__ import annotations

from pathlib import Path

from bench import suites
from bench.suites import SuiteRun
from tools import fuzz_hints

SUITE = """
from tests.figures import count

def test_one():
    count("random kills", kills=3, jobs=1, units=150)

def test_two():
    count("random kills", kills=2, jobs=1, units=150)
    count("chosen kills", kills=1)
"""


def test_the_counts_of_all_tests_are_added_up(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    run = suites.run_pytest(["-q", "-n", "2", "-p", "no:cacheprovider", str(tmp_path)])
    assert (run.tests, run.failed, run.skipped) == (2, [], 0)
    assert run.figures["random kills"] == {"kills": 5, "jobs": 2, "units": 300}
    assert suites.misses("crash", run) == []
    text = "\n".join(suites.crash_lines(run))
    assert "| SIGKILL at a random moment, in 2 jobs | 5 | 300 |" in text
    assert "| SIGKILL at a chosen statement | 1 | |" in text
    assert "2 tests in " in text


def test_the_crash_suite_has_the_real_agents_and_the_worktrees() -> None:
    folders, lines = suites.SUITES["crash"]
    assert set(folders) == {"tests/crash", "tests/agents_real"}
    makefile = (suites.ROOT / "Makefile").read_text()
    recipe = makefile.partition("\ncrash:")[2].splitlines()[1]
    assert "HEADWAY_CRASH_KILLS=" in recipe, "the variable that makes the tests large"
    figures = {
        "worktrees": {"kills": 12.0, "units": 50.0},
        "real agents": {"agents": 20.0, "units": 20.0, "refused": 19.0},
    }
    text = "\n".join(lines(SuiteRun(1, [], 0, 1.0, figures)))
    assert "SIGKILL of an agent or of the engine | 12 | 50 |" in text
    assert "real Claude Code, 20 at once: refused by one used-up window | 19 | 20 |" in text


def test_a_failed_test_is_missed(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE + "    assert False\n")
    run = suites.run_pytest(["-q", "-n", "0", "-p", "no:cacheprovider", str(tmp_path)])
    assert suites.misses("crash", run) == ["make crash: test_two failed"]


def test_a_suite_that_counted_nothing_is_missed() -> None:
    assert suites.misses("soak", SuiteRun(1, [], 0, 1.0, {})) == ["make soak: no figures were counted"]


def test_the_section_of_a_soak() -> None:
    figures: dict[str, float] = {
        "units": 100,
        "processes": 3,
        "deaths": 2,
        "kills": 4,
        "agent_runs": 9,
        "agent_strikes": 1,
        "wrong": 0,
        "early_memory_mb": 50,
        "late_memory_mb": 51,
    }
    text = "\n".join(suites.soak_lines(SuiteRun(1, [], 0, 9.0, {"soak": figures})))
    assert (
        "100 units: 0 lost, wrong or double; 3 processes stopped or killed; 2 deaths of workers; 4 workers and agents"
        in text
    )
    assert "Agents: 9 runs, 1 limits, 0 runs refused" in text
    assert "| MB | 50 | 51 |" in text


def test_a_small_fuzz() -> None:
    run = fuzz_hints.run(300, seed=5, jobs=1)
    assert (run.inputs, run.failure) == (300, "")
    text = "\n".join(suites.fuzz_lines(run, 5))
    assert "300 inputs from seed 5: no exception, and every fact is plausible." in text
