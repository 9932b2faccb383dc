"""Reports are typed, and can read the records of older versions."""

from __future__ import annotations

import sqlite3
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.contract.records import begun, the_job

from headway.core.lanes.meters.limit_usage import LimitUsage
from headway.core.model import Kind
from headway.core.reasons import (
    AccountRefused,
    DeadlinePassed,
    EndReason,
    LaneBudgetSpent,
    RunBudgetSpent,
    RunInterrupted,
    SameComplaint,
    StopRequested,
    Wait,
    WaitCode,
)
from headway.core.snapshot import LaneView, Reserve, Snapshot
from headway.engine.observer import View
from headway.jobs import unit_report
from headway.reports import finished_runs, holds, jobs, lanes, prediction, run_progress, status, usage
from headway.reports.lanes import lane_reports
from headway.reports.run_progress import LaneProgress, Progress, ProgressTotals, WaitReason, read_progress
from headway.reports.status import status_report, stops_left, stops_now
from headway.stores.job_lock import JobPlaces
from headway.stores.records import Job
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

REPORTS = (holds, jobs, lanes, prediction, run_progress, finished_runs, status, unit_report, usage)
LANE = "alpha/m"
SPENT = LaneBudgetSpent("alpha", 5.0, 4.5, 0.75)


def ended_job(path: Path, reason: EndReason) -> tuple[Store, Job]:
    """A job of two units that a run left unfinished for a reason."""
    store = Store(SqliteFile(path))
    job, worker, _ = begun(store, 2, "job")
    [route] = store.routes(job)
    store.end_run(job, worker, "stopped", 300.0, {str(route.id): reason})
    return store, the_job(store, "job")


def lane_progress(
    wait: str | None, reason: WaitReason | None, until_utc: float | None = None
) -> LaneProgress:
    return LaneProgress(0, 0, 2, 0, 0, 0, 0.0, None, "", 0.0, 0.0, wait, until_utc, reason)


def progress_with(lanes: dict[str, LaneProgress]) -> Progress:
    totals = ProgressTotals(2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, None, 1.0, None, False)
    return Progress("job", 200.0, 201.0, totals, lanes)


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (AccountRefused(Kind.AUTH, "no"), True),
        (SPENT, True),
        (RunBudgetSpent(), False),
        (DeadlinePassed(), False),
        (RunInterrupted(), False),
        (SameComplaint(5, "x"), False),
    ],
)
def test_lanes_that_only_the_end_of_a_run_left_are_not_stopped(
    tmp_path: Path, reason: EndReason, shown: bool
) -> None:
    store, job = ended_job(tmp_path / "db", reason)
    with store:
        assert stops_left(store, job) == ({LANE: reason} if shown else {})
        assert status_report(store, job, JobPlaces(tmp_path)).stops == stops_left(store, job)


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        ('["auth", "Invalid URL (POST /x)"]', AccountRefused(Kind.AUTH, "Invalid URL (POST /x)", True)),
        (
            '["budget", "alpha may cost $5 and has cost $4.5000; the next request may cost up to $0.7500"]',
            SPENT,
        ),
        ('["budget", "the budget is used up; go on with a higher one"]', RunBudgetSpent()),
        (
            '["interrupted", "5 units in a row failed with: x"]',
            StopRequested("5 units in a row failed with: x"),
        ),
    ],
)
def test_unfinished_jobs_of_older_versions_are_read(tmp_path: Path, stored: str, reason: EndReason) -> None:
    store, _ = ended_job(tmp_path / "db", RunInterrupted())
    store.close()
    db = sqlite3.connect(tmp_path / "db")
    with db:
        db.execute("UPDATE jobs SET unfinished = ?", (f'{{"1":{stored}}}',))
    db.close()
    with Store(SqliteFile(tmp_path / "db", read_only=True)) as read:
        assert the_job(read, "job").unfinished == {"1": reason}


def test_stopped_lanes_of_a_running_job_come_from_its_progress() -> None:
    reason = WaitReason(WaitCode.STOPPED, "", 0, AccountRefused(Kind.QUOTA, "no credit"))
    now = progress_with({
        "a": lane_progress("stopped: quota: no credit", reason),
        "older": lane_progress("stopped: quota: no credit", None),
        "waits": lane_progress("retry-after", WaitReason(WaitCode.RETRY_AFTER, "", 0, None), 9.0),
        "idle": lane_progress(None, None),
    })  # fmt: skip
    stopped = AccountRefused(Kind.QUOTA, "no credit")
    assert stops_now(now) == {"a": stopped, "older": stopped}
    assert now.lanes["waits"].waits_for == Wait(WaitCode.RETRY_AFTER, 9.0)


def test_progress_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder, places = tmp_path / "jobs" / "job", JobPlaces(tmp_path / "jobs")
    folder.mkdir(parents=True, mode=0o700)
    assert read_progress(places, folder.name) is None, "there is none"
    written = progress_with({"a": lane_progress("paused", WaitReason(WaitCode.PAUSED, "", 0, None))})
    (folder / "progress.json").write_bytes(msgspec.json.encode(written))
    assert read_progress(places, folder.name) == written
    (folder / "progress.json").write_bytes(b'{"version": 1}')
    assert read_progress(places, folder.name) is None, "another form"


SEEN = LaneView(
    key="k", queued=0, delayed=0, remaining=0, in_flight=0, started=3, succeeded=3, failed=0, refused=0, window=4,
    rate_per_s=1.0, others=0.0, meters=(), binding="", used_of_binding=0.0, wait=None, eta_s=None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "wait"),
    [
        (None, None),
        ({"code": "hold", "until": 5.0, "message": "resets 4pm"}, Wait(WaitCode.HOLD, 5.0, "resets 4pm")),
        ({"reason": "stopped: auth: no", "until": None}, Wait(WaitCode.STOPPED, stop=AccountRefused(Kind.AUTH, "no"))),
        ({"reason": "breaker: busy; its probe", "until": None}, Wait(WaitCode.PROBE, None, "busy")),
    ],
)  # fmt: skip
def test_lane_states_of_all_versions_are_read(
    tmp_path: Path, stored: dict[str, Any] | None, wait: Wait | None
) -> None:
    view = msgspec.json.encode({**msgspec.to_builtins(SEEN), "wait": stored})
    with Store(SqliteFile(tmp_path / "db")) as store:
        lane = store.lane("k", "alpha/gpt-x")
        store.keep_lane(lane.id, b'{"lane":"k","recorded_utc":1.0}', view, 100.0)
        [report] = lane_reports(store)
    assert report.seen == msgspec.structs.replace(SEEN, wait=wait)
    assert report.learned is not None


def test_the_limits_of_a_finished_run() -> None:
    shares = (
        LimitUsage("concurrency", 8.0, 0.512345),
        LimitUsage("requests per minute", 60.0, 0.25, found=True),
    )
    reserve = Reserve(0.5, 99.6, False, 2, 1.23456, 0.9)
    lane = msgspec.structs.replace(
        SEEN, shares=shares, reserve=reserve, held_s=2.00049, holds=1, held_for="4pm"
    )
    snapshot = Snapshot(0.0, (lane,), 0, 0, 3, 3, 0, 0, 0, 1.5, None, max_cost_usd=2.0)
    view = View("job", 3, {}, 3, 0, 0, 0, None, 1.0, 2.0, 1.0, snapshot, {"k": "alpha/m"}, 0.0)
    assert msgspec.to_builtins(finished_runs.limits_of(view)) == {
        "alpha/m": {
            "held_s": 2.0,
            "holds": 1,
            "held_for": "4pm",
            "reserve": {
                "usd": 0.5,
                "output_tokens": 100,
                "max_tokens_set": False,
                "in_flight": 2,
                "held_s": 1.235,
                "held_it_back": True,
            },
            "limits": [
                {"name": "concurrency", "limit": 8.0, "used": 0.5123, "found": False},
                {"name": "requests per minute", "limit": 60.0, "used": 0.25, "found": True},
            ],
        }
    }
    assert msgspec.to_builtins(finished_runs.budget_of(view)) == {"max_cost_usd": 2.0, "spent_usd": 1.5}


def test_units_of_a_process_that_died_are_unknown(tmp_path: Path) -> None:
    store, job = ended_job(tmp_path / "db", RunInterrupted())
    with store:
        worker = store.begin(job.id, {}, "out.jsonl", 400.0)
        batch = WriteBatch(job.id, worker)
        batch.intend(1, store.lane("k", "alpha/gpt-x").id)
        store.commit(batch)
        report = status_report(store, the_job(store, "job"), JobPlaces(tmp_path))
    assert (report.job.state, report.live, report.progress) == ("interrupted", False, None)
    assert report.per_lane == {LANE: {"pending": 1, "unknown": 1}}
    assert report.unknown == ["u1"]


@pytest.mark.parametrize("module", REPORTS, ids=lambda module: module.__name__)
def test_reports_are_frozen_and_typed(module: Any) -> None:
    made = [
        each for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, msgspec.Struct) and each.__module__ == module.__name__
    ]  # fmt: skip
    for each in made:
        assert Any not in typing.get_type_hints(each).values(), each
        if not each.__name__.startswith("_") and each is not holds.HoldHistory:
            assert each.__struct_config__.frozen, each
    assert made
