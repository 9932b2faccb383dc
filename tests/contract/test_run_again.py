"""Every store can run units again that have ended, and keep their histories."""

from __future__ import annotations

import pytest

from headway.stores.records import Attempt
from headway.stores.store import ENDED, Store
from headway.stores.write_batch import WriteBatch

from .records import begun, end, intend, statuses, the_job
from .test_answer_cache import answer, bodies, keyed_job
from .test_edges import job_with_edges


def again(store: Store, job: int, *indexes: int, caching: bool = False) -> None:
    batch = WriteBatch(job, caching=caching)
    batch.again += indexes
    store.commit(batch)


def test_units_run_again_however_they_ended_and_the_job_counts_them_no_more(store: Store) -> None:
    job, _, _ = begun(store, 5)
    for index, status in enumerate(("succeeded", "failed", "timed_out", "cancelled")):
        end(store, job, index, status)
    again(store, job, 0, 1, 2, 3, 4)
    assert statuses(store, job) == ["pending"] * 5
    assert (the_job(store).ended, the_job(store).good) == (0, 0)
    assert store.results(job, 0, 1)[0].code is None


def test_a_unit_in_flight_is_left_alone(store: Store) -> None:
    job, _, lane = begun(store, 2)
    batch = WriteBatch(job)
    batch.intend(0, lane)
    store.commit(batch)
    again(store, job, 0, 1)
    assert statuses(store, job) == ["assigned", "pending"]


def test_others_keep_the_answer_that_they_have_from_the_unit(store: Store) -> None:
    job = keyed_job(store, "a")
    answer(store, job, 0)
    other = keyed_job(store, "aa", "other")
    assert store.cache.serve(other, -1, 99, 400.0) == [0, 1]
    again(store, job, 0)
    answer(store, job, 0, at_utc=500.0)  # The same body; another one replaces it below.
    batch = WriteBatch(job)
    batch.answers.append((0, 200, "new", b'{"new":1}'))
    store.commit(batch)
    assert bodies(store, job) == [b'{"new":1}']
    assert bodies(store, other) == [b'{"n":0}', b'{"n":0}']
    assert statuses(store, other) == ["cached", "cached"]


def test_the_cache_forgets_the_answer_and_takes_the_new_one(store: Store) -> None:
    job = keyed_job(store, "a")
    answer(store, job, 0)
    again(store, job, 0)
    other = keyed_job(store, "a", "other")
    assert store.cache.serve(other, -1, 99, 400.0) == []
    answer(store, job, 0, at_utc=500.0)
    assert store.cache.serve(other, -1, 99, 600.0) == [0]


def test_a_unit_with_the_answer_of_another_gets_its_own(store: Store) -> None:
    job = keyed_job(store, "a")
    answer(store, job, 0)
    other = keyed_job(store, "a", "other")
    store.cache.serve(other, -1, 99, 400.0)
    again(store, other, 0)
    assert store.cache.source(other, 0) is None
    assert (the_job(store, "other").counts["cached"], statuses(store, other)) == (0, ["pending"])


def test_a_follower_that_was_cancelled_does_not_end_with_its_leader(store: Store) -> None:
    job = keyed_job(store, "aa")
    assert store.cache.group(job) == 1
    assert store.cache.followers(job, [0, 1]) == {1}
    end(store, job, 1, "cancelled")
    answer(store, job, 0)
    assert statuses(store, job) == ["succeeded", "cancelled"]
    assert the_job(store).counts["cached"] == 0


def test_units_that_were_skipped_because_of_a_unit_come_with_it(store: Store) -> None:
    job = job_with_edges(store, (1, "c", 0), (2, "c", 1), (4, "c", 3))
    end(store, job, 0, "failed")
    for index in (1, 2, 4):
        end(store, job, index, "skipped", code="upstream_failed")
    assert store.with_skipped(job, [0]) == [0, 1, 2]
    assert store.with_skipped(job, [3]) == [3, 4]


@pytest.mark.parametrize("only", [(1,), (0, 2)])
def test_a_run_of_chosen_units_leaves_the_others_as_they_are(store: Store, only: tuple[int, ...]) -> None:
    job, _, _ = begun(store, 4)
    for index, status in enumerate(("succeeded", "succeeded", "failed", "failed")):
        end(store, job, index, status)
    before = statuses(store, job)
    store.begin(job, {}, "o", 300.0, only=only)
    assert statuses(store, job) == ["pending" if n in only else was for n, was in enumerate(before)]
    assert the_job(store).ended == 4 - len(only)


def test_a_history_has_attempts_ends_without_attempts_and_what_runs(store: Store) -> None:
    job, worker, lane = begun(store, 4)
    batch = WriteBatch(job)
    batch.attempts.append(
        Attempt(0, 1, lane, "throttled", "rate", "slow down", started_utc=210.0, finished_utc=211.0)
    )
    batch.running[1] = 215.0
    store.commit(batch)
    end(store, job, 2, "skipped", code="upstream_failed")
    [attempt] = store.history(job, 0, 10)
    assert (attempt.custom_id, attempt.outcome, attempt.lane) == ("u0", "throttled", "alpha/m")
    assert store.history(job, attempt.id, 10) == []
    assert store.history(job, 0, 10, index=1) == []
    assert [(unit.custom_id, unit.status) for unit in store.ends_without_attempt(job)] == [("u2", "skipped")]
    assert [(one.custom_id, one.number, one.started_utc) for one in store.running(job)] == [("u1", 1, 215.0)]
    store.end_run(job, worker, "stopped", 300.0, {}, "stopped: 0 of 4 succeeded")
    assert [(event.what, event.text) for event in store.events(job)] == [(ENDED, "stopped: 0 of 4 succeeded")]


def test_a_command_is_done_once_its_batch_is_committed(store: Store) -> None:
    job, _, _ = begun(store)
    command = store.add_command(job, "cancel_units", {"units": [1]}, 250.0)
    assert not store.is_done(command)
    batch = WriteBatch(job)
    batch.done_commands.append((command, 251.0))
    store.commit(batch)
    assert store.is_done(command)


@pytest.mark.parametrize("only_failed", [False, True])
def test_units_that_stay_ended_are_left_alone(store: Store, only_failed: bool) -> None:
    job, _, lane = begun(store, 6)
    for index, status in ((0, "failed"), (1, "failed"), (2, "timed_out"), (3, "succeeded"), (4, "skipped")):
        end(store, job, index, status)
    intend(store, job, lane, 5)
    store.begin(job, {}, "o", 400.0, only_failed=only_failed, stay=[0, 2, 5])

    skipped = "skipped" if only_failed else "pending"
    assert statuses(store, job) == ["failed", "pending", "timed_out", "succeeded", skipped, "pending"]
    counts = the_job(store).counts
    assert (counts["failed"], counts["timed_out"], counts["succeeded"]) == (1, 1, 1)
    store.begin(job, {}, "o", 500.0, only=[0], stay=[0, 2])
    assert statuses(store, job)[:3] == ["pending", "pending", "timed_out"]
