"""A server that goes away in the middle of a run and comes back: nothing is lost, nothing is doubled. The server and the processes are
real. `make crash STORE=postgres` does it to two engines with 20,000 units.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest
from tests.crash.stage import Stage, wait_for
from tests.figures import count
from tests.postgres_server import PostgresServer, require_binaries

from headway.fake.process import FakeProcess, fake_process

UNITS = 240
#: Two engines at once, each with so many units, so many of them in flight.
ENGINES = ("one", "two")
SHARE, AT_ONCE = (10_000, 64) if "HEADWAY_CRASH_KILLS" in os.environ else (UNITS, 4)
#: Many times as long as a statement waits outside of a run.
OUTAGE_S = 4.0
#: Ctrl-C ends a run in about a second; a loaded machine takes longer. A statement outside of a run waits for ten.
STOP_S = 7.0
PLAN = "accounts:\n  default: {latency: {min: 60ms, max: 120ms}}\n  slow: {key: sk-slow-0123456789abcdef, latency: 1500ms}\n"


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeProcess]:
    plan = tmp_path_factory.mktemp("provider") / "plan.yaml"
    plan.write_text(PLAN, encoding="utf-8")
    with fake_process("--config", str(plan)) as fake:
        yield fake


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server of its own: it is stopped and killed."""
    server = PostgresServer(require_binaries())
    try:
        yield server
    finally:
        server.remove()


@pytest.fixture
def server(own_server: PostgresServer) -> PostgresServer:
    """It runs, also after a test that failed while it was away."""
    if not own_server.is_running:
        own_server.start()
    return own_server


@pytest.fixture
def stage(tmp_path: Path, provider: FakeProcess, server: PostgresServer) -> Stage:
    made = Stage(tmp_path, provider, f"away-{tmp_path.name}", units=UNITS, address=server.address())
    made.configure("max_concurrency = 8")
    made.write_input()
    return made


@pytest.mark.timeout(600)
def test_two_runs_go_on_through_restarts_and_a_long_outage_of_the_server(
    tmp_path: Path, provider: FakeProcess, server: PostgresServer
) -> None:
    """Outside of a run, a statement would wait for half a second only."""
    outages = (0.0, 0.0, 0.0, OUTAGE_S)
    stages = _engines(tmp_path, provider, server.address())
    sent_before = provider.stats()["total"]["admitted"]
    with ExitStack() as stack:
        runs = [
            stack.enter_context(
                stage.process(
                    "run",
                    "in.jsonl",
                    "--name",
                    name,
                    "--out",
                    "in.results.jsonl",
                    "--progress",
                    "plain",
                    faults={"patience_s": 0.5},
                )
            )
            for name, stage in zip(ENGINES, stages, strict=True)
        ]
        for number, seconds in enumerate(outages):
            due = (
                (number + 1) * SHARE // (3 * len(outages))
            )  # One run may be far ahead of the other, and must not end meanwhile.
            wait_for("units end", partial(_have_come, stages, runs, due), 240)
            assert [run.poll() for run in runs] == [None, None], runs[0].communicate()
            (server.kill if seconds else server.stop)()
            with suppress(subprocess.TimeoutExpired):
                runs[0].wait(seconds)
            assert [run.poll() for run in runs] == [None, None], runs[0].communicate()
            server.start()
        said = [run.communicate(timeout=240)[1] for run in runs]
    for stage, name, run, err in zip(stages, ENGINES, runs, said, strict=True):
        assert run.returncode == 0, err
        # Each outage ends: a run that is busy meanwhile does not go on with its journal. One that has nothing to record may not notice a restart.
        away = err.count("nothing new starts until it is back")
        assert 1 <= err.count("everything is recorded") == away <= len(outages), err
        _nothing_is_lost(stage, name)
    sent = provider.stats()["total"]["admitted"] - sent_before
    assert sent == len(ENGINES) * SHARE, "each unit has an answer, and none was sent twice"
    count("postgres outages", outages=len(outages), units=len(ENGINES) * SHARE)


def _engines(root: Path, provider: FakeProcess, address: str) -> list[Stage]:
    """A directory for each, as on two machines, and one store."""
    made = []
    for name in ENGINES:
        (root / name).mkdir()
        stage = Stage(root / name, provider, f"away-{root.name}-{name}", units=SHARE, address=address)
        stage.configure(f"max_concurrency = {len(ENGINES) * AT_ONCE}")
        stage.write_input()
        made.append(stage)
    return made


def _have_come(stages: list[Stage], runs: list[subprocess.Popen[str]], due: int) -> bool:
    """Whether each job has so many results and the outage before is over (the journals are gone), or a run has ended."""
    away = any(next(stage.root.glob(".headway/jobs/*/journal"), None) for stage in stages)
    done = stages[0].query("SELECT succeeded FROM jobs") if stages[0].has_records() else []
    return any(run.poll() is not None for run in runs) or (
        not away and len(done) == len(runs) and all(n >= due for (n,) in done)
    )


def test_results_of_a_run_that_ended_meanwhile_are_recorded_by_the_next(
    stage: Stage, server: PostgresServer
) -> None:
    stage.configure("max_concurrency = 8")
    with stage.process("run", "in.jsonl") as run:
        wait_for("units end", lambda: len(stage.committed()) >= 20)
        server.stop(signal.SIGINT)
        journal = wait_for("the journal", lambda: next(stage.root.glob(".headway/jobs/*/journal"), None))
        assert journal is not None
        assert journal.stat().st_mode & 0o777 == 0o600
        size = journal.stat().st_size
        wait_for("results in the journal", lambda: journal.stat().st_size > size)
        run.kill()
    sent = sum(_times_sent(stage).values())
    server.start()
    before = len(stage.committed())
    with stage.process("resume", "--progress", "plain") as resumed:
        _, err = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, err
    assert "while the database was away are recorded now" in err
    assert not journal.exists()
    assert before < UNITS
    assert len(stage.committed()) == UNITS
    rows = stage.rows()
    assert [row["custom_id"] for row in rows] == [f"u{index}" for index in range(UNITS)]
    # What was in flight when the process was killed may be sent again, and nothing else.
    assert sum(_times_sent(stage).values()) - UNITS <= 8, sent
    _counters_agree(stage, stage.job()["name"])


def test_ctrl_c_while_the_server_is_away_leaves_a_resumable_job(stage: Stage, server: PostgresServer) -> None:
    with stage.process("run", "in.jsonl", "--progress", "plain") as run:
        wait_for("units end", lambda: len(stage.committed()) >= 20)
        server.kill()
        wait_for("the journal", lambda: next(stage.root.glob(".headway/jobs/*/journal"), None))
        with suppress(subprocess.TimeoutExpired):
            run.wait(1.0)  # What was in flight has ended; what has started since waits for the server.
        run.send_signal(signal.SIGINT)
        stopped_at = time.monotonic()
        _, err = run.communicate(timeout=30)
    took_s = time.monotonic() - stopped_at
    assert took_s < STOP_S, took_s
    assert run.returncode == 1, err
    assert "wait in" in err
    assert "headway resume" in err
    server.start()
    with stage.process("resume") as resumed:
        _, err = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, err
    _nothing_is_lost(stage, stage.job()["name"])
    assert {index: n for index, n in _times_sent(stage).items() if n != 1} == {}


def _times_sent(stage: Stage) -> Counter[int]:
    return Counter({index: stage.sent(index) for index in range(stage.units)})


def _nothing_is_lost(stage: Stage, job: str) -> None:
    assert [row["custom_id"] for row in stage.rows()] == [f"u{index}" for index in range(stage.units)]
    assert {row["headway"]["status"] for row in stage.rows()} == {"succeeded"}
    _counters_agree(stage, job)


def _counters_agree(stage: Stage, job: str) -> None:
    [(number, succeeded, attempts)] = stage.query(
        "SELECT id, succeeded, attempts FROM jobs WHERE name = ?", job
    )
    of_job = "uid >> 32 = ?"
    [(recorded,)] = stage.query(f"SELECT count(*) FROM attempts WHERE outcome <> 'lost' AND {of_job}", number)
    [(answers,)] = stage.query(f"SELECT count(*) FROM answers WHERE {of_job}", number)
    assert succeeded == answers == stage.units
    assert attempts == recorded
