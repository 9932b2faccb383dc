"""No limit is configured or reported: the run finds the rate of its account."""

from __future__ import annotations

import json

from tests.crash.stage import Stage, contents, echoes

from headway.fake.process import fake_process


def test_a_run_finds_its_pace(stage: Stage) -> None:
    """An account of 50 requests per second with a bucket of one second, and only 429s to learn from."""
    stage.units = 250
    stage.write_input()
    with fake_process("--rpm", "3000", "--burst", "1s", "--headers", "none", "--latency", "20ms") as fake:
        stage.fake = fake
        stage.configure("")
        done = stage.run("run", "in.jsonl", "--json")
        assert done.returncode == 0, done.stderr
        total = fake.stats()["total"]
    assert contents(stage.rows()) == echoes(250)
    assert (total["admitted"], total["repeats"]) == (250, 0)
    facts = json.loads(done.stdout)
    assert facts["refused"] == sum(total["refused"].values())
    assert facts["refused"] < 125, "fewer than one in three, on so short a run; it does not hammer"
    took_s = total["last_admission_s"] - total["first_admission_s"]
    assert 3.9 < took_s < 12.0, "the bound is (250 - 50) ÷ 50 = 4 s"
    lanes = json.loads(stage.run("lanes", "--json").stdout)
    learned = lanes[0]["learned"]
    assert learned["found"] or learned["meters"], "what was found is kept for the next run"


def test_limits_in_headers_are_kept(stage: Stage) -> None:
    stage.units = 150
    stage.write_input()
    with fake_process("--rpm", "3000", "--burst", "1s", "--latency", "20ms") as fake:
        stage.fake = fake
        stage.configure("")
        done = stage.run("run", "in.jsonl", "-q")
        assert done.returncode == 0, done.stderr
        total = fake.stats()["total"]
    assert contents(stage.rows()) == echoes(150)
    assert sum(total["refused"].values()) <= 15
    assert total["last_admission_s"] - total["first_admission_s"] < 8.0, "the bound is 2 s"
