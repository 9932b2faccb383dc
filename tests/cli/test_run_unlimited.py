"""A lane that is known to have no limits, in a process that may open few files."""

from __future__ import annotations

import resource

import pytest
from tests.crash.stage import Stage, contents, echoes

from headway.fake.process import fake_process


def few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


@pytest.mark.parametrize("limits", ["rpm = 0\ntpm = 0", 'rpm = 1_000_000\nburst = "60s"'])
def test_no_more_is_in_flight_than_the_process_may_open(stage: Stage, limits: str) -> None:
    """Sixty-four files, of which the store, the output and the loop need some twenty-five."""
    stage.units = 400
    stage.write_input()
    with fake_process("--latency", "50ms", "--headers", "none") as fake:
        stage.fake = fake
        stage.configure(limits)
        done = stage.run("run", "in.jsonl", preexec=few_files)
        assert done.returncode == 0, done.stderr
        total = fake.stats()["total"]
    assert contents(stage.rows()) == echoes(400)
    assert (total["admitted"], total["repeats"]) == (400, 0)
    assert 16 < total["peak_in_flight"] < 50
    assert "open files" not in done.stdout + done.stderr
