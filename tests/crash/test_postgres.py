"""SIGKILL over PostgreSQL: at commit points, at random moments, and in a flow. `make crash STORE=postgres` runs the other files over it, too."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from tests.crash import test_commit_points, test_evals, test_flows, test_random_kills
from tests.crash.conftest import Reference
from tests.crash.stage import Stage
from tests.crash.test_commit_points import WORKING, kill
from tests.crash.test_evals import uninterrupted  # noqa: F401 - a fixture
from tests.crash.test_flows import FlowStage, wanted  # noqa: F401 - a fixture
from tests.postgres_server import PostgresServer

from headway.fake.process import FakeProcess


@pytest.fixture
def server_stage(stage: Stage, postgres_server: PostgresServer) -> Stage:
    stage.address = postgres_server.address()
    return stage


def test_killed_around_statements_and_commits(server_stage: Stage, reference: Reference) -> None:
    """Before one and after the next, from the ingest to the end of the run."""
    server_stage.units = 120
    server_stage.write_input()
    points = [kill("seal_job", "before"), kill("BEGIN", "after", 6)]
    points += [kill(name, ("before", "after")[n % 2]) for n, name in enumerate(WORKING)]
    points += [kill("COMMIT", side, 9 + n) for n, side in enumerate(("before", "after", "before", "after"))]
    points += [kill("change_unit", "between"), kill("end_run", "before")]
    witness = test_commit_points.go_through(server_stage, points, reference(server_stage.units))
    assert witness.unknown_times


def test_killed_at_random_moments(server_stage: Stage, reference: Reference) -> None:
    server_stage.units = test_random_kills.UNITS
    server_stage.write_input()
    rng = random.Random(f"{test_random_kills.SEED}-postgres")
    test_random_kills.kill_until_done(rng, server_stage, 3, reference(server_stage.units), "input")


def test_a_killed_flow_ends_as_with_sqlite(
    tmp_path: Path,
    quick_fake: FakeProcess,
    postgres_server: PostgresServer,
    wanted: dict[str, Any],  # noqa: F811
) -> None:
    stage = FlowStage(tmp_path / "killed", quick_fake, "pg-flow", address=postgres_server.address()).prepare()
    points = [
        kill("set_value", "after"),
        kill("add_node_event", "before", 5),
        kill("change_unit", "after", 4),
        kill("COMMIT", "after", 12),
    ]
    test_flows.go_through(stage, points, wanted)


def test_an_eval_ends_as_with_sqlite(
    tmp_path: Path,
    quick_fake: FakeProcess,
    postgres_server: PostgresServer,
    uninterrupted: Any,  # noqa: F811
) -> None:
    stage = test_evals.staged(tmp_path / "eval", quick_fake, f"pg-eval-{os.getpid()}")
    stage.address = postgres_server.address()
    stage.ends_by_kill("eval", "-q", faults=kill("change_unit", "after", 2))
    done = stage.run("eval", "-q")
    assert done.returncode in (0, 5), done.stderr
    assert test_evals.results(stage) == uninterrupted
