"""The events of a flow: each of them once, from the records of nodes, attempts and ends without attempts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headway.core.unit_states import Status
from headway.display.flows.event_file import EventFile, line_of
from headway.errors import UsageError
from headway.flows.running.outputs.event_record import record_events, record_resumed
from headway.reports.flows.run_events import EventMarks, RunEvent, RunEventReader, whole_ms
from headway.stores.records import (
    Attempt,
    Job,
    NewJob,
    NewUnit,
    NodeEvent,
    StoredRoute,
    UnitChange,
)
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

T = 1_800_000_000.0


class Event:
    """An event of a run, as `FlowRun.take_events` returns it."""

    def __init__(self, name: str, node: str = "", unit: str = "", **data: object) -> None:
        self.name, self.node, self.unit, self.data = name, node, unit, data


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "headway.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(SqliteFile(path)) as opened:
        yield opened


@pytest.fixture
def job(store: Store) -> Job:
    return job_of(store, "flow-1", ["fetch", "review[0]", "review[1]"])


def job_of(store: Store, name: str, units: list[str]) -> Job:
    number = store.add_job(NewJob(name, "flow", "flow.yaml", "digest", "", T))
    route = store.add_route(number, StoredRoute("alpha", "openai", "m", label="review"))
    store.add_units(number, 0, [NewUnit(unit, route, "/v1", b"{}") for unit in units])
    store.seal(number, len(units), {}, "digest")
    job = store.job(name)
    assert job is not None
    return job


def attempt(
    store: Store, job: Job, index: int, number: int, outcome: str, at: float, *, end: str = "", **more: object
) -> None:
    """Record an attempt that took a second, and the state of its unit."""
    lane = store.lane("key", "alpha/m").id
    batch = WriteBatch(job.id)
    batch.attempts.append(
        Attempt(index, number, lane, outcome, started_utc=at, finished_utc=at + 1.0, cost_usd=0.5, **more)  # type: ignore[arg-type]
    )
    change = UnitChange(
        end or Status.PENDING, 1, lane, started_utc=at, finished_utc=at + 1.0 if end else None, cost_usd=0.5
    )
    batch.change(index, change)
    store.commit(batch)


def read(store: Store, job: Job, marks: EventMarks | None = None) -> list[RunEvent]:
    return [event for page in RunEventReader(store, job, marks).missed() for event in page]


def test_the_events_of_nodes_and_units_in_time_order(store: Store, job: Job) -> None:
    record_events(store, job.id, [Event("run.started"), Event("node.started", "fetch")], T)
    attempt(
        store,
        job,
        0,
        1,
        "throttled",
        T + 1,
        kind="rate",
        message="slow down",
        rate_limit=b'{"retry_after_s": 3.0}',
    )
    attempt(store, job, 0, 2, "failed", T + 5, kind="transient", message="reset")
    attempt(store, job, 0, 3, "succeeded", T + 9, end="succeeded", input_tokens=7, output_tokens=2)
    attempt(store, job, 1, 1, "failed", T + 20, kind="invalid", message="no", end="failed")
    record_events(store, job.id, [Event("state.write", "fetch", "fetch", field="text")], T + 10)
    found = read(store, job)
    assert [(one.type, one.node, one.unit) for one in found] == [
        ("run.started", "", ""),
        ("node.started", "fetch", ""),
        ("unit.started", "fetch", "fetch"),
        ("unit.throttled", "fetch", "fetch"),
        ("unit.started", "fetch", "fetch"),
        ("unit.retrying", "fetch", "fetch"),
        ("unit.started", "fetch", "fetch"),
        ("unit.succeeded", "fetch", "fetch"),
        ("state.write", "fetch", "fetch"),
        ("unit.started", "review", "review[0]"),
        ("unit.failed", "review", "review[0]"),
    ]
    assert found[3].data == {
        "id": 1, "attempt": 1, "lane": "alpha/m", "took_s": 1.0, "kind": "rate", "message": "slow down",
        "retry_after_s": 3.0, "cost_usd": 0.5,
    }  # fmt: skip
    assert found[7].data == {
        "id": 3, "attempt": 3, "lane": "alpha/m", "took_s": 1.0, "input_tokens": 7, "output_tokens": 2, "cost_usd": 0.5,
    }  # fmt: skip
    assert found[8].data == {"id": 3, "field": "text"}
    assert (found[10].data["status"], found[10].data["kind"]) == ("failed", "invalid")


def test_a_start_is_known_while_the_attempt_runs_and_is_not_repeated_at_its_end(
    store: Store, job: Job
) -> None:
    reader = RunEventReader(store, job)
    lane = store.lane("key", "alpha/m").id
    batch = WriteBatch(job.id)
    batch.intend(0, lane)
    batch.running[0] = T
    store.commit(batch)
    [started] = [event for page in reader.news([0], []) for event in page]
    assert (started.type, started.utc, started.data) == ("unit.started", T, {"attempt": 1, "lane": "alpha/m"})
    attempt(store, job, 0, 1, "succeeded", T, end="succeeded")
    assert [event.type for page in reader.news([], [0]) for event in page] == ["unit.succeeded"]
    assert list(reader.news([0], [0])) == []


def test_ends_without_an_attempt(store: Store, job: Job) -> None:
    reader = RunEventReader(store, job)
    batch = WriteBatch(job.id)
    batch.change(0, UnitChange("skipped", code="upstream_failed", message="fetch failed", finished_utc=T))
    store.commit(batch)
    attempt(store, job, 1, 1, "succeeded", T, end="succeeded")
    found = [event for page in reader.news([], [0, 1]) for event in page]
    assert [(one.type, one.unit) for one in found if one.type != "unit.started"] == [
        ("unit.failed", "fetch"),
        ("unit.succeeded", "review[0]"),
    ]
    assert found[0].data == {"kind": "upstream_failed", "message": "fetch failed", "status": "skipped"}


def test_an_attempt_is_lost_when_the_next_run_notices_it_and_only_if_it_began(store: Store, job: Job) -> None:
    store.begin(job.id, {}, "", T)
    lane = store.lane("key", "alpha/m").id
    batch = WriteBatch(job.id)
    for index in (0, 1):
        batch.intend(index, lane)
    batch.running[0] = T + 1
    store.commit(batch)
    store.begin(job.id, {}, "", T + 60)
    record_events(store, job.id, [Event("node.finished", "fetch", reason="")], T + 61)
    found = [(one.utc - T, one.type, one.unit) for one in read(store, job)]
    assert found == [
        (1.0, "unit.started", "fetch"), (60.0, "unit.retrying", "fetch"), (61.0, "node.finished", ""),
    ]  # fmt: skip
    assert "reason" not in read(store, job)[-1].data


def test_a_resumed_run_says_what_goes_on(store: Store, job: Job) -> None:
    record_resumed(store, job.id, {"a": "running"}, "running", T)
    assert store.node_events(job.id) == []
    first = [Event("run.started"), Event("node.started", "a"), Event("node.started", "b")]
    ends = [
        Event("node.failed", "a", reason="no"),
        Event("node.finished", "b"),
        Event("run.finished", status="failed"),
    ]
    record_events(store, job.id, [*first, *ends], T + 1)
    record_resumed(store, job.id, {"a": "running", "b": "success"}, "running", T + 2)
    record_resumed(store, job.id, {"a": "running", "b": "success"}, "running", T + 3)
    found = [(one.type, one.node, one.at_utc) for one in store.node_events(job.id)]
    assert found[len(first) + len(ends) :] == [("run.started", "", T + 2), ("node.retrying", "a", T + 2)]
    record_resumed(store, job.id, {"a": "success", "b": "success"}, "success", T + 4)
    assert len(store.node_events(job.id)) == len(found)


# -- the file ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def write(path: Path, tmp_path: Path) -> Callable[[Job], list[str]]:
    def written(job: Job) -> list[str]:
        """Bring the file up to the records, as the next run does."""
        EventFile(tmp_path / "events.jsonl", lambda: Store(SqliteFile(path)), job).close()
        return (tmp_path / "events.jsonl").read_text().splitlines()

    return written


def story(store: Store, job: Job) -> None:
    record_events(store, job.id, [Event("run.started"), Event("node.started", "fetch")], T)
    attempt(store, job, 0, 1, "failed", T + 1.0004567, kind="transient", message="\x9breset")
    attempt(store, job, 0, 2, "succeeded", T + 3, end="succeeded")
    for index, at in ((1, T + 5.0001), (2, T + 5.0002)):
        batch = WriteBatch(job.id)
        batch.change(index, UnitChange("cancelled", code="cancelled", message="", finished_utc=at))
        store.commit(batch)


def test_a_line_of_the_file(store: Store, job: Job, write: Callable[[Job], list[str]]) -> None:
    story(store, job)
    lines = [json.loads(line) for line in write(job)]
    assert lines[1] == {
        "utc": "2027-01-15T08:00:00.000Z", "type": "node.started", "job": "flow-1", "node": "fetch", "unit": None,
        "data": {"id": 2},
    }  # fmt: skip
    assert all(list(line) == ["utc", "type", "job", "node", "unit", "data"] for line in lines)
    assert "\x9b" not in (line_of(RunEvent(T, "unit.failed", "j", "n", "u", {"message": "\x9b1m"})).decode())


def test_however_the_file_was_cut_every_event_is_there_once(
    store: Store, job: Job, write: Callable[[Job], list[str]], tmp_path: Path
) -> None:
    story(store, job)
    whole = write(job)
    assert len(whole) == 8
    assert write(job) == whole, "nothing is new"
    file = tmp_path / "events.jsonl"
    text = file.read_bytes()
    for size in range(0, len(text), 7):
        file.write_bytes(text[:size])
        assert sorted(write(job)) == sorted(whole), f"cut after {size} bytes"


def test_several_jobs_share_a_file(
    store: Store, job: Job, write: Callable[[Job], list[str]], tmp_path: Path
) -> None:
    other = job_of(store, "flow-2", ["x"])
    story(store, job)
    first = write(job)
    record_events(store, other.id, [Event("run.started")], T)
    attempt(store, other, 0, 1, "succeeded", T, end="succeeded")
    both = write(other)
    assert both[: len(first)] == first
    assert [json.loads(line)["job"] for line in both[len(first) :]] == ["flow-2"] * 3
    assert write(job) == both


def test_a_job_of_the_same_name_in_a_new_database_is_another_one(
    store: Store, job: Job, write: Callable[[Job], list[str]], tmp_path: Path
) -> None:
    story(store, job)
    before = write(job)
    with Store(SqliteFile(tmp_path / "new.db")) as new:
        again = job_of(new, "flow-1", ["fetch"])
        new.add_node_events(again.id, [NodeEvent(T + 99, "run.started")])
    EventFile(tmp_path / "events.jsonl", lambda: Store(SqliteFile(tmp_path / "new.db")), again).close()
    after = (tmp_path / "events.jsonl").read_text().splitlines()
    assert after[: len(before)] == before
    assert len(after) == len(before) + 1


def test_a_file_with_other_contents_or_another_writer_is_refused(
    store: Store, job: Job, path: Path, tmp_path: Path
) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("my notes")
    with pytest.raises(UsageError, match="has other contents"):
        EventFile(other, lambda: Store(SqliteFile(path)), job)
    assert other.read_text() == "my notes"
    held = EventFile(tmp_path / "events.jsonl", lambda: Store(SqliteFile(path)), job)
    with pytest.raises(UsageError, match="is being written by another run"):
        EventFile(tmp_path / "events.jsonl", lambda: Store(SqliteFile(path)), job)
    held.close()


def test_milliseconds_are_those_of_the_text() -> None:
    for utc in (T + 0.0009999, T + 0.9999999, T + 5.0001, T):
        text = json.loads(line_of(RunEvent(utc, "x", "j", "", "", {})))["utc"]
        assert text.endswith(f"{whole_ms(utc) % 1000:03d}Z")
