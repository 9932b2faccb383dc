"""SIGKILL before and after every statement that writes, then resume: nothing is lost, nothing is sent twice.

A job is killed several times, each time in a new process, and is finished at the end. `make crash` kills at every point both
before and after the statement; a test run kills once at each point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.crash.conftest import Reference
from tests.crash.sampling import ALL_SIDES, SIDES, share
from tests.crash.stage import Stage, Witness, of_sqlite

from headway.stores.database import queries

#: Statements by the part of a job's life in which they come.
TAKING_IN = ("add_job", "add_route", "add_unit", "add_request", "add_family", "set_priorities", "seal_job")
CLEARING = (
    "forget_hits", "forget_keys", "forget_followers", "forget_answers", "forget_attempts", "forget_repairs", "forget_notes", "forget_transcripts",
    "forget_rendered", "forget_edges", "forget_requests", "forget_units",
    "forget_keyed", "forget_uses", "forget_families", "forget_routes", "forget_events", "forget_workers", "forget_commands", "forget_claims", "forget_claimants",
    "forget_attachments", "forget_attachment_uses", "forget_values", "forget_node_events", "forget_run_samples", "forget_lane_samples",
    "forget_lane_waits", "forget_job",
)  # fmt: skip
#: Once in the life of a database.
FIRST = ("add_salt",)
BEGINNING = (
    "add_lane", "add_lost_attempts", "count_lost", "reopen", "set_counts", "begin_run", "drop_commands", "end_lost_workers", "add_worker", "note_claimant", "claim",
    "forget_old_claims", "forget_old_claimants",
)  # fmt: skip
WORKING = ("intend", "note_running", "add_attempt", "change_unit", "add_answer", "add_use", "count_up")
ENDING = ("set_lane", "put_back", "end_run", "end_workers", "forget_claims", "forget_claimants")
REPAIRING = ("add_repair", "close_repairs")
ASKING = ("add_command", "add_event", "end_command", "set_state")
#: With --cache: test_cache.py.
CACHING = (
    "set_keyed", "add_key", "count_keyed", "hit_unit", "add_hit", "group_followers", "add_cached", "end_follower",
    "clear_cache", "drop_answer",
)  # fmt: skip
#: A unit that is named by `headway retry`: test_retried_units.py.
RETRYING = ("copy_answer", "forget_hit", "move_hits", "forget_cached", "forget_follower", "run_again")
#: Reached by a second Ctrl-C between an intent and its send; its transaction is that of WORKING.
#: `add_note` is what a worker process left; `set_total` and `add_same_request` are for units that come while a job runs:
#: tests/api/test_durable.py kills there. `reopen_unit` and `set_request` are for units of a worker pool that are submitted again:
#: tests/api/test_pool.py kills there. Events of nodes: test_flows.py kills there. Attached files: test_attachments.py kills there. Lines of agents and worker processes: test_agents.py kills there. Reused answers: test_files_and_models.py. Edges, late requests and skipped units: test_conversations.py and tests/jobs/test_growing.py kill there.
#: Samples and waits of lanes are at most one a second, in the transaction of the answers beside them.
ELSEWHERE = {
    "release": "WORKING",
    "reopen_failed": "BEGINNING",
    "set_total": "WORKING",
    "add_same_request": "WORKING",
    "add_note": "WORKING",
    "add_line": "WORKING",
    "add_process": "WORKING",
    "set_process": "WORKING",
    "set_worker": "WORKING",
    "reopen_unit": "WORKING",
    "set_request": "WORKING",
    "add_edge": "TAKING_IN",
    "add_attachment": "TAKING_IN",
    "use_attachment": "TAKING_IN",
    "set_rendered": "WORKING",
    "set_chars": "WORKING",
    "add_node_event": "WORKING",
    "forget_key": "WORKING",
    "set_message": "WORKING",
    "add_reusable": "TAKING_IN",
    "take_reusable": "TAKING_IN",
    "set_value": "TAKING_IN",
    "reopen_except": "BEGINNING",
    "add_run_sample": "WORKING",
    "add_lane_sample": "WORKING",
    "add_lane_wait": "WORKING",
    "drop_run_samples": "WORKING",
    "drop_lane_samples": "WORKING",
    "set_settings": "ASKING",
}


def kill(at: str, when: str, n: int = 1) -> dict[str, Any]:
    return {"kill": {"at": at, "when": when, "n": n}}


def test_every_writing_statement_is_covered() -> None:
    """A new writing statement in queries.sql must be added to the lists above."""
    writing = {
        name for name, sql in queries().items() if sql.split()[0].upper() in ("INSERT", "UPDATE", "DELETE")
    }
    parts = (
        TAKING_IN,
        CLEARING,
        FIRST,
        BEGINNING,
        WORKING,
        ENDING,
        ASKING,
        REPAIRING,
        CACHING,
        RETRYING,
        ELSEWHERE,
    )
    assert writing == {name for part in parts for name in part}


def go_through(stage: Stage, points: Sequence[dict[str, Any]], reference: list[dict[str, Any]]) -> Witness:
    """Kill at each point in turn, let the job finish, and check the result."""
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


@of_sqlite
def test_killed_while_the_schema_is_made(stage: Stage, reference: Reference) -> None:
    points = [kill("schema", "before"), kill("schema", "after", 7), kill("user_version", "before")]
    points += [kill("user_version", "after"), kill("COMMIT", "before"), kill("COMMIT", "after")]
    go_through(stage, points, reference(stage.units))


@pytest.mark.parametrize("side", SIDES)
def test_killed_during_ingest(stage: Stage, reference: Reference, side: str) -> None:
    """A job whose input was not read completely never ran; the next process removes it."""
    for point in share([kill(name, side) for name in (*TAKING_IN[:-1], *CLEARING)], side):
        stage.ends_by_kill("run", "in.jsonl", faults=point)
        assert {stage.sent(index) for index in (0, stage.units - 1)} == {0}
    go_through(stage, [kill("seal_job", side)], reference(stage.units))
    assert stage.query("SELECT count(*) FROM jobs") == [(1,)]
    assert stage.query("SELECT count(*) FROM units") == [(stage.units,)]


def test_killed_while_the_salt_is_made(stage: Stage, reference: Reference) -> None:
    """A run makes a missing salt; a transaction that was not committed leaves none."""
    go_through(
        stage, [kill(name, side) for name in FIRST for side in ("before", "after")], reference(stage.units)
    )
    assert stage.query("SELECT length(value) FROM meta WHERE key = 'salt'") == [(32,)]


@pytest.mark.parametrize("side", SIDES)
def test_killed_while_a_run_begins(stage: Stage, reference: Reference, side: str) -> None:
    """Units of unknown outcome stay recorded until a later process has taken over all of them."""
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
    """First the commits of opening the store, reading the input and beginning the run, then those of the run itself."""
    stage.units = 300
    stage.write_input()
    points = share([kill("COMMIT", side, n) for n in range(2, 15)], side)
    witness = go_through(stage, points, reference(stage.units))
    assert witness.unknown_times


@pytest.mark.parametrize("side", SIDES)
def test_killed_while_a_run_ends(stage: Stage, reference: Reference, side: str) -> None:
    """All units have answers by then: the next run sends nothing."""
    stage.ends_by_kill("run", "in.jsonl", faults=kill("put_back", "before"))
    assert len(stage.committed()) == stage.units
    go_through(stage, share([kill(name, side) for name in ENDING], side), reference(stage.units))
    assert {stage.sent(index) for index in range(stage.units)} == {1}


MORE = """
ALTER TABLE workers ADD COLUMN colour TEXT;
CREATE TABLE colours (name TEXT);
UPDATE workers SET colour = 'red';
"""


@of_sqlite
def test_killed_during_a_migration(stage: Stage, reference: Reference) -> None:
    """A migration is applied completely or not at all, and the job can be resumed in both cases."""
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
    assert older.returncode == 2
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
    """A pause command that a killed process may or may not have carried out does not stop the next process."""
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
    """Units run one after another, for five seconds: enough for another process to start and send a command."""
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
