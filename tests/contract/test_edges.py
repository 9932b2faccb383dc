"""Every store keeps edges between units, and the requests that are made from the answers of other units."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from headway.errors import DuplicateId, StoreError
from headway.stores.records import Edge, NewUnit, StoredEdge, StoredRoute, UnitChange
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store
from headway.stores.write_batch import Grow, WriteBatch

from .records import MODELS, end, new_job, new_unit, statuses, the_job
from .test_answer_cache import answer, keyed_job

PATH = "/v1/chat/completions"


def job_with_edges(store: Store, *edges: tuple[int, str, int], n: int = 5, name: str = "translate") -> int:
    """A running job. An edge is (the unit that waits, its role, the unit that it waits for)."""
    job = store.add_job(new_job(name))
    route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    store.add_units(job, 0, [new_unit(f"u{index}", route, after=after(index, edges)) for index in range(n)])
    store.seal(job, n, MODELS, "d2")
    store.begin(job, {}, "o", 200.0)
    return job


def after(index: int, edges: tuple[tuple[int, str, int], ...]) -> tuple[Edge, ...]:
    return tuple(Edge(role, before) for unit, role, before in edges if unit == index)


def test_edges_are_read_with_the_status_of_the_unit_before(store: Store) -> None:
    job = job_with_edges(store, (1, "c", 0), (3, "c", 1), (3, "r:x", 0))
    end(store, job, 0, "succeeded")
    assert store.has_edges(job)
    assert store.edges(job, [0, 1, 2, 3]) == [
        StoredEdge(1, "c", 0, "succeeded"),
        StoredEdge(3, "c", 1, "pending"),
        StoredEdge(3, "r:x", 0, "succeeded"),
    ]
    assert store.depended_on(job, [0, 1, 2, 3, 4]) == {0, 1}


def test_a_job_without_edges_has_none(store: Store) -> None:
    job_with_edges(store, (1, "c", 0), name="other")
    job = job_with_edges(store)
    assert not store.has_edges(job)
    assert store.edges(job, [0, 1, 2]) == []
    assert store.depended_on(job, [0, 1, 2]) == set()


def test_an_edge_may_name_the_id_of_a_unit_that_is_added_with_it(store: Store) -> None:
    job = store.add_job(new_job())
    route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    units = [new_unit("join", route, after=(Edge("a", "left"), Edge("b", "right"))), *(new_unit(n, route) for n in ("left", "right"))]  # fmt: skip
    store.add_units(job, 0, units)
    assert [(edge.role, edge.before) for edge in store.edges(job, [0])] == [("a", 1), ("b", 2)]


def test_an_edge_to_an_unknown_id_is_refused(store: Store) -> None:
    job = store.add_job(new_job())
    route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    with pytest.raises(StoreError, match="waits for 'nobody'"):
        store.add_units(job, 0, [new_unit("a", route, after=(Edge("c", "nobody"),))])
    assert store.index_of(job, "a") is None


def test_a_forgotten_job_leaves_no_edges_behind(tmp_path: Path) -> None:
    with Store(SqliteFile(tmp_path / "x.db")) as store:
        job = job_with_edges(store, (1, "c", 0))
        render(store, job, 1, b"[]")
        store.forget(job)
    with closing(sqlite3.connect(tmp_path / "x.db")) as db:
        for table in ("edges", "rendered"):
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


# -- what was sent ---------------------------------------------------------------------------------------------


def render(store: Store, job: int, index: int, body: bytes, chars: int = 7) -> None:
    batch = WriteBatch(job)
    batch.rendered.append((index, body, chars))
    store.commit(batch)


def test_a_request_is_shown_as_it_was_sent_and_its_row_is_kept(store: Store) -> None:
    job = job_with_edges(store, (1, "c", 0))
    [route] = store.routes(job)
    render(store, job, 1, b'{"sent":1}')
    render(store, job, 1, b'{"sent":2}', 9)
    assert store.request(job, 1) == (PATH, b'{"sent":2}')
    assert store.requests(job, [1]) == [(1, PATH, b'{"id":"u1"}')]
    assert [unit.chars for unit in store.next_of_route(job, route.id, 0, -1, 9)] == [0, 9, 0, 0, 0]


def test_the_possible_cost_of_a_lost_attempt_is_that_of_the_rendered_request(store: Store) -> None:
    job = job_with_edges(store, (1, "c", 0))
    render(store, job, 1, b"x" * 500, 480)
    batch = WriteBatch(job)
    batch.intend(1, store.lane("key-a", "alpha/m").id)
    store.commit(batch)
    [unknown] = store.unknown_outcomes(job)
    assert (unknown.index, unknown.size, unknown.chars) == (1, 500, 480)


# -- trying again ----------------------------------------------------------------------------------------------


def test_failed_units_are_retried_with_the_units_that_were_skipped_because_of_them(store: Store) -> None:
    job = job_with_edges(store, (1, "c", 0), (2, "c", 1), (4, "c", 3))
    end(store, job, 0, "failed", code="invalid")
    for index in (1, 2):
        end(store, job, index, "skipped", code="upstream_failed")
    assert store.failed(job) == [0, 1, 2]
    store.begin(job, {}, "o", 200.0, only_failed=True)
    assert statuses(store, job) == ["pending"] * 5
    assert the_job(store).ended == 0


def test_a_skipped_unit_names_the_unit_that_it_depends_on(store: Store) -> None:
    job = job_with_edges(store, (1, "c", 0), (2, "c", 1), (4, "c", 3))
    end(store, job, 3, "timed_out", code="deadline")
    batch = WriteBatch(job)
    batch.change(0, UnitChange("failed", code="invalid", message="no", finished_utc=3.0))
    for index, upstream in ((1, 0), (2, 1), (4, 3)):
        batch.change(index, UnitChange("skipped", code="upstream_failed", finished_utc=3.0))
        batch.skipped.append((index, upstream))
    store.commit(batch)
    assert [(row.code, row.message) for row in store.results(job, -1, 9) if row.status == "skipped"] == [
        ("upstream_failed", "unit 'u0', which it depends on, failed"),
        ("upstream_failed", "unit 'u1', which it depends on, was skipped"),
        ("upstream_failed", "unit 'u3', which it depends on, timed out"),
    ]


def test_a_skipped_unit_with_an_upstream_that_is_not_retried_stays_skipped(store: Store) -> None:
    job = job_with_edges(store, (2, "c", 0), (2, "r", 1), (4, "c", 2))
    end(store, job, 0, "failed", code="invalid")
    end(store, job, 1, "cancelled", code="interrupted")
    for index in (2, 4):
        end(store, job, index, "skipped", code="upstream_failed")
    assert store.failed(job) == [0]
    store.begin(job, {}, "o", 200.0, only_failed=True)
    assert statuses(store, job) == ["pending", "cancelled", "skipped", "pending", "skipped"]
    assert the_job(store).counts["skipped"] == 2


# -- answers of other jobs ---------------------------------------------------------------------------------------


def succeed(store: Store, job: int, *indexes: int) -> None:
    answer(store, job, *indexes, caching=False)


EDGES = ((1, "c", 0), (2, "c", 1), (4, "r", 3))


def test_an_answer_is_adopted_with_the_answers_that_it_depends_on(store: Store) -> None:
    earlier = job_with_edges(store, *EDGES, name="earlier")
    succeed(store, earlier, 0, 1, 2, 3, 4)
    render(store, earlier, 2, b'{"sent":2}')
    job = job_with_edges(store, *EDGES)
    assert store.cache.adopt(job, earlier, -1, 9, 400.0) == [0, 1, 2, 3, 4]
    assert statuses(store, job) == ["cached"] * 5
    assert store.answer(job, 2) == b'{"n":2}'
    assert store.request(job, 2) == (PATH, b'{"sent":2}'), "it shows what was sent for the answer"


def test_a_conversation_may_be_adopted_in_several_pages(store: Store) -> None:
    earlier = job_with_edges(store, *EDGES, name="earlier")
    succeed(store, earlier, 0, 1, 2, 3, 4)
    job = job_with_edges(store, *EDGES)
    for index in range(5):
        assert store.cache.adopt(job, earlier, index - 1, 1, 400.0) == [index]
    assert statuses(store, job) == ["cached"] * 5


def test_an_answer_that_depends_on_answers_of_another_job_is_not_adopted(store: Store) -> None:
    """Unit 0 has the answer of the first job. The second job's answer of unit 1 was made from another answer of unit 0."""
    first = job_with_edges(store, *EDGES, name="first")
    succeed(store, first, 0)
    second = job_with_edges(store, *EDGES, name="second")
    succeed(store, second, 0, 1, 2, 3, 4)
    job = job_with_edges(store, *EDGES)
    assert store.cache.adopt(job, first, -1, 9, 400.0) == [0]
    store.cache.adopt(job, second, -1, 9, 400.0)
    assert statuses(store, job) == ["cached", "pending", "pending", "cached", "cached"]


def test_a_job_with_answers_of_two_jobs_passes_on_those_that_fit_together(store: Store) -> None:
    first = job_with_edges(store, *EDGES, name="first")
    succeed(store, first, 0, 1)
    middle = job_with_edges(store, *EDGES, name="middle")
    store.cache.adopt(middle, first, -1, 9, 400.0)
    succeed(store, middle, 2, 3)
    job = job_with_edges(store, *EDGES)
    store.cache.adopt(job, middle, -1, 9, 400.0)
    assert statuses(store, job) == ["cached", "cached", "cached", "cached", "pending"]


def test_a_unit_whose_request_is_rendered_late_has_no_cache_key(store: Store) -> None:
    job = job_with_edges(store, (1, "c", 0), (3, "c", 2))
    assert [unit.index for unit in store.cache.unkeyed(job, -1, 9)] == [0, 2, 4]


def test_a_unit_that_others_wait_for_does_not_follow_an_equal_request(store: Store) -> None:
    """The scheduler does not see followers, so a unit that others wait for must not be one."""
    waiting: dict[str, object] = {"after": (Edge("c", 1),)}
    job = keyed_job(store, "aaa-", u3=waiting)
    assert store.cache.group(job) == 1
    [route] = store.routes(job)
    assert [unit.index for unit in store.cache.next_of_route(job, route.id, 0, -1, 9)] == [0, 1, 3]


def test_a_repeated_id_is_refused_with_edges_too(store: Store) -> None:
    job = store.add_job(new_job())
    route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    units = [new_unit("a", route), new_unit("a", route, after=(Edge("c", 0),))]
    with pytest.raises(DuplicateId):
        store.add_units(job, 0, units)
    assert not store.has_edges(job)


def test_units_of_a_running_job_may_have_edges(store: Store) -> None:
    job = job_with_edges(store, n=2)
    [route] = store.routes(job)
    batch = WriteBatch(job)
    batch.change(0, UnitChange("succeeded", finished_utc=300.0))
    batch.added.append((2, NewUnit("u2", route.id, PATH, b"{}", after=(Edge("c", 0),))))
    store.commit(batch)
    assert store.edges(job, [2]) == [StoredEdge(2, "c", 0, "succeeded")]
    assert the_job(store).total == 3


# -- units that are added while a job runs -----------------------------------------------------------------------


def children(route: int, wanted: int = 2) -> Grow:
    """Each unit of the first generation adds `wanted` units when it ends; the last of them waits for the others."""

    def grow(store: Store, ended: Sequence[int]) -> list[NewUnit]:
        return [
            new_unit(
                f"u{index}.{n}",
                route,
                priority=n,
                after=tuple(Edge(f"r{m}", f"u{index}.{m}") for m in range(n)),
            )
            for index in ended
            if index < 5
            for n in range(wanted)
        ]

    return grow


def test_a_units_end_and_the_units_that_it_adds_are_one_transaction(store: Store) -> None:
    job = job_with_edges(store)
    [route] = store.routes(job)
    batch = WriteBatch(job, grow=children(route.id))
    batch.change(1, UnitChange("succeeded", finished_utc=300.0))
    batch.change(2, UnitChange("pending"))
    store.commit(batch)
    assert [(index, unit.custom_id) for index, unit in batch.grown] == [(5, "u1.0"), (6, "u1.1")]
    assert the_job(store).total == 7
    assert store.edges(job, [6]) == [StoredEdge(6, "r0", 5, "pending")]
    assert store.routes(job)[0].priorities == (1, 0)


def test_a_unit_is_added_once(store: Store) -> None:
    job = job_with_edges(store)
    [route] = store.routes(job)
    for _ in range(2):
        batch = WriteBatch(job, grow=children(route.id))
        batch.change(1, UnitChange("succeeded", finished_utc=300.0))
        batch.counts.clear()
        store.commit(batch)
    assert batch.grown == []
    assert the_job(store).total == 7


def test_units_that_ended_without_a_batch_grow_the_job_later(store: Store) -> None:
    """Units get answers from the cache and from other jobs without a batch. A failure may add units, too."""
    job = job_with_edges(store)
    [route] = store.routes(job)
    end(store, job, 0, "succeeded")
    end(store, job, 3, "failed")
    grown, _ = store.grow(job, children(route.id))
    assert [unit.custom_id for _, unit in grown] == ["u0.0", "u0.1", "u3.0", "u3.1"]
    assert store.grow(job, children(route.id)) == ([], [5, 6, 7, 8])
    assert the_job(store).total == 9


def test_a_job_without_ends_is_looked_at_once(store: Store) -> None:
    job = job_with_edges(store)
    [route] = store.routes(job)
    calls: list[list[int]] = []

    def grow(store: Store, ended: Sequence[int]) -> list[NewUnit]:
        calls.append(list(ended))
        return [new_unit("first", route.id)]

    assert [index for index, _ in store.grow(job, grow).added] == [5]
    assert calls == [[]]


def test_a_batch_may_look_for_units_although_none_has_ended(store: Store) -> None:
    job = job_with_edges(store)
    [route] = store.routes(job)
    calls: list[list[int]] = []

    def grow(store: Store, ended: Sequence[int]) -> list[NewUnit]:
        calls.append(list(ended))
        return [new_unit("more", route.id)]

    for look in (False, True):
        batch = WriteBatch(job, grow=grow)
        batch.change(1, UnitChange("pending"))
        batch.look = look
        store.commit(batch)
    assert calls == [[]]
    assert [unit.custom_id for _, unit in batch.grown] == ["more"]


def test_growth_that_fails_records_nothing(store: Store) -> None:
    job = job_with_edges(store)
    [route] = store.routes(job)

    def serial(store: Store, ended: Sequence[int]) -> list[NewUnit]:
        return [new_unit("s", route.id, serial=True)]

    batch = WriteBatch(job, grow=serial)
    batch.change(1, UnitChange("succeeded", finished_utc=300.0))
    with pytest.raises(StoreError, match="cannot be serial"):
        store.commit(batch)
    assert statuses(store, job) == ["pending"] * 5
