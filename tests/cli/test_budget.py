"""`headway budget`: of a running job at once, of another one for its next run, above the settings."""

from __future__ import annotations

import json

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import PATIENCE_S, Stage, wait_for

DEAR = "[providers.alpha.prices]\ninput = 1000\noutput = 1000"


def test_a_running_job_takes_its_cap_at_once(stage: Stage) -> None:
    stage.configure('rpm = 120\nburst = "100ms"', more=DEAR)  # Without a cap it would take 20 seconds.
    with stage.process("run", "in.jsonl", "--name", "j", "-q") as run:
        wait_for("an answer", lambda: "succeeded" in stage.statuses().values())
        done = stage.run("budget", "j", "0.001", "--json")
        fields = json.loads(done.stdout)
        assert (fields["job"], fields["max_cost_usd"], fields["running"], fields["taken"]) == (
            "j",
            0.001,
            True,
            True,
        )
        run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 3
    assert 0 < list(stage.statuses().values()).count("succeeded") < stage.units
    assert stage.query("SELECT text FROM events WHERE what = 'command'") == [("budget: $0.001",)]


def test_a_job_that_does_not_run_keeps_its_cap_for_every_later_run(stage: Stage, headway: Headway) -> None:
    stage.configure(more=DEAR)
    assert headway("run", "in.jsonl", "--name", "j", "-q", "--max-cost", "0.001").code == 3
    said = headway("budget", "j", "0.002")
    assert said.out == "job j: at most $0.002 from its next run on\n"
    for _ in range(2):
        again = headway("resume", "j")
        assert (again.code, "the job's own budget applies: at most $0.002" in again.err) == (3, True), (
            again.err
        )
    assert headway("budget", "j", "0").out.startswith("job j: no cap on its cost from its next run on")
    last = headway("resume", "j")
    assert (last.code, "no cap on its cost" in last.err) == (0, True), last.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("budget", "j", "much"), "'much' is not an amount of USD"),
        (("budget", "a", "b", "1"), "too many arguments"),
        (("budget", "nothing", "1"), "nothing"),
    ],
)
def test_what_cannot_be_a_cap_is_refused(
    stage: Stage, headway: Headway, arguments: tuple[str, ...], says: str
) -> None:
    assert headway("run", "in.jsonl", "--name", "j", "-q").code == 0
    done = headway(*arguments)
    assert done.code == 2
    assert says in done.err


def test_a_cap_needs_known_prices(stage: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "--name", "j", "-q").code == 0
    done = headway("budget", "j", "5")
    assert done.code == 2
    assert "the price of alpha/gpt-x is not known" in done.err
