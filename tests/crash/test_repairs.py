"""SIGKILL between an answer that does not fit the schema and its repair: the conversation continues where it was."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.crash.sampling import SIDES, some
from tests.crash.stage import Stage, Witness, wait_for

from headway.fake.process import FakeProcess, fake_process

SLOW_KEY = "sk-slow-account"
PLAN = """
accounts:
  default: {latency: {min: 15ms, max: 40ms}}
  slow: {key: sk-slow-account, latency: 2s}
answers:
  - {contains: "#repaired", turns: [{n: -1}, {n: 1}]}
  - {turns: [{n: 0}]}
"""
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "required": ["n"]}
RUN = ("run", "in.jsonl", "--schema", "s.json", "--progress", "json")
_numbers = itertools.count()


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeProcess]:
    plan = tmp_path_factory.mktemp("scripted") / "plan.yaml"
    plan.write_text(PLAN)
    with fake_process("--config", str(plan)) as fake:
        yield fake


@pytest.fixture
def stage(tmp_path: Path, scripted: FakeProcess) -> Stage:
    """A job whose answers have a schema."""
    made = Stage(tmp_path, scripted, f"repairs-{tmp_path.name}-{next(_numbers)}")
    made.configure()
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA))
    return made


def judge(stage: Stage, witness: Witness) -> None:
    """Every unit has its answer; each turn was sent once, plus at most once for each time that its outcome was unknown."""
    answers = [
        json.loads(row["response"]["body"]["choices"][0]["message"]["content"]) for row in stage.rows()
    ]
    assert answers == [{"n": index % 2} for index in range(stage.units)]
    assert stage.query("SELECT count(*) FROM answers") == [(stage.units,)]
    for index in range(stage.units):
        needed = 1 + index % 2
        unknown = witness.unknown_times.get(index, 0)
        assert needed <= stage.sent(index) <= needed + unknown, f"unit {index}"
    unfit = "SELECT \"index\", count(*) FROM attempts WHERE kind = 'invalid' GROUP BY 1"
    assert stage.query(unfit) == [(index, 1) for index in range(1, stage.units, 2)]
    assert stage.query('SELECT "index" FROM repairs ORDER BY uid') == [
        (index,) for index in range(1, stage.units, 2)
    ]


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_every_statement_of_a_repair(stage: Stage, when: str) -> None:
    """Every second unit gives a good answer only after a correction."""
    stage.units = 160  # Enough for all the commits, also where a slow disk puts many answers into one.
    stage.write_input(
        [stage.row(index, prompt=f"{'#repaired ' * (index % 2)}{index}") for index in range(stage.units)]
    )
    witness = Witness(stage)
    points: list[dict[str, Any]] = [
        {"at": at, "row": row} for at in ("close_repairs", "add_repair") for row in (1, 10)
    ]
    points += [{"at": "COMMIT", "n": n} for n in (9, 11, 13)]
    for point in some(points, SIDES.index(when)):
        stage.ends_by_kill(*RUN, faults={"kill": {**point, "when": when}})
        witness.note_crash()
    done = stage.run(*RUN)
    assert done.returncode == 0, done.stderr
    judge(stage, witness)
    assert witness.unknown_times


def test_killed_between_the_two_turns(stage: Stage) -> None:
    """The first answer is recorded and the second turn is in flight: the next run sends the second turn, not the first."""
    stage.units = 1
    stage.write_input([stage.row(0, prompt="#repaired")])
    stage.env = {"ALPHA_KEY": SLOW_KEY}

    def second_turn_is_out() -> bool:
        """The second turn is recorded and has reached the provider, which happens a little later."""
        return (
            stage.statuses() == {0: "running"}
            and stage.query("SELECT count(*) FROM repairs") == [(1,)]
            and stage.sent(0) == 2
        )

    with stage.process(*RUN) as process:
        wait_for("the second turn", second_turn_is_out)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    assert stage.sent(0) == 2
    stage.env = {}
    done = stage.run("resume", "--progress", "json")
    assert done.returncode == 0, done.stderr
    attempts = stage.query("SELECT number, outcome, kind FROM attempts ORDER BY number")
    assert attempts == [(1, "failed", "invalid"), (2, "lost", "crash"), (3, "succeeded", None)]
    [row] = stage.rows()
    assert json.loads(row["response"]["body"]["choices"][0]["message"]["content"]) == {"n": 1}


def test_interrupted_before_the_second_turn(stage: Stage) -> None:
    """The first Ctrl-C lets the first turn finish; its repair waits for the next run."""
    stage.units = 1
    stage.write_input([stage.row(0, prompt="#repaired")])
    stage.env = {"ALPHA_KEY": SLOW_KEY}
    with stage.process(*RUN) as process:
        wait_for("the first turn", lambda: stage.sent(0) == 1)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
    assert stage.statuses() == {0: "pending"}
    assert stage.query("SELECT open FROM repairs") == [(1,)]
    stage.env = {}
    assert stage.run("resume", "-q").returncode == 0
    assert stage.sent(0) == 2
