"""A job may park until the user has done something, and may tolerate failures."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.jobs.gate_kind import APPROVALS
from tests.jobs.test_growing import headway, records

from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "headway.toml").write_text("[providers.e]\nkind = 'echo'\nword = 'hey'\n")
    (tmp_path / "in.gate").write_text("one\nmute\nthree\n")
    return tmp_path


def approve(folder: Path) -> None:
    with Store(SqliteFile(folder / ".headway" / "headway.db")) as store:
        store.set_value(1, APPROVALS, 0, b"yes")


UNITS = "SELECT custom_id, status, attempts FROM units ORDER BY uid"


def test_a_job_parks_without_a_held_lane_and_goes_on_when_the_user_has_approved(folder: Path) -> None:
    parked = headway(folder, "run", "in.gate")
    assert parked.returncode == 4, parked.stderr
    assert "parked: 2 of 3 succeeded" in parked.stderr
    assert "max-hold" not in parked.stderr
    assert "waits for an approval; then: headway resume" in parked.stderr
    assert "waits for an approval" in headway(folder, "status").stdout
    assert headway(folder, "resume", "-q").returncode == 4

    approve(folder)
    done = headway(folder, "resume")
    assert done.returncode == 0, done.stderr
    assert "tried again" not in done.stderr
    ends = [
        ("one", "succeeded", 1),
        ("mute", "failed", 1),
        ("three", "succeeded", 1),
        ("approved", "succeeded", 1),
    ]
    assert records(folder, UNITS) == ends
    assert records(folder, "SELECT state, total, succeeded, failed FROM jobs") == [("complete", 4, 3, 1)]


def test_a_tolerated_failure_runs_again_if_it_is_named(folder: Path) -> None:
    assert headway(folder, "run", "in.gate", "-q").returncode == 4
    assert headway(folder, "retry", "--failed", "-q").returncode == 4
    assert ("mute", "failed", 1) in records(folder, UNITS)
    [(job,)] = records(folder, "SELECT name FROM jobs")
    assert headway(folder, "retry", job, "mute", "-q").returncode == 4
    assert ("mute", "failed", 2) in records(folder, UNITS)


def test_failures_that_are_not_tolerated_run_again(folder: Path) -> None:
    (folder / "in.gate").write_text("one\nmute\nmute two\n")
    assert headway(folder, "run", "in.gate", "-q").returncode == 1
    again = headway(folder, "resume")
    assert again.returncode == 1
    assert "2 units failed before: they are tried again" in again.stderr
    assert [tries for _, _, tries in records(folder, UNITS)] == [1, 2, 2]
