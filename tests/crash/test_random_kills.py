"""SIGKILL at random moments, again and again, until the job is done; then the next job.

`make crash` kills 200 times, a test run eight times (HEADWAY_CRASH_KILLS sets the number, HEADWAY_CRASH_SEED the moments).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.crash.conftest import Reference
from tests.crash.stage import PATIENCE_S, Stage, Witness
from tests.figures import count

from headway.fake.process import FakeProcess

KILLS = int(os.environ.get("HEADWAY_CRASH_KILLS", "8"))
SEED = int(os.environ.get("HEADWAY_CRASH_SEED", "20"))
SHARES = 4
UNITS = 150


def moment(rng: random.Random, stage: Stage, process: subprocess.Popen[str]) -> None:
    """Wait until a random moment: some time after the start, or after some further answers."""
    if rng.random() < 0.4:
        at = time.monotonic() + rng.uniform(0.05, 0.9)
        while process.poll() is None and time.monotonic() < at:
            time.sleep(0.002)
        return
    more = len(stage.committed()) + rng.randint(1, UNITS // 4)
    give_up_at = time.monotonic() + PATIENCE_S
    while process.poll() is None and len(stage.committed()) < more:
        assert time.monotonic() < give_up_at, "the job does not get on"
        time.sleep(rng.uniform(0.001, 0.02))


def kill_until_done(
    rng: random.Random, stage: Stage, kills: int, reference: list[dict[str, Any]], order: str
) -> int:
    """Kill the processes of one job until it is done, at most `most` times; returns the number of kills."""
    witness = Witness(stage)
    unknown: set[int] = set()
    command = ("run", "in.jsonl", "--progress", "json", "--out-order", order)
    while True:
        with stage.process(*command) as process:
            if witness.crashes < kills:
                moment(rng, stage, process)
                process.kill()
            _, err = process.communicate(timeout=PATIENCE_S)
        witness.check_named(err, unknown)
        if process.returncode != -signal.SIGKILL:
            break
        unknown = witness.note_crash()
    assert process.returncode == 0, err
    if order == "completion":
        lines = stage.out.read_text(encoding="utf-8").splitlines(keepends=True)
        place = f'"id":"{stage.job()["name"]}-'
        lines.sort(key=lambda line: int(line.partition(place)[2].partition('"')[0]))
        stage.out.write_text("".join(lines), encoding="utf-8")
    witness.check_result(reference)
    return witness.crashes


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.timeout(60 + 10 * KILLS)
def test_nothing_is_lost(share: int, tmp_path: Path, quick_fake: FakeProcess, reference: Reference) -> None:
    rng = random.Random(f"{SEED}-{share}")
    kills = (KILLS + share) // SHARES
    made = jobs = 0
    while made < kills:
        root = tmp_path / str(jobs)
        root.mkdir()
        stage = Stage(root, quick_fake, f"random-{os.getpid()}-{tmp_path.name}-{jobs}", UNITS)
        stage.configure(f"max_concurrency = {rng.choice((2, 4, 8))}")
        stage.write_input()
        order = rng.choice(("input", "input", "completion"))
        made += kill_until_done(rng, stage, kills - made, reference(UNITS), order)
        jobs += 1
    count("random kills", kills=made, jobs=jobs, units=jobs * UNITS)
    print(f"{made} kills, {jobs} jobs")  # noqa: T201 - `make crash` shows it.
