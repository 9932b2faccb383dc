"""SIGKILL around every statement that writes, then go on: nothing is lost, nothing is sent twice.

A job goes through a chain of kills, each in a process of its own, and is finished at the end. `make crash` kills at every
point on every side; a test run at each point once, on one of the sides.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.crash.conftest import Reference
from tests.crash.stage import Stage, Witness

from headway.stores.database import queries

#: Statements by the part of a job's life in which they come.
TAKING_IN = ("add_job", "add_route", "add_unit", "add_request", "add_family", "set_priorities", "seal_job")
CLEARING = (
    "forget_hits", "forget_keys", "forget_followers", "forget_answers", "forget_attempts", "forget_repairs", "forget_notes",
    "forget_rendered", "forget_edges", "forget_requests", "forget_units",
    "forget_keyed", "forget_uses", "forget_families", "forget_routes", "forget_events", "forget_workers", "forget_commands", "forget_claims", "forget_job",
)  # fmt: skip
#: Once in the life of a database.
FIRST = ("add_salt",)
BEGINNING = (
    "add_lane", "add_lost_attempts", "count_lost", "reopen", "set_counts", "begin_run", "drop_commands", "end_lost_workers", "add_worker", "claim",
)  # fmt: skip
WORKING = ("intend", "note_running", "add_attempt", "change_unit", "add_answer", "add_use", "count_up")
ENDING = ("set_lane", "put_back", "end_run", "set_worker", "forget_claims")
REPAIRING = ("add_repair", "close_repairs")
ASKING = ("add_command", "add_event", "end_command", "set_state")
#: With --cache: test_cache.py.
CACHING = (
    "set_keyed", "add_key", "count_keyed", "hit_unit", "add_hit", "group_followers", "add_cached", "end_follower",
    "clear_cache", "drop_answer",
)  # fmt: skip
#: Reached by a second Ctrl-C between an intent and its send; its transaction is that of WORKING.
#: `add_note` is what a worker process left; `set_total` and `add_same_request` are for units that come while a job runs:
#: tests/api/test_durable.py kills there. `reopen_unit` and `set_request` are for units of a worker pool that are submitted again:
#: tests/api/test_pool.py kills there. Edges and late requests: test_conversations.py and tests/jobs/test_growing.py kill there.
ELSEWHERE = {
    "release": "WORKING",
    "reopen_failed": "BEGINNING",
    "set_total": "WORKING",
    "add_same_request": "WORKING",
    "add_note": "WORKING",
    "reopen_unit": "WORKING",
    "set_request": "WORKING",
    "add_edge": "TAKING_IN",
    "set_rendered": "WORKING",
    "set_chars": "WORKING",
}

SIDES = ("before", "after")
ALL_SIDES = ("before", "between", "after")
#: `make crash` sets it.
EVERY_POINT = "HEADWAY_CRASH_KILLS" in os.environ


def share(points: list[dict[str, Any]], side: str, sides: tuple[str, ...] = SIDES) -> list[dict[str, Any]]:
    """The points that are this side's: all of them, or its share, so that together the sides have each point once."""
    return points if EVERY_POINT else points[sides.index(side) :: len(sides)]


def kill(at: str, when: str, n: int = 1) -> dict[str, Any]:
    return {"kill": {"at": at, "when": when, "n": n}}


def test_every_writing_statement_is_covered() -> None:
    """A new one in queries.sql wants a place in the lists above."""
    writing = {
        name for name, sql in queries().items() if sql.split()[0].upper() in ("INSERT", "UPDATE", "DELETE")
    }
    parts = (TAKING_IN, CLEARING, FIRST, BEGINNING, WORKING, ENDING, ASKING, REPAIRING, CACHING, ELSEWHERE)
    assert writing == {name for part in parts for name in part}


def go_through(stage: Stage, points: list[dict[str, Any]], reference: list[dict[str, Any]]) -> Witness:
    """Kill at each point in turn, then let the job finish, and judge."""
    witness = Witness(stage)
    unknown: set[int] = set()
    for point in points:
        stage.ends_by_kill("run", "in.jsonl", "--progress", "json", faults=point)
        unknown = witness.note_crash()
    done = stage.run("run", "in.jsonl", "--progress", "json")
    assert done.returncode == 0, done.stderr
    witness.check_named(done.stderr, unknown)
    witness.check_result(reference)
    return witness


def test_killed_while_the_schema_is_made(stage: Stage, reference: Reference) -> None:
    points = [kill("schema", "before"), kill("schema", "after", 7), kill("user_version", "before")]
    points += [kill("user_version", "after"), kill("COMMIT", "before"), kill("COMMIT", "after")]
    go_through(stage, points, reference(stage.units))


@pytest.mark.parametrize("side", SIDES)
def test_killed_during_ingest(stage: Stage, reference: Reference, side: str) -> None:
    """A job that was not taken in whole never ran, and is cleared away by the next process."""
    for point in share([kill(name, side) for name in (*TAKING_IN[:-1], *CLEARING)], side):
        stage.ends_by_kill("run", "in.jsonl", faults=point)
        assert {stage.sent(index) for index in (0, stage.units - 1)} == {0}
    go_through(stage, [kill("seal_job", side)], reference(stage.units))
    assert stage.query("SELECT count(*) FROM jobs") == [(1,)]
    assert stage.query("SELECT count(*) FROM units") == [(stage.units,)]


def test_killed_while_the_salt_is_made(stage: Stage, reference: Reference) -> None:
    """Without one a run makes it; a transaction that was not committed leaves none."""
    go_through(
        stage, [kill(name, side) for name in FIRST for side in ("before", "after")], reference(stage.units)
    )
    assert stage.query("SELECT length(value) FROM meta WHERE key = 'salt'") == [(32,)]


@pytest.mark.parametrize("side", SIDES)
def test_killed_while_a_run_begins(stage: Stage, reference: Reference, side: str) -> None:
    """What an earlier process left unknown stays known until a process has taken it over, whole."""
    points = [kill("note_running", "after"), *share([kill(name, side) for name in BEGINNING], side)]
    go_through(stage, points, reference(stage.units))


@pytest.mark.parametrize("when", ALL_SIDES)
def test_killed_while_answers_are_recorded(stage: Stage, reference: Reference, when: str) -> None:
    stage.units = 300  # Enough for all of them, also where a slow disk puts many answers into one commit.
    stage.write_input()
    points = [
        kill(name, when, n)
        for n in (1, 3)
        for name in WORKING
        if not (name == "count_up" and when == "between")  # One statement, one row.
    ]
    witness = go_through(stage, share(points, when, ALL_SIDES), reference(stage.units))
    assert witness.unknown_times, "something was under way when the process was killed"


@pytest.mark.parametrize("side", SIDES)
def test_killed_around_every_commit(stage: Stage, reference: Reference, side: str) -> None:
    """First those of opening the file, taking in and beginning, then those of the run itself."""
    stage.units = 120
    stage.write_input()
    points = share([kill("COMMIT", side, n) for n in range(2, 15)], side)
    witness = go_through(stage, points, reference(stage.units))
    assert witness.unknown_times


@pytest.mark.parametrize("side", SIDES)
def test_killed_while_a_run_ends(stage: Stage, reference: Reference, side: str) -> None:
    """Everything is answered by then: the next run sends nothing."""
    stage.ends_by_kill("run", "in.jsonl", faults=kill("put_back", "before"))
    assert len(stage.committed()) == stage.units
    go_through(stage, share([kill(name, side) for name in ENDING], side), reference(stage.units))
    assert {stage.sent(index) for index in range(stage.units)} == {1}


MORE = """
ALTER TABLE workers ADD COLUMN colour TEXT;
CREATE TABLE colours (name TEXT);
UPDATE workers SET colour = 'red';
"""


def test_killed_during_a_migration(stage: Stage, reference: Reference) -> None:
    """A migration is there wholly or not at all, and the job goes on either way."""
    witness = Witness(stage)
    stage.ends_by_kill("run", "in.jsonl", faults=kill("add_answer", "after", 2))
    witness.note_crash()
    [(version,)] = stage.query("PRAGMA user_version")
    points = [kill("schema", "after"), kill("schema", "after", 2), kill("user_version", "after")]
    for point in [*points, kill("COMMIT", "before")]:
        stage.ends_by_kill("run", "in.jsonl", faults={**point, "migration": MORE})
        witness.note_crash()
        assert stage.query("PRAGMA user_version") == [(version,)]
        assert stage.query("SELECT name FROM sqlite_schema WHERE name = 'colours'") == []
    stage.ends_by_kill("run", "in.jsonl", faults={**kill("COMMIT", "after"), "migration": MORE})
    unknown = witness.note_crash()
    assert stage.query("SELECT DISTINCT colour FROM workers") == [("red",)]
    older = stage.run("run", "in.jsonl")
    assert older.returncode == 1
    assert "newer Headway" in older.stderr
    done = stage.run("run", "in.jsonl", "--progress", "json", faults={"migration": MORE})
    assert done.returncode == 0, done.stderr
    witness.check_named(done.stderr, unknown)
    witness.check_result(reference(stage.units))


@pytest.mark.parametrize("at", ASKING[1:])
@pytest.mark.parametrize("side", SIDES)
def test_killed_while_a_command_is_carried_out(
    stage: Stage, reference: Reference, at: str, side: str
) -> None:
    """A pause that a dead process may or may not have noted does not keep the next one from working."""
    slow_down(stage)
    with stage.process("run", "in.jsonl", faults=kill(at, side)) as process:
        while not stage.statuses() and process.poll() is None:
            pass
        while process.poll() is None:
            asked = stage.run("pause")
            if asked.returncode == 0:
                break
        assert process.wait(10) == -9
    witness = Witness(stage)
    unknown = witness.note_crash()
    stage.configure()
    done = stage.run("run", "in.jsonl", "--progress", "json")
    assert done.returncode == 0, done.stderr
    witness.check_named(done.stderr, unknown)
    witness.check_result(reference(stage.units))


def slow_down(stage: Stage) -> None:
    """One after another, for five seconds: long enough for another process to start and to ask something of it."""
    stage.units = 200
    stage.write_input()
    stage.configure("max_concurrency = 1")


@pytest.mark.parametrize("side", SIDES)
def test_killed_while_a_command_is_sent(stage: Stage, reference: Reference, side: str) -> None:
    slow_down(stage)
    with stage.process("run", "in.jsonl") as process:
        while not stage.committed():
            assert process.poll() is None
        stage.ends_by_kill("cancel", faults=kill("add_command", side))
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
    assert len(stage.rows()) == stage.units
