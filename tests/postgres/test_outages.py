"""A server that goes away in the middle of a run and comes back: nothing is lost, nothing is doubled. The server and the processes are
real.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from tests.crash.stage import Stage, wait_for
from tests.figures import count
from tests.postgres_server import PostgresServer, require_binaries

from headway.fake.process import FakeProcess, fake_process

UNITS = 240
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


def _has_come(stage: Stage, run: subprocess.Popen[str], due: int) -> bool:
    return run.poll() is not None or len(stage.committed()) >= due


def test_a_run_goes_on_through_restarts_and_a_long_outage_of_the_server(
    stage: Stage, server: PostgresServer
) -> None:
    """Outside of a run, a statement would wait for half a second only."""
    outages = (0.0, 0.0, 0.0, OUTAGE_S)
    with stage.process("run", "in.jsonl", "--progress", "plain", faults={"patience_s": 0.5}) as run:
        for number, seconds in enumerate(outages):
            due = (number + 1) * UNITS // (len(outages) + 2)
            wait_for("units end", partial(_has_come, stage, run, due))
            assert run.poll() is None, run.communicate()
            (server.kill if seconds else server.stop)()
            with suppress(subprocess.TimeoutExpired):
                run.wait(seconds)
            assert run.poll() is None, run.communicate()
            server.start()
        _, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert "nothing new starts until it is back" in err
    # Each outage ends: a run that is busy meanwhile does not go on with its journal.
    assert err.count("everything is recorded") == len(outages), err
    _nothing_lost_or_doubled(stage)


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
    _counters_agree(stage)


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
    _nothing_lost_or_doubled(stage)


def _times_sent(stage: Stage) -> Counter[int]:
    return Counter({index: stage.sent(index) for index in range(UNITS)})


def _nothing_lost_or_doubled(stage: Stage) -> None:
    assert len(stage.committed()) == UNITS
    assert [json.loads(json.dumps(row))["custom_id"] for row in stage.rows()] == [
        f"u{index}" for index in range(UNITS)
    ]
    twice = {index: n for index, n in _times_sent(stage).items() if n != 1}
    assert twice == {}
    _counters_agree(stage)
    count("postgres outages", units=UNITS)


def _counters_agree(stage: Stage) -> None:
    [(succeeded, attempts)] = stage.query("SELECT succeeded, attempts FROM jobs")
    [(recorded,)] = stage.query("SELECT count(*) FROM attempts WHERE outcome <> 'lost'")
    [(answers,)] = stage.query("SELECT count(*) FROM answers")
    assert succeeded == answers == UNITS
    assert attempts == recorded
