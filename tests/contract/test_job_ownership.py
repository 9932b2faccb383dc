"""Each run of a job takes the job over from the previous run. Later commits of the previous run are refused."""

from __future__ import annotations

import os
import platform

import pytest
from tests.contract.records import begun, statuses, the_job

from headway.core.reasons import RunInterrupted
from headway.errors import JobTaken
from headway.stores.records import JobEvent, UnitChange
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch


def answered(job: int, worker: int | None, index: int) -> WriteBatch:
    batch = WriteBatch(job, worker)
    batch.change(index, UnitChange("succeeded", 1, finished_utc=300.0))
    batch.answers.append((index, 200, None, b"{}"))
    batch.events.append(JobEvent(300.0, None, "note", f"answered {index}"))
    return batch


def test_only_the_latest_run_can_record(store: Store) -> None:
    job, first, _ = begun(store, 3)
    store.commit(answered(job, first, 0))
    second = store.begin(job, {}, "o", 250.0)
    store.commit(answered(job, second, 1))

    with pytest.raises(JobTaken) as caught:
        store.commit(answered(job, first, 2))

    assert str(caught.value) == (
        f"another process has taken over this job: 'translate' is run by process {os.getpid()} on {platform.node()} now — "
        "nothing more is sent from here; watch it with 'headway status translate'"
    )
    assert statuses(store, job) == ["succeeded", "succeeded", "pending"]
    assert [event.text for event in store.events(job)] == ["answered 0", "answered 1"]
    assert the_job(store).good == 2


def test_the_run_that_lost_the_job_does_not_end_it(store: Store) -> None:
    job, first, lane = begun(store, 2)
    second = store.begin(job, {}, "o", 250.0)
    sending = WriteBatch(job, second)
    sending.intend(0, lane)
    store.commit(sending)

    with pytest.raises(JobTaken):
        store.end_run(job, first, "complete", 300.0, {"1": RunInterrupted()})

    assert (the_job(store).state, the_job(store).unfinished) == ("running", {})
    assert statuses(store, job) == ["assigned", "pending"]
    store.end_run(job, second, "stopped", 310.0, {})
    assert the_job(store).state == "stopped"


def test_an_ended_run_cannot_record_into_the_next_one(store: Store) -> None:
    job, first, _ = begun(store, 2)
    store.end_run(job, first, "stopped", 240.0, {})
    store.commit(answered(job, first, 0))  # Its last batch is late, and no other run has taken over.
    store.begin(job, {}, "o", 250.0)
    with pytest.raises(JobTaken):
        store.commit(answered(job, first, 1))


def test_jobs_do_not_take_each_other_over(store: Store) -> None:
    job, worker, _ = begun(store, 1)
    other, theirs, _ = begun(store, 1, name="other")
    store.commit(answered(job, worker, 0))
    store.commit(answered(other, theirs, 0))
    with pytest.raises(JobTaken):
        store.commit(answered(job, theirs, 0))


def test_adding_a_worker_does_not_take_over_the_job(store: Store) -> None:
    job, worker, _ = begun(store, 1)
    store.add_worker(job, "worker-1", 210.0)
    store.commit(answered(job, worker, 0))
    assert statuses(store, job) == ["succeeded"]


def test_a_note_that_belongs_to_no_run_is_recorded(store: Store) -> None:
    job, _, _ = begun(store, 1)
    store.begin(job, {}, "o", 250.0)
    batch = WriteBatch(job)
    batch.events.append(JobEvent(300.0, None, "wrote", "out.csv"))
    store.commit(batch)
    assert [event.what for event in store.events(job)] == ["wrote"]


def test_a_removed_job_is_reported_as_removed(store: Store) -> None:
    job, worker, _ = begun(store, 1)
    store.forget(job)
    with pytest.raises(JobTaken, match="another process has removed this job"):
        store.commit(answered(job, worker, 0))
    with pytest.raises(JobTaken, match="another process has removed this job"):
        store.end_run(job, worker, "complete", 300.0, {})
