"""The failure of seed 002 through Python: 15 units, the limit strikes at unit 5, workers exit hard, the message is only in a
log. All 15 finish, only what was refused runs again, and the records tell why. `headway run`: tests/cli/test_run_python.py.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.api.seed_agent import LOGS, SAID, UNITS, AgentWorker, run_agent, work

import headway

WORKERS = 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", str(root))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def items(folder: Path) -> list[tuple[str, int]]:
    return [(str(folder), unit) for unit in range(UNITS)]


def check_runs(folder: Path) -> set[int]:
    """Only what was refused ran again; returns that."""
    refused = {int(path.parts[-3]) for path in folder.glob(LOGS)}
    assert refused
    assert len(refused) <= WORKERS, "no more than were in flight met the limit"
    begun = Counter(int(unit) for unit in (folder / "log").read_text().split())
    assert begun == Counter(range(UNITS)) + Counter(refused)
    return refused


def check_records(db: Path, refused: set[int], source: str | None = None) -> None:
    """Each refusal is on record with its source, and the hold that it led to."""
    with closing(sqlite3.connect(db)) as connection:
        asked = connection.execute("SELECT outcome, kind, rate_limit FROM attempts ORDER BY id").fetchall()
        held = connection.execute("SELECT count(*) FROM events WHERE what = 'held'").fetchone()
    throttled = [
        json.loads(limit) for outcome, kind, limit in asked if (outcome, kind) == ("throttled", "hold")
    ]
    assert len(throttled) == len(refused)
    assert len(asked) == UNITS + len(refused)
    for limit in throttled:
        assert limit["source"].endswith("agent/result.json" if source is None else source)
        assert (limit["retry_after_s"], limit["message"]) == (1.0, SAID)
    assert held[0] >= 1


def test_map_in_processes(folder: Path) -> None:
    values = headway.map(
        work,
        items(folder),
        isolation="process",
        workers=WORKERS,
        failure_logs=LOGS,
        db=folder / "h.db",
        key=lambda item: str(item[1]),
    )
    assert values == list(range(UNITS))
    check_records(folder / "h.db", check_runs(folder))


def test_run_pool(folder: Path) -> None:
    values: list[int] = []

    def handler(item: tuple[str, int]) -> None:
        values.append(run_agent(item))

    result = headway.run_pool(items(folder), WORKERS, handler, failure_logs=LOGS)
    assert result == headway.PoolResult(completed=UNITS)
    assert sorted(values) == list(range(UNITS))
    check_runs(folder)


@pytest.mark.parametrize("place", ["failure_logs", "output_files"])
def test_worker_pool(folder: Path, place: str) -> None:
    ends: list[Any] = []
    logs: dict[str, Any] = {"failure_logs": LOGS} if place == "failure_logs" else {}
    worker = AgentWorker(lists_log=place == "output_files")
    with headway.WorkerPool(
        worker,
        "story",
        folder / "h.db",
        WORKERS,
        on_unit_complete=lambda _, result: ends.append(result.output),
        on_unit_failed=lambda _, result: ends.append(result.error),
        **logs,
    ) as pool:
        for item in items(folder):
            assert pool.wait_for_available_slot(60)
            assert pool.submit_work_unit(headway.WorkUnit(f"t{item[1]}", item), "do it")
        assert pool.wait_for_completion(60)
    assert sorted(ends) == list(range(UNITS))
    check_records(folder / "h.db", check_runs(folder))


def test_without_failure_logs_units_that_met_the_limit_fail(folder: Path) -> None:
    """What the option is for: only the logs show the limit."""
    result = headway.run_pool(items(folder), WORKERS, run_agent)
    assert result.errored > 0
