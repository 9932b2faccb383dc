"""Events of nodes, and the aggregates of nodes by the route of their units."""

from __future__ import annotations

from contextlib import suppress

from headway.stores.records import (
    Attempt,
    NewJob,
    NewUnit,
    NodeEvent,
    NodeExecutions,
    RouteTimes,
    RouteUnits,
    StoredRoute,
    UnitChange,
)
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch


def job_of(store: Store, name: str) -> tuple[int, int]:
    """A job with two units of one node: its number, and that of the route."""
    job = store.add_job(NewJob(name, "flow", "flow.yaml", name, "", 0.0))
    route = store.add_route(job, StoredRoute("alpha", "openai", "m", label="review"))
    store.add_units(job, 0, [NewUnit(f"review[{n}]", route, "/v1", b"{}") for n in range(2)])
    store.seal(job, 2, {}, name)
    return job, route


def test_events_come_back_in_order_from_where_one_stopped(store: Store) -> None:
    job, other = job_of(store, "a")[0], job_of(store, "b")[0]
    events = [
        NodeEvent(1.0, "run.started"),
        NodeEvent(2.0, "node.failed", "review", "review", b'{"reason":"no"}'),
    ]
    store.add_node_events(job, events)
    store.add_node_events(other, [NodeEvent(3.0, "run.started")])
    first, second = store.node_events(job)
    assert (second.type, second.node, second.unit, second.data) == (
        "node.failed",
        "review",
        "review",
        b'{"reason":"no"}',
    )
    assert store.node_events(job, first.id) == [second]
    assert store.node_events(job, 0, 1) == [first]


def test_events_are_a_part_of_the_transaction_around_them(store: Store) -> None:
    job, _ = job_of(store, "a")
    with suppress(ZeroDivisionError), store.one_commit():
        store.add_node_events(job, [NodeEvent(1.0, "run.started")])
        raise ZeroDivisionError
    assert store.node_events(job) == []


def test_a_removed_job_leaves_no_events(store: Store) -> None:
    job, other = job_of(store, "a")[0], job_of(store, "b")[0]
    for number in (job, other):
        store.add_node_events(number, [NodeEvent(1.0, "run.started")])
    store.forget(job)
    assert store.node_events(job) == []
    assert len(store.node_events(other)) == 1


def test_executions_count_by_their_last_event(store: Store) -> None:
    job, _ = job_of(store, "a")
    for number, kind in ((0, "node.started"), (1, "node.started"), (0, "node.failed"), (1, "node.finished")):
        data = b'{"reason":"x"}' if kind == "node.failed" else b"{}"
        store.add_node_events(job, [NodeEvent(float(number), kind, "stage", f"stage#{number}", data)])
    types = ("node.started", "node.failed", "node.finished")
    assert store.node_executions(job, types) == [
        NodeExecutions("stage", "node.failed", 1, "stage#0", '{"reason":"x"}'),
        NodeExecutions("stage", "node.finished", 1, "stage#1", "{}"),
    ]
    assert store.node_spans(job) == {"stage": (0.0, 1.0)}


def test_the_times_of_a_node_are_those_of_all_attempts_at_its_units(store: Store) -> None:
    job, route = job_of(store, "a")
    lane = store.lane("k", "alpha/m").id
    batch = WriteBatch(job)
    batch.attempts += [
        Attempt(0, 1, lane, "throttled", started_utc=1.0, finished_utc=2.0),
        Attempt(0, 2, lane, "succeeded", started_utc=5.0, finished_utc=7.0, cost_usd=0.5),
    ]
    batch.change(0, UnitChange("succeeded", 1, lane, started_utc=5.0, finished_utc=7.0))
    store.commit(batch)
    assert store.route_times(job) == [RouteTimes(route, 1.0, 7.0, 2, 1, 0.5)]
    assert sorted(store.route_units(job), key=lambda row: row.status) == [
        RouteUnits(route, "pending", 1, None, None),
        RouteUnits(route, "succeeded", 1, 5.0, 7.0),
    ]
    assert [unit.custom_id for unit in store.units_of_label(job, "review", 1)] == ["review[0]"]


def test_units_that_failed_come_first(store: Store) -> None:
    job, _ = job_of(store, "a")
    batch = WriteBatch(job)
    batch.change(1, UnitChange("failed", 1, message="no", finished_utc=1.0))
    store.commit(batch)
    assert [(one.custom_id, one.message) for one in store.units_of_label(job, "review", -1)] == [
        ("review[1]", "no"),
        ("review[0]", ""),
    ]


def test_ends_that_no_attempt_made(store: Store) -> None:
    job, _ = job_of(store, "a")
    batch = WriteBatch(job)
    batch.change(0, UnitChange("cancelled", code="cancelled", message="", finished_utc=9.0))
    store.commit(batch)
    assert [one.custom_id for one in store.other_ends_among(job, [0, 1])] == ["review[0]"]
    assert [one.custom_id for one in store.other_ends_since(job, 9.0)] == ["review[0]"]
    assert store.other_ends_since(job, 9.1) == []
