"""SIGKILL around every statement of the cache: nothing is lost, and no answered request is sent again.

Half of the units have the same requests as the other half, so each answer ends two units.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.crash.sampling import ALL_SIDES, SIDES, share
from tests.crash.stage import Stage, Witness, contents, echoes
from tests.crash.test_commit_points import CACHING, WORKING, kill

from headway.stores.sqlite.schema import migrations

RUN = ("run", "in.jsonl", "--cache", "--progress", "json")
MAKING_KEYS = ("forget_keys", "set_keyed", "add_key", "count_keyed", "forget_followers", "group_followers")
FOLLOWING = ("add_cached", "hit_unit", "add_hit")
SERVING = ("hit_unit", "add_hit", "count_up")


@pytest.fixture
def pairs(stage: Stage) -> Stage:
    """Eighty units with forty different requests."""
    stage.write_input(_rows(stage))
    return stage


def _rows(stage: Stage) -> list[dict[str, Any]]:
    return [
        {**stage.row(index % stage.units, temperature=0), "id": f"u{index}"}
        for index in range(2 * stage.units)
    ]


def judge(stage: Stage, witness: Witness) -> None:
    """All units have the right answer, and no request was sent more often than its outcome was unknown."""
    asked = stage.units
    right = [row["content"] for row in echoes(asked)]
    rows = contents(stage.rows())
    assert [row["content"] for row in rows] == right + right
    assert [row["custom_id"] for row in rows] == [f"u{index}" for index in range(2 * asked)]
    assert [row["status"] for row in rows] == ["succeeded"] * asked + ["cached"] * asked
    job = stage.job()
    assert (job["state"], job["succeeded"], job["cached"]) == ("complete", asked, asked)
    for index in range(asked):
        assert 1 <= stage.sent(index) <= 1 + witness.unknown_times.get(index, 0), f"unit {index}"
    assert all(index < asked for index in witness.unknown_times), "a follower is never under way"
    assert stage.query("SELECT count(*) FROM answers") == [(asked,)]
    assert stage.query("SELECT count(*) FROM hits") == [(asked,)]
    assert stage.query("SELECT count(*) FROM cache") == [(asked,)]
    assert stage.query("PRAGMA integrity_check") == [("ok",)]


def agree(stage: Stage) -> None:
    """The records of a killed process are consistent: a unit's answer, its state and the cache agree."""
    assert stage.query(
        "SELECT uid FROM units WHERE (status = 'cached') <> (uid IN (SELECT uid FROM hits))"
        " OR (status = 'succeeded') <> (uid IN (SELECT uid FROM answers))"
        " OR (status = 'succeeded') <> (uid IN (SELECT uid FROM cache))"
        " OR (status = 'cached') <> (uid - ? IN (SELECT uid FROM cache))",
        stage.units,
    ) == []  # fmt: skip
    counted = stage.query("SELECT succeeded, cached FROM jobs")
    real = stage.query(
        "SELECT count(*) FILTER (WHERE status = 'succeeded'), count(*) FILTER (WHERE status = 'cached') FROM units"
    )
    assert counted == real


def go_through(stage: Stage, points: Sequence[dict[str, Any]]) -> None:
    witness = Witness(stage)
    unknown: set[int] = set()
    for point in points:
        stage.ends_by_kill(*RUN, faults=point)
        unknown = witness.note_crash()
        agree(stage)
    done = stage.run(*RUN)
    assert done.returncode == 0, done.stderr
    witness.check_named(done.stderr, unknown)
    judge(stage, witness)


def test_every_cache_statement_is_covered() -> None:
    here = {*MAKING_KEYS, *FOLLOWING, *SERVING, "end_follower", "clear_cache", "drop_answer"}
    assert set(CACHING) <= here


@pytest.mark.parametrize("side", SIDES)
def test_killed_while_keys_are_made_and_units_grouped(pairs: Stage, side: str) -> None:
    go_through(pairs, share([kill(name, side) for name in MAKING_KEYS], side))


@pytest.mark.parametrize("when", ALL_SIDES)
def test_killed_while_answers_end_followers(pairs: Stage, when: str) -> None:
    points = [kill(name, when, n) for n in (1, 3) for name in FOLLOWING]
    points += [kill(name, when) for name in WORKING if name != "count_up"]
    go_through(pairs, share(points, when, ALL_SIDES))


@pytest.mark.parametrize("side", SIDES)
def test_killed_around_every_commit_of_a_run_with_the_cache(pairs: Stage, side: str) -> None:
    pairs.units = 300  # Enough for all the commits, also where a slow disk puts many answers into one.
    pairs.configure("max_concurrency = 2")
    pairs.write_input(_rows(pairs))
    first = len(migrations()) + 2  # Each step of the schema is a commit, too.
    go_through(pairs, share([kill("COMMIT", side, n) for n in range(first, first + 10)], side))


@pytest.mark.parametrize("when", ALL_SIDES)
def test_killed_while_answers_come_from_the_cache(pairs: Stage, when: str) -> None:
    """All answers are in the cache: the next run sends nothing."""
    assert pairs.run(*RUN).returncode == 0
    again = ("run", "again.jsonl", "--cache", "--progress", "json")
    (pairs.root / "again.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in reversed(_rows(pairs))), encoding="utf-8"
    )
    for name in SERVING:
        if (name, when) != ("count_up", "between"):  # One statement, one row.
            pairs.ends_by_kill(*again, faults=kill(name, when))
            assert pairs.job()["cached"] == 0
    done = pairs.run(*again)
    assert done.returncode == 0, done.stderr
    assert pairs.job()["cached"] == 2 * pairs.units
    assert {pairs.sent(index) for index in range(pairs.units)} == {1}
    rows = (pairs.root / "again.results.jsonl").read_text(encoding="utf-8").splitlines()
    first = [row["content"] for row in contents(pairs.rows())]
    assert [row["content"] for row in contents([json.loads(row) for row in rows])] == first[::-1]


@pytest.mark.parametrize("side", SIDES)
def test_killed_while_a_failure_ends_followers(pairs: Stage, side: str) -> None:
    """A rejected request ends two units: both or neither."""
    rows = _rows(pairs)
    for row in (rows[7], rows[47]):
        row["messages"] = [{"role": "user", "content": len(row.pop("prompt"))}]  # A number is no content.
    pairs.write_input(rows)
    witness = Witness(pairs)
    pairs.ends_by_kill(*RUN, faults=kill("end_follower", side))
    witness.note_crash()
    statuses = pairs.statuses()
    assert (statuses[7] == "failed") == (statuses[47] == "failed")
    done = pairs.run(*RUN)
    assert done.returncode == 1, done.stderr
    found = pairs.rows()
    assert [index for index, row in enumerate(found) if row["error"]] == [7, 47]
    assert found[47]["error"]["code"] == found[7]["error"]["code"] == "invalid"
    job = pairs.job()
    assert (job["succeeded"], job["cached"], job["failed"]) == (39, 39, 2)


@pytest.mark.parametrize("at", ["clear_cache", "drop_answer"])
@pytest.mark.parametrize("side", SIDES)
def test_killed_while_the_cache_is_cleared(pairs: Stage, at: str, side: str) -> None:
    """The whole cache is removed or nothing, and units keep their answers."""
    assert pairs.run(*RUN).returncode == 0
    first = pairs.out.read_bytes()
    pairs.ends_by_kill("cache", "clear", "-y", faults=kill(at, side))
    assert pairs.query("SELECT count(*) FROM cache") == [(pairs.units,)]
    assert pairs.run("cache", "clear", "-y").returncode == 0
    assert pairs.query("SELECT count(*) FROM cache") == [(0,)]
    pairs.out.unlink()
    assert pairs.run("run", "in.jsonl").returncode == 0
    assert pairs.out.read_bytes() == first
