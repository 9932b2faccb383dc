"""The contract of a store, run over every database."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from headway.core.model import Kind
from headway.core.reasons import AccountRefused
from headway.errors import DuplicateId, StoreError
from headway.stores.claims import FIRST_CLIENT
from headway.stores.records import (
    Attempt,
    AttemptView,
    ControlRequest,
    Family,
    Job,
    JobEvent,
    LatencyFigures,
    NewJob,
    NewUnit,
    PendingUnit,
    RecordedStart,
    StoredRoute,
    TurnTotals,
    UnitChange,
    UnitEndRow,
    UnitResult,
    UnknownOutcome,
    UsageSample,
    UsageTotals,
)
from headway.stores.store import CHUNK_BYTES, Store, chunks
from headway.stores.write_batch import WriteBatch

from .records import (
    MODELS,
    begun,
    end,
    intend,
    new_job,
    new_unit,
    note_running,
    ready_job,
    started,
    statuses,
    the_job,
)

# -- jobs ----------------------------------------------------------------------------------------------------


def test_a_new_job_is_ingesting_and_has_the_given_fields(store: Store) -> None:
    number = store.add_job(NewJob("review", "flow", "a.yaml", "d0", "o.jsonl", 12.5))

    job = the_job(store, "review")
    assert (job.id, job.name, job.kind, job.state) == (number, "review", "flow", "ingesting")
    assert (job.input, job.digest, job.out, job.created_utc) == ("a.yaml", "d0", "o.jsonl", 12.5)
    assert (job.models, job.settings, job.unfinished) == ({}, {}, {})
    assert (job.total, job.serial, job.ended, job.good) == (0, 0, 0, 0)
    assert (job.attempts, job.refused, job.input_tokens, job.output_tokens, job.cost_usd) == (0, 0, 0, 0, 0.0)
    assert (job.started_utc, job.finished_utc) == (None, None)
    assert set(job.counts) == {"succeeded", "failed", "timed_out", "cached", "skipped", "cancelled"}


def test_jobs_are_listed_newest_first(store: Store) -> None:
    for name in ("one", "two", "three"):
        store.add_job(new_job(name))

    assert [job.name for job in store.jobs()] == ["three", "two", "one"]
    assert store.job("four") is None


def test_a_job_name_is_unique(store: Store) -> None:
    store.add_job(new_job("one"))

    with pytest.raises(StoreError, match="a job 'one' already"):
        store.add_job(new_job("one"))
    assert len(store.jobs()) == 1


def test_find_or_add_adds_a_missing_job_once(store: Store) -> None:
    def is_same(job: Job) -> bool:
        return job.digest == "d1"

    added, is_new = store.find_or_add(new_job("one"), is_same)
    assert (added.name, added.state, is_new) == ("one", "ingesting", True)
    assert store.job("one") == added

    assert store.find_or_add(new_job("another"), is_same) == (added, False), "also while it takes in units"
    store.seal(added.id, 0, MODELS, "d1")
    assert store.find_or_add(new_job("another"), is_same) == (the_job(store, "one"), False)
    assert len(store.jobs()) == 1


def test_find_or_add_returns_the_newest_match(store: Store) -> None:
    for name in ("one", "two", "three"):
        store.add_job(new_job(name))

    found, is_new = store.find_or_add(new_job("four"), lambda job: job.name != "three")
    assert (found.name, is_new) == ("two", False)


def test_a_job_whose_name_is_taken_gets_a_number(store: Store) -> None:
    names = [store.find_or_add(new_job("one"), lambda job: False)[0].name for _ in range(3)]

    assert names == ["one", "one-2", "one-3"]


def test_nothing_is_added_if_the_comparison_fails(store: Store) -> None:
    store.add_job(new_job("one"))

    with pytest.raises(ZeroDivisionError):
        store.find_or_add(new_job("two"), lambda job: bool(1 // 0))
    assert [job.name for job in store.jobs()] == ["one"]
    assert store.find_or_add(new_job("two"), lambda job: False)[1]


def test_no_thread_sees_half_a_batch(open_store: Callable[[], Store]) -> None:
    size, rounds, seen = 50, 20, set[int]()
    with open_store() as store:
        job, worker, _ = begun(store, size * rounds)
    ended = threading.Event()

    def look() -> None:
        with open_store() as own:
            while not ended.is_set():
                seen.add(own.per_lane(job)["alpha/m"].get("succeeded", 0))

    with ThreadPoolExecutor(1) as threads, open_store() as store:
        looking = threads.submit(look)
        for first in range(0, size * rounds, size):
            batch = WriteBatch(job, worker)
            for index in range(first, first + size):
                batch.change(index, UnitChange("succeeded", finished_utc=300.0))
            store.commit(batch)
        ended.set()
        looking.result()

    assert {count % size for count in seen} == {0}


def test_of_many_threads_at_once_one_adds_the_job(open_store: Callable[[], Store]) -> None:
    together = threading.Barrier(8)

    def look() -> tuple[str, bool]:
        with open_store() as own:
            together.wait(30)
            job, is_new = own.find_or_add(new_job("one"), lambda job: job.digest == "d1")
        return job.name, is_new

    with ThreadPoolExecutor(8) as threads:
        results = [done.result() for done in [threads.submit(look) for _ in range(8)]]

    assert sorted(results) == [("one", False)] * 7 + [("one", True)]


def test_the_salt_stays_the_same(store: Store) -> None:
    assert len(store.salt()) == 32
    assert store.salt() == store.salt()


# -- routes and units ----------------------------------------------------------------------------------------


def test_routes_belong_to_one_job_and_are_in_order(store: Store) -> None:
    job, other = store.add_job(new_job("one")), store.add_job(new_job("two"))
    first = store.add_route(job, StoredRoute("beta", "openai", "m"))
    second = store.add_route(job, StoredRoute("alpha", "anthropic", "c"))
    store.add_route(other, StoredRoute("beta", "openai", "m"))

    assert store.routes(job) == [
        StoredRoute("beta", "openai", "m", first),
        StoredRoute("alpha", "anthropic", "c", second),
    ]


def test_adding_a_route_again_returns_the_same_number(store: Store) -> None:
    job = store.add_job(new_job())
    number = store.add_route(job, StoredRoute("alpha", "openai", "m"))

    assert store.add_route(job, StoredRoute("alpha", "openai", "m")) == number
    assert len(store.routes(job)) == 1


def test_a_unit_keeps_all_its_fields(store: Store) -> None:
    job = store.add_job(new_job())
    route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    body = '{"text":"naïve 日本 \\u0000"}'.encode()
    unit = new_unit("naïve/日本 '\"", route, chars=7, max_tokens=-1, priority=3, metadata=b'{"k":1}')
    store.add_units(job, 0, [new_unit("a", route), unit])

    assert store.request(job, 0) == ("/v1/chat/completions", b'{"id":"a"}')
    assert store.index_of(job, "naïve/日本 '\"") == 1
    assert store.index_of(job, "b") is None
    assert store.next_of_route(job, route, 3, -1, 9) == [PendingUnit(1, 7, -1, 3, route, size=len(unit.body))]
    [_, result] = store.results(job, -1, 9)
    assert (result.custom_id, result.metadata) == ("naïve/日本 '\"", b'{"k":1}')
    store.add_units(job, 2, [NewUnit("c", route, "/v1/embeddings", body)])
    assert store.request(job, 2) == ("/v1/embeddings", body)


def test_units_can_be_added_in_chunks(store: Store) -> None:
    job = store.add_job(new_job())
    route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    first = 0
    for chunk in chunks((new_unit(f"u{n}", route) for n in range(7)), 3):
        store.add_units(job, first, chunk)
        first += len(chunk)

    assert [result.custom_id for result in store.results(job, -1, 99)] == [f"u{n}" for n in range(7)]
    assert store.index_of(job, "u5") == 5


@pytest.mark.parametrize("ids", [("c", "d", "c"), ("c", "a", "d"), ("b",)])
def test_a_repeated_id_is_named_and_its_chunk_leaves_nothing(store: Store, ids: tuple[str, ...]) -> None:
    job = store.add_job(new_job())
    route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    store.add_units(job, 0, [new_unit("a", route), new_unit("b", route)])

    with pytest.raises(DuplicateId) as caught:
        store.add_units(job, 2, [new_unit(custom_id, route) for custom_id in ids])

    assert caught.value.custom_id in ids
    assert caught.value.custom_id in ("a", "b", "c")
    assert [result.custom_id for result in store.results(job, -1, 99)] == ["a", "b"]
    store.add_units(job, 2, [new_unit("c", route)])
    assert store.index_of(job, "c") == 2


def test_two_jobs_may_use_the_same_ids(store: Store) -> None:
    one, _ = ready_job(store, 3, "one")
    two, _ = ready_job(store, 3, "two")

    assert store.index_of(one, "u2") == store.index_of(two, "u2") == 2
    end(store, one, 2, "failed")
    assert (statuses(store, one)[2], statuses(store, two)[2]) == ("failed", "pending")


def test_seal_finds_the_priorities_of_each_route_and_the_serial_units(store: Store) -> None:
    job = store.add_job(new_job())
    a, b, c = (store.add_route(job, StoredRoute("alpha", "openai", model)) for model in "abc")
    units = [new_unit(f"u{n}", a, priority=priority) for n, priority in enumerate((0, 5, -2, 5))]
    units += [new_unit("v", b, priority=1, serial=True), new_unit("w", b, priority=1)]
    store.add_units(job, 0, units)
    store.seal(job, 6, MODELS, "d9")

    assert [(route.id, route.priorities) for route in store.routes(job)] == [
        (a, (5, 0, -2)),
        (b, (1,)),
        (c, (0,)),
    ]
    sealed = the_job(store)
    assert (sealed.state, sealed.total, sealed.serial, sealed.digest) == ("ready", 6, 1, "d9")
    assert sealed.models == MODELS


def test_a_forgotten_job_leaves_nothing_and_others_stay(store: Store) -> None:
    kept, _ = ready_job(store, 2, "kept")
    job, worker, lane = begun(store, 3, "gone")
    batch = WriteBatch(job, worker)
    batch.attempts.append(started(0, 210.0, lane))
    batch.answers.append((0, 200, "r", b"{}"))
    batch.change(0, UnitChange("succeeded", 1, finished_utc=211.0))
    batch.events.append(JobEvent(210.0, None, "note", "text"))
    batch.claims[lane], batch.seen_utc = b"{}", 210.0
    store.commit(batch)
    store.add_command(job, "pause", {}, 211.0)

    store.forget(job)

    assert [each.name for each in store.jobs()] == ["kept"]
    assert_empty(store, job)
    assert store.starts_since(0.0) == []
    assert statuses(store, kept) == ["pending", "pending"]


def test_a_new_job_inherits_nothing_from_a_forgotten_one(store: Store) -> None:
    job, _, _ = begun(store, 2)
    store.add_command(job, "cancel", {}, 211.0)
    store.forget(job)

    assert_empty(store, store.add_job(new_job()))


def assert_empty(store: Store, job: int) -> None:
    assert store.results(job, -1, 9) == []
    assert store.routes(job) == []
    assert store.events(job) == []
    assert store.workers(job) == []
    assert store.open_commands(job) == []
    assert claims_of_others(store, job + 1, 210.0) == []
    assert store.pending(job) == {}
    assert store.first_unended(job) is None
    assert store.failures(job) == []
    assert store.per_lane(job) == {}
    assert store.index_of(job, "u0") is None


# -- claims ------------------------------------------------------------------------------------------------


def claims_of_others(store: Store, job: int, utc: float) -> list[tuple[int, str, bytes]]:
    """The claims that count at this time; a server goes by its own clock."""
    news = store.claims.news(job, 0, utc)
    return [(one.lane, one.name, one.claim) for one in news.changed if one.claimant in news.present]


def claim(store: Store, job: int, worker: int, claims: dict[int, bytes], utc: float) -> None:
    batch = WriteBatch(job, worker)
    batch.claims, batch.seen_utc = claims, utc
    store.commit(batch)


def test_a_client_claims_a_lane_as_a_job_does_and_has_no_name(store: Store) -> None:
    job, _, lane = begun(store, 1)
    client, record = FIRST_CLIENT + 1, {lane: (b"{}", b"{}", 300.0)}
    store.claims.renew_client(client, [(lane, b'{"weight":1}')], record, 300.0)

    assert claims_of_others(store, job, 300.0) == [(lane, "", b'{"weight":1}')]
    assert claims_of_others(store, client, 300.0) == []
    assert [one.updated_utc for one in store.lanes() if one.id == lane] == [300.0]
    store.claims.end_client(client, {}, 300.0)
    assert claims_of_others(store, job, 300.0) == []


def test_a_look_at_claims_brings_what_has_changed(store: Store) -> None:
    (job, _, lane), (other, worker, _) = begun(store, 1), begun(store, 1, "other")
    second = store.lane("second", "alpha/n").id
    claim(store, other, worker, {lane: b"1", second: b"2"}, 300.0)

    first = store.claims.news(job, 0, 301.0)
    assert {(one.lane, one.claim, one.lane_name) for one in first.changed} == {
        (lane, b"1", "alpha/m"),
        (second, b"2", "alpha/n"),
    }
    assert first.present == {one.claimant for one in first.changed} == {worker}
    assert store.claims.news(job, first.known, 301.0) == msgspec.structs.replace(
        first, changed=(), anew=False
    )
    assert store.claims.news(other, 0, 301.0).changed == (), "a job does not compete with itself"

    claim(store, other, worker, {second: b"3"}, 302.0)
    assert [one.claim for one in store.claims.news(job, first.known, 302.0).changed] == [b"3"]

    claim(store, other, worker, {}, 303.0)
    assert claims_of_others(store, job, 303.0) == [(lane, "other", b"1"), (second, "other", b"3")]
    store.end_run(other, worker, "complete", 311.0, {})
    assert claims_of_others(store, job, 303.0) == []


def test_a_new_run_of_a_job_is_another_claimant(store: Store) -> None:
    (job, _, lane), (other, worker, _) = begun(store, 1), begun(store, 1, "other")
    claim(store, other, worker, {lane: b"1"}, 300.0)
    again = store.begin(other, {}, "", 300.0)
    assert claims_of_others(store, job, 300.0) == []
    claim(store, other, again, {}, 300.0)
    news = store.claims.news(job, 0, 300.0)
    assert news.present == {again}
    assert not news.changed


# -- looking -------------------------------------------------------------------------------------------------


def test_results_come_by_index_a_page_at_a_time(store: Store) -> None:
    job, _ = ready_job(store, 7)
    ready_job(store, 3, "other")

    pages = [[each.index for each in store.results(job, after, 3)] for after in (-1, 2, 5, 6)]

    assert pages == [[0, 1, 2], [3, 4, 5], [6], []]


def test_a_result_has_every_column(store: Store) -> None:
    job = store.add_job(new_job())
    route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    store.add_units(
        job, 0, [new_unit("a", route, metadata=b"{}"), new_unit("b", route), new_unit("c", route)]
    )
    store.seal(job, 3, MODELS, "d")
    worker = store.begin(job, {}, "o", 200.0)
    lane = store.lane("key-a", "alpha/m").id
    batch = WriteBatch(job, worker)
    good = UnitChange("succeeded", 2, lane, None, None, None, 210.0, 215.0, 11, 22, 3, 0.25)
    batch.change(0, good)
    batch.answers.append((0, 200, "req-1", b'{"ok":true}'))
    batch.change(1, UnitChange("failed", 1, lane, "invalid", "no such field", None, 211.0, 212.0))
    store.commit(batch)

    assert store.results(job, -1, 9) == [
        UnitResult(
            0, "a", "succeeded", "alpha/m", 2, 11, 22, 3, 0.25, 210.0, 215.0, None, None, b"{}", 200, "req-1",
            b'{"ok":true}', "alpha", "m",
        ),
        UnitResult(
            1, "b", "failed", "alpha/m", 1, None, None, None, None, 211.0, 212.0, "invalid", "no such field", None, None,
            None, None, "alpha", "m",
        ),
        UnitResult(
            2, "c", "pending", None, 0, None, None, None, None, None, None, None, None, None, None, None, None, "alpha",
            "m",
        ),
    ]  # fmt: skip


def test_a_unit_that_ended_without_a_try_has_no_cost(store: Store) -> None:
    job, _, _ = begun(store, 2)
    end(store, job, 0, "skipped", code="interrupted", message="stopped")

    [skipped, untouched] = store.results(job, -1, 9)
    assert (skipped.cost_usd, untouched.cost_usd) == (None, None)


def test_an_unknown_cost_is_none_and_not_zero(store: Store) -> None:
    job, _, lane = begun(store, 3)
    batch = WriteBatch(job)
    batch.change(0, UnitChange("succeeded", 1, lane, cost_usd=None))
    batch.change(1, UnitChange("succeeded", 1, lane, cost_usd=0.0))
    batch.change(2, UnitChange("pending", 1, lane, cost_usd=0.5))
    store.commit(batch)
    batch = WriteBatch(job)
    batch.change(2, UnitChange("succeeded", 1, lane, cost_usd=None))
    store.commit(batch)

    assert [result.cost_usd for result in store.results(job, -1, 9)] == [None, 0.0, 0.5]


def test_usage_of_attempts_adds_up_by_route_and_for_the_job(store: Store) -> None:
    job, route = ready_job(store)
    other = store.add_route(job, StoredRoute("beta", "openai", "n"))
    lane = store.lane("key-a", "alpha/m").id
    for _ in range(2):
        batch = WriteBatch(job)
        use = batch.use(route)
        use.attempts, use.refused, use.lane = 4, 1, lane
        use.add_reported(10, 5, 0.25, used=True)
        use.add_reported(10, 0, 0.5, used=False)
        use.add_unreported(2.0)
        batch.use(other).add_reported(1, 1, None, used=True)
        store.commit(batch)

    by_route = store.use_by_route(job)
    assert by_route[route] == UsageTotals(
        attempts=8, refused=2, input_tokens=40, output_tokens=10, cost_usd=1.5, repeated=2, repeated_usd=1.0,
        repeated_tokens=20, unsure=2, unsure_usd=4.0, lane=lane,
    )  # fmt: skip
    assert by_route[other] == UsageTotals(input_tokens=2, output_tokens=2, unpriced=2)
    assert (by_route[route].known_usd, by_route[other].known_usd) == (1.5, None)
    assert store.use_by_lane() == {lane: by_route[route]}
    now = the_job(store)
    assert (now.attempts, now.refused, now.input_tokens, now.output_tokens) == (8, 2, 42, 12)
    assert (now.cost_usd, now.unpriced, now.repeated, now.repeated_usd) == (1.5, 2, 2, 1.0)
    assert (now.saved_usd, now.saved_tokens, now.unsure, now.unsure_usd) == (0.5, 34, 2, 4.0)


def test_costs_add_up_over_attempts_and_the_latest_usage_counts(store: Store) -> None:
    job, _, lane = begun(store, 1)
    for status, tokens, cost in (("pending", 5, 0.5), ("succeeded", 7, 0.25)):
        batch = WriteBatch(job)
        batch.change(0, UnitChange(status, 1, lane, input_tokens=tokens, cost_usd=cost))
        store.commit(batch)

    [result] = store.results(job, -1, 9)
    assert (result.attempts, result.input_tokens, result.cost_usd) == (2, 7, 0.75)


def test_a_change_without_lane_and_start_keeps_them(store: Store) -> None:
    job, _, lane = begun(store, 1)
    intend(store, job, lane, 0)
    note_running(store, job, 210.0, 0)
    end(store, job, 0, "failed", tries=1)

    [result] = store.results(job, -1, 9)
    assert (result.lane, result.started_utc, result.finished_utc) == ("alpha/m", 210.0, 300.0)


def test_a_later_answer_replaces_an_earlier_one(store: Store) -> None:
    job, _, _ = begun(store, 1)
    for body, status in ((b"1", "failed"), (b"2", "succeeded")):
        batch = WriteBatch(job)
        batch.reopen(0)
        batch.answers.append((0, 200, None, body))
        batch.change(0, UnitChange(status, 1, finished_utc=1.0))
        store.commit(batch)

    [result] = store.results(job, -1, 9)
    assert (result.body, result.status_code, result.request_id) == (b"2", 200, None)


def test_first_unended_passes_over_ended_units_only(store: Store) -> None:
    job, _, lane = begun(store, 4)
    assert store.first_unended(job) == 0
    for index, status in enumerate(("succeeded", "cached", "skipped")):
        end(store, job, index, status)
    assert store.first_unended(job) == 3
    intend(store, job, lane, 3)
    assert store.first_unended(job) == 3
    note_running(store, job, 1.0, 3)
    assert store.first_unended(job) == 3
    end(store, job, 3, "timed_out")
    assert store.first_unended(job) is None


def test_attempts_are_in_order_with_every_column(store: Store) -> None:
    job, worker, lane = begun(store, 2)
    limit = b'{"source":"header","retry_after_s":2.5}'
    first = Attempt(0, 1, lane, "throttled", "rate", "slow down", 429, "r1", 10.0, 11.0, rate_limit=limit)
    second = Attempt(
        0, 2, lane, "succeeded", None, None, 200, "r2", 12.0, 13.0, 4, 5, 1, 0.5, (1.0, 9.0, 4.0, 5.0)
    )
    for attempt in (first, second):
        batch = WriteBatch(job, worker)
        batch.attempts.append(attempt)
        store.commit(batch)

    assert store.attempts(job, 0) == [
        AttemptView(1, worker, "alpha/m", "throttled", "rate", "slow down", 429, "r1", 10.0, 11.0, None, None, None, 0.0,
             {"source": "header", "retry_after_s": 2.5}),
        AttemptView(2, worker, "alpha/m", "succeeded", None, None, 200, "r2", 12.0, 13.0, 4, 5, 1, 0.5, None),
    ]  # fmt: skip
    assert store.attempts(job, 1) == []


def test_failures_are_grouped_by_code_the_most_frequent_first(store: Store) -> None:
    job, _, _ = begun(store, 9)
    ends = [
        ("failed", "invalid", "bad 0"), ("timed_out", "timeout", "late 1"), ("succeeded", None, None),
        ("failed", "invalid", "bad 3"), ("failed", "invalid", "bad 4"), ("cancelled", None, None),
        ("failed", "auth", "no 6"), ("skipped", "auth", "no 7"),
    ]  # fmt: skip
    for index, (status, code, message) in enumerate(ends):
        end(store, job, index, status, code=code, message=message)

    assert store.failures(job) == [
        ("invalid", 3, 0, "bad 0"),
        ("auth", 2, 6, "no 6"),
        ("timeout", 1, 1, "late 1"),
        ("", 1, 5, ""),
    ]
    assert store.failed(job) == [0, 1, 3, 4, 6]


def test_latencies_are_those_of_units_that_succeeded_on_these_routes(store: Store) -> None:
    job = store.add_job(new_job())
    routes = [store.add_route(job, StoredRoute("alpha", "openai", model)) for model in ("a", "b")]
    store.add_units(job, 0, [new_unit(f"u{n}", routes[n % 2]) for n in range(44)])
    store.seal(job, 44, MODELS, "d2")
    for n in range(40):  # Unit n takes n / 2 + 1 seconds on route a, and ten times as long on route b.
        took = (n // 2 + 1) * (10.0 if n % 2 else 1.0)
        end(store, job, n, "succeeded", started_utc=300.0 - took)
    end(store, job, 40, "failed", started_utc=1.0)
    assert store.latencies(job, [routes[0]]) == LatencyFigures(20, 10.5, 10.0, 19.0)
    assert store.latencies(job, [routes[1]]) == LatencyFigures(20, 105.0, 100.0, 190.0)
    both = store.latencies(job, routes)
    assert both is not None
    assert (both.units, both.mean_s) == (40, 57.75)
    assert store.latencies(job, []) is None
    assert store.per_route(job) == {
        routes[0]: {"failed": 1, "pending": 1, "succeeded": 20},
        routes[1]: {"pending": 2, "succeeded": 20},
    }


def test_long_requests_are_added_in_smaller_transactions() -> None:
    short = [NewUnit(str(n), 1, "/p", b"x") for n in range(25)]
    assert [len(chunk) for chunk in chunks(short, 10)] == [10, 10, 5]
    long = [NewUnit(str(n), 1, "/p", bytes(CHUNK_BYTES // 2)) for n in range(5)]
    assert [len(chunk) for chunk in chunks(long, 10)] == [2, 2, 1]


def test_per_lane_counts_statuses_by_provider_and_model(store: Store) -> None:
    job = store.add_job(new_job())
    routes = [store.add_route(job, StoredRoute("alpha", "openai", model)) for model in ("m", "n")]
    store.add_units(job, 0, [new_unit(f"u{n}", routes[n % 2]) for n in range(5)])
    store.seal(job, 5, MODELS, "d")
    end(store, job, 0, "succeeded")
    end(store, job, 1, "failed")

    assert store.per_lane(job) == {
        "alpha/m": {"succeeded": 1, "pending": 2},
        "alpha/n": {"failed": 1, "pending": 1},
    }


def test_events_come_oldest_first_and_after_a_number(store: Store) -> None:
    job, _, _ = begun(store, 1)
    other, _, _ = begun(store, 1, "other")
    noted = [JobEvent(5.0, "alpha/m", "hold", "until 16:00", 9.0), JobEvent(4.0, None, "note", "late news")]
    for each, text in ((job, noted[0]), (other, noted[0]), (job, noted[1])):
        batch = WriteBatch(each)
        batch.events.append(text)
        store.commit(batch)

    first, second = store.events(job)
    assert [(e.at_utc, e.lane, e.what, e.text, e.until_utc) for e in (first, second)] == [
        (5.0, "alpha/m", "hold", "until 16:00", 9.0),
        (4.0, None, "note", "late news", None),
    ]
    assert store.events(job, after=first.id) == [second]
    assert store.events(job, after=second.id) == []


def test_the_record_of_a_lane_can_be_replaced(store: Store) -> None:
    one, other = store.lane("k1", "alpha/x"), store.lane("k2", "beta/y")
    store.keep_lane(one.id, b'{"a":1}', b'{"b":2}', 77.0)
    assert store.lane("k1", "alpha/x") == msgspec.structs.replace(
        one, record=b'{"a":1}', view=b'{"b":2}', updated_utc=77.0
    )
    assert store.lane("k2", "beta/y") == other


def test_a_lane_is_one_for_all_jobs_and_keeps_what_it_learned(store: Store) -> None:
    job, _, number = begun(store, 1)
    other = store.lane("key-b", "alpha/a")
    assert (other.record, other.view, other.updated_utc) == (None, None, None)
    batch = WriteBatch(job)
    batch.lanes[number] = (b'{"rate":2}', '{"note":"ü"}'.encode(), 250.0)
    store.commit(batch)

    again = store.lane("key-a", "alpha/m (new name)")

    assert (again.id, again.key, again.name) == (number, "key-a", "alpha/m (new name)")
    assert (again.record, again.view, again.updated_utc) == (b'{"rate":2}', '{"note":"ü"}'.encode(), 250.0)
    assert store.lanes() == [other, again]


def test_workers_are_recorded_from_begin_to_end(store: Store) -> None:
    job, worker, _ = begun(store, 1)
    [busy] = store.workers(job)
    assert set(busy) == {"id", "name", "pid", "status", "started_utc", "ended_utc", "run", "unit"}
    assert (busy["id"], busy["pid"], busy["status"]) == (worker, os.getpid(), "busy")
    assert (busy["started_utc"], busy["ended_utc"]) == (200.0, None)

    store.end_run(job, worker, "stopped", 300.0, {})
    lost = store.begin(job, {}, "o", 400.0)
    store.begin(job, {}, "o", 500.0)

    workers = [(each["id"] == lost, each["status"], each["ended_utc"]) for each in store.workers(job)]
    assert workers == [(False, "terminated", 300.0), (True, "failed", 400.0), (False, "busy", None)], (
        "nothing ended in it"
    )


# -- running -------------------------------------------------------------------------------------------------


def test_units_of_a_dead_process_have_unknown_outcomes(store: Store) -> None:
    job, _, lane = begun(store, 4)
    [route] = store.routes(job)
    intend(store, job, lane, 1, 2, 3)
    note_running(store, job, 210.0, 2, 3)
    end(store, job, 3, "succeeded", tries=1)

    assert store.unknown_outcomes(job) == [
        UnknownOutcome(1, "u1", False, lane, None, 10, 1, route.id, size=11),
        UnknownOutcome(2, "u2", True, lane, 210.0, 20, 2, route.id, size=11),
    ]


def test_an_intended_unit_does_not_report_the_start_of_an_earlier_attempt(store: Store) -> None:
    job, _, lane = begun(store, 1)
    intend(store, job, lane, 0)
    note_running(store, job, 210.0, 0)
    batch = WriteBatch(job)
    batch.change(0, UnitChange("pending", 1, lane, "transient", "reset"))
    store.commit(batch)
    intend(store, job, lane, 0)

    [unknown] = store.unknown_outcomes(job)
    store.begin(job, {}, "o", 400.0)

    [lost] = store.attempts(job, 0)
    assert (unknown.sent, unknown.started_utc) == (False, None)
    assert (lost.outcome, lost.started_utc) == ("lost", None)
    assert store.starts_since(0.0) == []


@pytest.mark.parametrize("only_failed", [False, True])
def test_begin_reopens_units_records_lost_attempts_and_recounts(store: Store, only_failed: bool) -> None:
    job, _, lane = begun(store, 9)
    ends = ("succeeded", "cached", "failed", "timed_out", "skipped", "cancelled")
    for index, status in enumerate(ends):
        end(store, job, index, status, tries=1, code="x", message="y", not_before_utc=1.0)
    requeued = WriteBatch(job)
    for index in (7, 8):
        requeued.change(index, UnitChange("pending", 1, lane, "rate", "slow down", 250.0))
    store.commit(requeued)
    intend(store, job, lane, 6, 7)
    note_running(store, job, 260.0, 7)
    store.add_command(job, "pause", {}, 270.0)
    assert the_job(store).ended == 6

    store.begin(job, {"concurrency": 9, "only": ["x"]}, "new.jsonl", 400.0, only_failed=only_failed)

    left = ["skipped", "cancelled"] if only_failed else ["pending", "pending"]
    assert statuses(store, job) == ["succeeded", "cached", "pending", "pending", *left, *["pending"] * 3]
    job_now = the_job(store)
    counts = dict.fromkeys(ends, 0) | {"succeeded": 1, "cached": 1}
    assert job_now.counts == counts | ({"skipped": 1, "cancelled": 1} if only_failed else {})
    assert (job_now.state, job_now.started_utc, job_now.finished_utc) == ("running", 200.0, None)
    assert (job_now.settings, job_now.out) == ({"concurrency": 9, "only": ["x"]}, "new.jsonl")
    assert store.unknown_outcomes(job) == []
    assert store.open_commands(job) == []
    for index in (2, 3, 6, 7, 8):
        result = store.results(job, index - 1, 1)[0]
        assert (result.code, result.message, result.finished_utc) == (None, None, None)
    lost = "the process ended before its outcome was recorded"
    nothing = (None, None)
    assert store.attempts(job, 6) == [
        AttemptView(
            1, None, "alpha/m", "lost", "crash", lost, *nothing, None, None, *nothing, None, None, None
        )
    ]
    assert store.attempts(job, 7) == [
        AttemptView(
            2, None, "alpha/m", "lost", "crash", lost, *nothing, 260.0, None, *nothing, None, None, None
        )
    ]
    assert store.attempts(job, 8) == []
    assert [each.attempts for each in store.next_serial(job, -1, 99, every=True)][:2] == [1, 1]


def test_a_command_between_lock_and_begin_is_for_this_run(store: Store) -> None:
    job, _, _ = begun(store, 1)
    store.add_command(job, "pause", {}, 210.0)
    store.add_command(job, "cancel", {}, 220.0)
    store.begin(job, {}, "", 230.0, taken_utc=215.0)
    assert [asked.what for asked in store.open_commands(job)] == ["cancel"]
    store.begin(job, {}, "", 240.0)
    assert store.open_commands(job) == []


def test_begin_touches_no_other_job(store: Store) -> None:
    job, _, lane = begun(store, 2)
    other, _, _ = begun(store, 2, "other")
    intend(store, other, lane, 0)
    end(store, other, 1, "failed")
    store.add_command(other, "pause", {}, 1.0)

    store.begin(job, {}, "o", 400.0)

    assert statuses(store, other) == ["assigned", "failed"]
    assert len(store.open_commands(other)) == 1
    assert [each["status"] for each in store.workers(other)] == ["busy"]


def test_pending_counts_waiting_units_by_route(store: Store) -> None:
    job = store.add_job(new_job())
    a, b = (store.add_route(job, StoredRoute("alpha", "openai", model)) for model in "ab")
    store.add_units(job, 0, [new_unit(f"u{n}", (a, b, b)[n % 3], serial=n == 0) for n in range(6)])
    store.seal(job, 6, MODELS, "d")
    assert store.pending(job) == {a: 2, b: 4}
    intend(store, job, store.lane("k", "n").id, 0, 3)
    end(store, job, 1, "failed")
    assert store.pending(job) == {b: 3}


@pytest.mark.parametrize("n", [7, 8, 31, 32, 45, 100])
def test_a_large_batch_gives_every_unit_its_own_values(store: Store, n: int) -> None:
    job, _, lane = begun(store, n)
    note_running(store, job, 205.0, *range(n))
    batch = WriteBatch(job)
    for index in range(n):
        cost_usd = index / 4 if index % 3 else None  # Some rows have a NULL where others have a number.
        attempt = Attempt(
            index, 1, lane, "succeeded", None, None, 200, f"r{index}", 206.0, 207.0 + index, index, 2 * index, 0, cost_usd,
        )  # fmt: skip
        batch.attempts.append(attempt)
        change = UnitChange(
            "succeeded", 1, lane, None, None, None, None, 207.0 + index, index, 2 * index, 0, cost_usd
        )
        batch.change(index, change)
        batch.answers.append((index, 200, f"r{index}", b'{"n":%d}' % index))
    store.commit(batch)

    results = store.results(job, -1, n + 1)
    assert [result.index for result in results] == list(range(n))
    for index, result in enumerate(results):
        assert (result.custom_id, result.status, result.attempts) == (f"u{index}", "succeeded", 1)
        assert (result.started_utc, result.finished_utc) == (205.0, 207.0 + index)
        assert (result.input_tokens, result.output_tokens) == (index, 2 * index)
        assert result.cost_usd == (index / 4 if index % 3 else None)
        assert (result.request_id, result.body) == (f"r{index}", b'{"n":%d}' % index)
        (attempt_view,) = store.attempts(job, index)
        assert attempt_view.finished_utc == 207.0 + index


def test_all_changes_of_a_unit_in_one_batch_count_and_the_last_one_stays(store: Store) -> None:
    job, _, lane = begun(store, 40)
    batch = WriteBatch(job)
    for index in range(40):
        batch.change(index, UnitChange("pending", 1, lane, "rate", "first", cost_usd=0.5))
    for index in range(0, 40, 2):
        batch.change(index, UnitChange("pending", 1, lane, "rate", "second", cost_usd=0.25))
    batch.change(4, UnitChange("succeeded", 1, lane, finished_utc=300.0))
    store.commit(batch)

    for result in store.results(job, -1, 99):
        if result.index == 4:
            assert (result.status, result.attempts, result.cost_usd, result.message) == (
                "succeeded",
                3,
                0.75,
                None,
            )
        elif result.index % 2:
            assert (result.attempts, result.cost_usd, result.message) == (1, 0.5, "first")
        else:
            assert (result.attempts, result.cost_usd, result.message) == (2, 0.75, "second")


def test_next_of_route_gives_waiting_units_by_index_after_the_cursor(store: Store) -> None:
    job = store.add_job(new_job())
    a, b = (store.add_route(job, StoredRoute("alpha", "openai", model)) for model in "ab")
    units = [
        new_unit(f"u{n}", b if n == 3 else a, chars=n, max_tokens=n, priority=n == 2, serial=n == 4)
        for n in range(9)
    ]
    store.add_units(job, 0, units)
    store.seal(job, 9, MODELS, "d")
    ready_job(store, 5, "other")
    requeued = WriteBatch(job)
    requeued.change(5, UnitChange("pending", 1))
    store.commit(requeued)
    end(store, job, 6, "succeeded")

    assert store.next_of_route(job, a, 0, -1, 3) == [
        PendingUnit(0, 0, 0, 0, a, size=11), PendingUnit(1, 1, 1, 0, a, size=11), PendingUnit(5, 5, 5, 0, a, 1, size=11),
    ]  # fmt: skip
    assert [each.index for each in store.next_of_route(job, a, 0, 5, 99)] == [7, 8]
    assert [each.index for each in store.next_of_route(job, a, 1, -1, 99)] == [2]
    assert [each.index for each in store.next_of_route(job, b, 0, -1, 99)] == [3]
    assert store.next_of_route(job, a, 0, 8, 99) == []


def test_sizes_of_waiting_units_are_read_by_route_and_by_family(store: Store) -> None:
    job = store.add_job(new_job())
    a, b = (store.add_route(job, StoredRoute("alpha", "openai", model)) for model in "ab")
    units = [new_unit(f"u{n}", (a, b)[n % 2], chars=n, max_tokens=10 * n, family=n % 4) for n in range(9)]
    store.add_units(job, 0, units)
    store.seal(job, 9, MODELS, "d")
    ready_job(store, 20, "other")
    end(store, job, 8, "succeeded")

    assert store.last_index(job) == 8
    assert store.last_index(99) == -1
    assert store.sizes_of_route(job, a, 0, 0, 2) == [(2, 2, 20, 2), (4, 4, 40, 0)]
    assert [each[0] for each in store.sizes_of_route(job, b, 0, 3, 99)] == [5, 7]
    assert [each.index for each in store.waiting_units(job, [6, 8, 1])] == [1, 6]
    assert sorted(store.largest_sizes(job, -1, 8)) == [
        (a, 0, 4, 40, 1),
        (a, 2, 6, 60, 0),
        (b, 1, 5, 50, 0),
        (b, 3, 7, 70, 0),
    ]
    assert store.largest_sizes(job, 3, 4) == [(a, 0, 4, 40, 0)]


def test_next_serial_gives_the_serial_units_or_all(store: Store) -> None:
    job = store.add_job(new_job())
    a, b = (store.add_route(job, StoredRoute("alpha", "openai", model)) for model in "ab")
    units = [new_unit(f"u{n}", (a, b)[n % 2], chars=n, priority=-n, serial=n in (1, 4, 5)) for n in range(7)]
    store.add_units(job, 0, units)
    store.seal(job, 7, MODELS, "d")
    ready_job(store, 5, "other")
    end(store, job, 0, "failed")

    assert store.next_serial(job, -1, 2, every=False) == [
        PendingUnit(1, 1, 0, -1, b, size=11),
        PendingUnit(4, 4, 0, -4, a, size=11),
    ]
    assert [each.index for each in store.next_serial(job, 4, 9, every=False)] == [5]
    assert [each.index for each in store.next_serial(job, -1, 3, every=True)] == [1, 2, 3]
    assert [each.index for each in store.next_serial(job, 3, 9, every=True)] == [4, 5, 6]
    assert store.next_serial(job, 6, 9, every=True) == []


# -- a batch -------------------------------------------------------------------------------------------------


def test_a_batch_of_every_kind_of_change(store: Store) -> None:
    job, worker, lane = begun(store, 6)
    intend(store, job, lane, 0, 1, 2)
    command = store.add_command(job, "pause", {}, 205.0)
    batch = WriteBatch(job, worker)
    assert not batch
    batch.intend(3, lane)
    batch.running[1] = 210.0
    batch.release(2)
    batch.change(
        0,
        UnitChange("succeeded", 1, lane, started_utc=206.0, finished_utc=209.0, input_tokens=3, cost_usd=0.5),
    )
    batch.change(4, UnitChange("skipped", code="upstream_failed", message="u0", finished_utc=209.0))
    batch.attempts.append(started(0, 206.0, lane))
    batch.answers.append((0, 200, "r", b"{}"))
    batch.count("attempts")
    batch.count("input_tokens", 3)
    batch.count("output_tokens", 4)
    batch.count("cost_usd", 0.5)
    batch.count("refused")
    batch.count("refused", 2)
    batch.events.append(JobEvent(209.0, None, "note", "text"))
    batch.lanes[lane] = (b"{}", b"[]", 209.0)
    batch.done_commands.append((command, 209.0))
    batch.state = ("paused", None)
    assert batch

    store.commit(batch)

    assert statuses(store, job) == ["succeeded", "running", "pending", "assigned", "skipped", "pending"]
    now = the_job(store)
    assert (now.state, now.finished_utc, now.ended, now.good) == ("paused", None, 2, 1)
    assert (now.counts["succeeded"], now.counts["skipped"]) == (1, 1)
    assert (now.attempts, now.refused, now.input_tokens, now.output_tokens, now.cost_usd) == (1, 3, 3, 4, 0.5)
    assert (len(store.attempts(job, 0)), len(store.events(job)), store.open_commands(job)) == (1, 1, [])
    assert store.lane("key-a", "alpha/m").record == b"{}"
    assert [(each.index, each.sent) for each in store.unknown_outcomes(job)] == [(1, True), (3, False)]


@pytest.mark.parametrize("fill", [
    lambda batch: batch.count("refused"),
    lambda batch: batch.answers.append((0, 200, None, b"{}")),
])  # fmt: skip
def test_a_batch_with_any_change_is_true(fill: Callable[[WriteBatch], None]) -> None:
    batch = WriteBatch(1)
    fill(batch)
    assert batch


def _requeue_then_intent(batch: WriteBatch, lane: int) -> None:
    batch.change(0, UnitChange("pending", 1, lane, "rate", "slow", 250.0))
    batch.intend(0, lane)


def _intent_then_end(batch: WriteBatch, lane: int) -> None:
    batch.intend(0, lane)
    batch.change(0, UnitChange("succeeded", 1, lane, finished_utc=9.0))


def _intent_then_release(batch: WriteBatch, lane: int) -> None:
    batch.intend(0, lane)
    batch.release(0)


def _running_then_end(batch: WriteBatch, lane: int) -> None:
    batch.running[0] = 5.0
    batch.change(0, UnitChange("failed", 1, lane, finished_utc=9.0))


def _intent_and_running(batch: WriteBatch, lane: int) -> None:
    batch.intend(0, lane)
    batch.running[0] = 5.0


def _release_then_intent(batch: WriteBatch, lane: int) -> None:
    batch.release(0)
    batch.intend(0, lane)


def _release_then_end(batch: WriteBatch, lane: int) -> None:
    batch.release(0)
    batch.change(0, UnitChange("cancelled", finished_utc=9.0))


def _release_intent_and_running(batch: WriteBatch, lane: int) -> None:
    _release_then_intent(batch, lane)
    batch.running[0] = 5.0


def _two_tries(batch: WriteBatch, lane: int) -> None:
    _requeue_then_intent(batch, lane)
    batch.running[0] = 5.0
    batch.change(0, UnitChange("succeeded", 1, lane, finished_utc=9.0))


def _requeue_intent_release(batch: WriteBatch, lane: int) -> None:
    _requeue_then_intent(batch, lane)
    batch.release(0)


@pytest.mark.parametrize(
    ("before", "changes", "after", "tries"),
    [
        ("running", _requeue_then_intent, "assigned", 1),
        ("pending", _intent_then_end, "succeeded", 1),
        ("pending", _intent_then_release, "pending", 0),
        ("assigned", _running_then_end, "failed", 1),
        ("pending", _intent_and_running, "running", 0),
        ("assigned", _release_then_intent, "assigned", 0),
        ("assigned", _release_then_end, "cancelled", 0),
        ("assigned", _release_intent_and_running, "running", 0),
        ("running", _two_tries, "succeeded", 2),
        ("running", _requeue_intent_release, "pending", 1),
    ],
)
def test_the_last_change_of_a_unit_wins(
    store: Store, before: str, changes: Callable[[WriteBatch, int], None], after: str, tries: int
) -> None:
    job, _, lane = begun(store, 2)
    if before != "pending":
        intend(store, job, lane, 0)
    if before == "running":
        note_running(store, job, 4.0, 0)
    batch = WriteBatch(job)
    changes(batch, lane)
    store.commit(batch)

    assert statuses(store, job) == [after, "pending"]
    assert store.results(job, -1, 1)[0].attempts == tries
    assert the_job(store).ended == (after in ("succeeded", "failed", "cancelled"))


@pytest.mark.parametrize("first", ["failed", "timed_out", "skipped", "cancelled", "succeeded"])
@pytest.mark.parametrize("then", ["failed", "succeeded", None])
def test_a_reopened_unit_is_counted_in_its_new_state(store: Store, first: str, then: str | None) -> None:
    job, _, lane = begun(store, 2)
    end(store, job, 0, first, code="invalid", message="no")
    batch = WriteBatch(job)
    batch.reopen(0, b'{"new":1}')
    if then is None:
        batch.intend(0, lane)
    assert batch
    store.commit(batch)
    if then is not None and first != "succeeded":
        end(store, job, 0, then)

    expected = first if first == "succeeded" and then else then
    now = the_job(store)
    assert {name: n for name, n in now.counts.items() if n} == (
        {expected: 1} if expected else {"succeeded": 1} if first == "succeeded" else {}
    )
    assert statuses(store, job)[0] == (expected or "assigned")
    assert store.results(job, -1, 1)[0].code is None or first == "succeeded"
    assert store.request(job, 0) == ("/v1/chat/completions", b'{"new":1}')


@pytest.mark.parametrize("counts", [{"failed": -1}, {"succeeded": 3}, {"succeeded": 2, "failed": -1}])
def test_a_batch_that_contradicts_the_counters_records_nothing(store: Store, counts: dict[str, int]) -> None:
    job, _, _ = begun(store, 2)
    end(store, job, 0, "succeeded")
    batch = WriteBatch(job)
    batch.change(1, UnitChange("pending", 1, code="rate"))
    for name, n in counts.items():
        batch.count(name, n)
    with pytest.raises(StoreError, match="does not fit its counters, and was not recorded"):
        store.commit(batch)

    assert the_job(store).counts["succeeded"] == 1
    assert store.results(job, 0, 1)[0].code is None


def test_units_added_later_are_counted(store: Store) -> None:
    job, _, _ = begun(store, 1)
    route = store.routes(job)[0].id
    batch = WriteBatch(job)
    batch.added.append((1, new_unit("late", route)))
    for index in (0, 1):
        batch.change(index, UnitChange("succeeded", 1, finished_utc=9.0))
    store.commit(batch)
    assert (the_job(store).total, the_job(store).good) == (2, 2)


def test_a_batch_changes_only_its_own_job(store: Store) -> None:
    job, _, lane = begun(store, 2)
    other, _, _ = begun(store, 2, "other")
    batch = WriteBatch(job)
    batch.change(0, UnitChange("succeeded", 1, lane, finished_utc=9.0))
    batch.state = ("complete", 9.0)
    store.commit(batch)

    assert (the_job(store).state, the_job(store).finished_utc) == ("complete", 9.0)
    assert (the_job(store, "other").state, statuses(store, other)) == ("running", ["pending", "pending"])


def test_end_run_makes_remaining_units_pending_and_records_why(store: Store) -> None:
    job, worker, lane = begun(store, 4)
    end(store, job, 0, "succeeded")
    intend(store, job, lane, 1, 2)
    note_running(store, job, 210.0, 2)
    route = str(store.routes(job)[0].id)

    store.end_run(job, worker, "parked", 300.0, {route: AccountRefused(Kind.QUOTA, "out of credit")})

    now = the_job(store)
    assert statuses(store, job) == ["succeeded", "pending", "pending", "pending"]
    assert (now.state, now.finished_utc, now.ended) == ("parked", 300.0, 1)
    assert now.unfinished == {route: AccountRefused(Kind.QUOTA, "out of credit")}
    assert store.unknown_outcomes(job) == []
    assert [each["status"] for each in store.workers(job)] == ["terminated"]


# -- commands ------------------------------------------------------------------------------------------------


def test_commands_stay_open_until_they_are_done(store: Store) -> None:
    job, _, _ = begun(store, 1)
    other, _, _ = begun(store, 1, "other")
    pause = store.add_command(job, "pause", {}, 210.0)
    store.add_command(other, "pause", {}, 210.0)
    limit = store.add_command(job, "limit", {"lane": "alpha/m", "rpm": 60, "more": [1, None]}, 211.0)

    more = {"lane": "alpha/m", "rpm": 60, "more": [1, None]}
    assert store.open_commands(job) == [
        ControlRequest(pause, "pause", {}),
        ControlRequest(limit, "limit", more),
    ]
    batch = WriteBatch(job)
    batch.done_commands.append((pause, 212.0))
    store.commit(batch)
    assert [asked.id for asked in store.open_commands(job)] == [limit]
    assert len(store.open_commands(other)) == 1


# -- starts --------------------------------------------------------------------------------------------------


def test_starts_since_an_instant_come_oldest_first_over_all_jobs(store: Store) -> None:
    job, worker, lane = begun(store, 3)
    other, _, _ = begun(store, 1, "other")
    second = store.lane("key-b", "beta/m").id
    batch = WriteBatch(job, worker)
    batch.attempts += [
        started(0, 230.0, lane, charged=(1.0, 30.0, 10.0, 20.0)),
        started(1, 210.0, lane),
        started(2, 220.0, second, charged=(1.0, 5.0, 0.0, 0.0)),
        Attempt(2, 2, lane, "cancelled"),
    ]
    store.commit(batch)
    batch = WriteBatch(other)
    batch.attempts.append(started(0, 225.0, lane))
    store.commit(batch)

    assert store.starts_since(220.0) == [
        RecordedStart(second, 220.0, (1.0, 5.0, 0.0, 0.0)),
        RecordedStart(lane, 225.0, (1.0, 0.0, 0.0, 0.0)),
        RecordedStart(lane, 230.0, (1.0, 30.0, 10.0, 20.0)),
    ]
    assert store.starts_since(231.0) == []


def test_every_start_is_returned_once_over_many_pages(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.stores.store.STARTS_STEP", 3)
    job, _, lane = begun(store, 5)
    gone, _, _ = begun(store, 5, "gone")
    for round_ in range(4):
        for each in (job, gone):
            batch = WriteBatch(each)
            batch.attempts += [started(index, 200.0 + 10 * round_ + index, lane) for index in range(5)]
            store.commit(batch)
    store.forget(gone)

    assert [start.at_utc for start in store.starts_since(212.0)] == [
        *(212.0 + n for n in range(3)),
        *(220.0 + n for n in range(5)),
        *(230.0 + n for n in range(5)),
    ]


def test_a_lost_attempt_counts_as_a_start(store: Store) -> None:
    job, _, lane = begun(store, 1)
    intend(store, job, lane, 0)
    note_running(store, job, 210.0, 0)
    store.begin(job, {}, "o", 400.0)

    assert store.starts_since(200.0) == [RecordedStart(lane, 210.0, (1.0, 0.0, 0.0, 0.0))]


# -- lessons ------------------------------------------------------------------------------------------------------


def taught(store: Store, name: str, tokens: int) -> None:
    """A job of four units: one succeeded, one failed, one succeeded without usage, one is pending."""
    job, _, _ = begun(store, 4, name)
    used = {"started_utc": 299.5, "input_tokens": tokens, "output_tokens": 5, "cached_tokens": 1}
    end(store, job, 1, "succeeded", **used)
    end(store, job, 2, "failed", **used)
    end(store, job, 3, "succeeded", started_utc=299.0)
    batch = WriteBatch(job)
    batch.count("succeeded")
    store.commit(batch)


def test_usage_samples_of_a_model_have_the_newest_job_first(store: Store) -> None:
    assert store.usage_samples("alpha", "m", 10) == []
    taught(store, "one", 3)
    taught(store, "two", 4)

    newest, oldest = (store.routes(job.id)[0].id for job in store.jobs())
    assert store.usage_samples("alpha", "m", 10) == [
        UsageSample(10, 1, 4, 5, 1, 0.5, newest),
        UsageSample(10, 1, 3, 5, 1, 0.5, oldest),
    ]
    assert store.usage_samples("alpha", "m", 10, [oldest]) == [UsageSample(10, 1, 3, 5, 1, 0.5, oldest)]
    assert store.usage_samples("alpha", "other", 10) == []
    assert store.usage_samples("beta", "m", 10) == []


def test_answers_that_were_corrected_are_summed_up_apart(store: Store) -> None:
    job, _, lane = begun(store, 4)
    route = store.routes(job)[0].id
    batch = WriteBatch(job)
    took: dict[str, Any] = {
        "started_utc": 297.0,
        "finished_utc": 299.0,
        "input_tokens": 40,
        "output_tokens": 7,
        "cost_usd": 0.5,
    }
    for index in (1, 2):
        batch.attempts.append(Attempt(index, 1, lane, "failed", **took))
    batch.attempts.append(Attempt(3, 1, lane, "failed", started_utc=1.0, finished_utc=9.0))
    for index in (1, 2, 3):
        batch.change(index, UnitChange("pending", tries=1))
    store.commit(batch)
    last: dict[str, Any] = {
        "started_utc": 299.5,
        "input_tokens": 50,
        "output_tokens": 5,
        "cost_usd": 1.5,
        "tries": 1,
    }
    end(store, job, 0, "succeeded", **last)
    end(store, job, 1, "succeeded", **{**last, "cost_usd": 2.0})
    end(store, job, 2, "failed", **last)
    end(store, job, 3, "succeeded", **last)

    of_last, corrected = store.turn_totals(route)
    assert of_last == TurnTotals(150.0, 15.0, 1.5, 4.5)
    assert corrected == TurnTotals(40.0, 7.0, 2.0, 0.5), (
        "only of units with an answer; a failure without one took no tokens"
    )
    assert store.turn_totals(route + 1) == (TurnTotals(), TurnTotals())


def test_units_and_usage_samples_have_their_family(store: Store) -> None:
    job = store.add_job(NewJob("one", "batch", "in", "d", "out", 100.0))
    route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    store.add_units(job, 0, [NewUnit(f"u{n}", route, "/p", b"{}", 10, 0, family=1 + n) for n in range(2)])
    families = [
        Family(route, 1, 77, True, 1),
        Family(route, 2, (1 << 56) - 1, False, 1, (3, 4_000_000_000), True),
    ]
    store.add_families(job, families)
    assert store.families("alpha", "m") == [], "it is still being taken in"
    store.seal(job, 2, {}, "d")

    assert store.families("alpha", "m") == [(job, family) for family in families]
    assert store.families("alpha", "other") == []
    assert [unit.family for unit in store.next_of_route(job, route, 0, -1, 9)] == [1, 2]
    assert [unit.family for unit in store.next_serial(job, -1, 9, every=True)] == [1, 2]
    store.begin(job, {}, "o", 200.0)
    batch = WriteBatch(job)
    batch.intend(1, store.lane("k", "alpha/m").id)
    store.commit(batch)
    assert [(one.index, one.family) for one in store.unknown_outcomes(job)] == [(1, 2)]
    end(store, job, 1, "succeeded", started_utc=299.0, input_tokens=1, output_tokens=5, cached_tokens=0)
    batch = WriteBatch(job)
    batch.count("succeeded")
    store.commit(batch)
    assert [(one.route, one.family) for one in store.usage_samples("alpha", "m", 9)] == [(route, 2)]
    store.forget(job)
    assert store.families("alpha", "m") == []


def test_usage_samples_read_no_more_units_than_the_limit(store: Store) -> None:
    taught(store, "one", 3)
    assert store.usage_samples("alpha", "m", 1) == []
    assert len(store.usage_samples("alpha", "m", 2)) == 1


# -- units that come while a job runs ------------------------------------------------------------------------------------


def coming(job: int, route: int, first: int, ids: list[str]) -> WriteBatch:
    batch = WriteBatch(job)
    batch.added += [(first + n, NewUnit(each, route, "", b"null", 4)) for n, each in enumerate(ids)]
    return batch


def test_units_added_later_behave_like_earlier_ones(store: Store) -> None:
    job, _, lane = begun(store, 2)
    route = store.routes(job)[0].id
    batch = coming(job, route, 2, ["a", "b", "c"])
    batch.intend(1, lane)
    batch.intend(3, lane)
    store.commit(batch)

    assert the_job(store).total == 5
    assert statuses(store, job) == ["pending", "assigned", "pending", "assigned", "pending"]
    assert [each.index for each in store.unknown_outcomes(job)] == [1, 3]
    assert [each.lane for each in store.unknown_outcomes(job)] == [lane, lane]
    assert store.pending(job) == {route: 3}
    assert [store.request(job, index) for index in (2, 3, 4)] == [("", b"null")] * 3
    assert store.index_of(job, "c") == 4


def test_each_unit_added_later_keeps_its_own_request(store: Store) -> None:
    job, _, _ = begun(store, 0)
    route = store.routes(job)[0].id
    batch = WriteBatch(job)
    batch.added += [(n, NewUnit(f"u{n}", route, "", f"[{n}]".encode(), 3)) for n in range(3)]
    store.commit(batch)
    assert [store.request(job, n) for n in range(3)] == [("", b"[0]"), ("", b"[1]"), ("", b"[2]")]


def test_adding_an_empty_list_of_units_is_allowed(store: Store) -> None:
    job, _ = ready_job(store, 0)
    store.add_units(job, 0, [])
    assert statuses(store, job) == []


@pytest.mark.parametrize("together", [True, False])
def test_an_empty_column_stays_empty_beside_filled_rows(store: Store, *, together: bool) -> None:
    job, worker, lane = begun(store, 2)
    full = UnitChange("pending", 1, lane, "invalid", "no", 1.0, 2.0, None, 4, 5, 6, 0.5)
    plain = UnitChange("succeeded", 1, finished_utc=9.0)
    batch = WriteBatch(job, worker)
    for index, change in ((0, full), (1, full), (0, plain)):
        batch.change(index, change)
        if not together:
            store.commit(batch)
            batch = WriteBatch(job, worker)
    batch.attempts += [started(0, 1.0, lane, message="no", status_code=400), started(1, 2.0, lane)]
    store.commit(batch)

    first, second = store.results(job, -1, 2)
    assert (first.status, first.attempts, first.code, first.message) == ("succeeded", 2, None, None)
    assert (first.started_utc, first.finished_utc, first.cost_usd, first.input_tokens) == (
        2.0,
        9.0,
        0.5,
        None,
    )
    assert (second.code, second.message, second.input_tokens, second.cached_tokens) == ("invalid", "no", 4, 6)
    attempts = [store.attempts(job, index)[0] for index in (0, 1)]
    assert [(each.message, each.status_code) for each in attempts] == [("no", 400), (None, None)]


def test_one_commit_is_all_or_nothing(store: Store) -> None:
    """Several changes in one transaction: an exception undoes them all."""

    def add(name: str, *, fails: bool) -> None:
        with store.one_commit():
            number = store.add_job(NewJob(name, "batch", "in", "d", "", 1.0))
            store.add_route(number, StoredRoute("alpha", "openai", "gpt-x"))
            if fails:
                raise RuntimeError

    with pytest.raises(RuntimeError):
        add("undone", fails=True)
    assert store.job("undone") is None
    add("kept", fails=False)
    assert store.job("kept") is not None


# -- labels ----------------------------------------------------------------------------------------------------


def test_a_job_may_have_several_routes_with_one_model(store: Store) -> None:
    job = store.add_job(new_job())
    plain = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    drafts = store.add_route(job, StoredRoute("alpha", "openai", "m", label="draft"))

    assert len({plain, drafts}) == 2
    assert store.add_route(job, StoredRoute("alpha", "openai", "m", label="draft")) == drafts
    assert store.routes(job) == [
        StoredRoute("alpha", "openai", "m", plain),
        StoredRoute("alpha", "openai", "m", drafts, label="draft"),
    ]


def test_counts_by_lane_are_the_sums_of_its_routes(store: Store) -> None:
    job = store.add_job(new_job())
    routes = [store.add_route(job, StoredRoute("alpha", "openai", "m", label=label)) for label in ("a", "b")]
    store.add_units(job, 0, [new_unit(f"u{n}", routes[n % 2]) for n in range(5)])
    store.seal(job, 5, MODELS, "d2")
    end(store, job, 1, "succeeded")
    end(store, job, 2, "succeeded")

    assert store.per_lane(job) == {"alpha/m": {"pending": 3, "succeeded": 2}}
    assert store.per_route(job)[routes[1]] == {"pending": 1, "succeeded": 1}


# -- ends and answers of many units --------------------------------------------------------------------------------------


def test_ends_are_read_by_index_without_answers(store: Store) -> None:
    job, _, lane = begun(store, 6)
    other, _, _ = begun(store, 2, "other")
    end(store, job, 1, "succeeded", cost_usd=0.5)
    end(store, job, 3, "failed", code="invalid", message="no")
    end(store, job, 4, "skipped")
    end(store, other, 0, "succeeded")
    intend(store, job, lane, 5)

    failed = UnitEndRow(3, "u3", "failed", "invalid", "no", None)
    assert store.unit_ends(job, -1, 2) == [UnitEndRow(1, "u1", "succeeded", None, None, 0.5), failed]
    assert store.unit_ends(job, 2, 9) == [failed, UnitEndRow(4, "u4", "skipped", None, None, None)]
    assert store.unit_ends(job, 4, 9) == []


def test_answers_of_several_units_are_read_at_once(store: Store) -> None:
    job, _, _ = begun(store, 4)
    batch = WriteBatch(job)
    for index in (0, 2):
        batch.change(index, UnitChange("succeeded", finished_utc=300.0))
        batch.answers.append((index, 200, None, b"answer %d" % index))
    store.commit(batch)

    assert store.answers(job, [2, 1, 0, 99]) == {0: b"answer 0", 2: b"answer 2"}
    assert store.answers(job, []) == {}


# -- values beside the units -----------------------------------------------------------------------------------------


def test_a_job_keeps_lists_of_values(store: Store) -> None:
    job, other = ready_job(store)[0], ready_job(store, name="other")[0]
    store.add_values(job, "rows", 0, [b"a", b"b"])
    store.add_values(job, "rows", 2, [b"c"])
    store.add_values(job, "nothing", 0, [])
    store.set_value(job, "approvals", 7, b"yes")
    store.add_values(other, "rows", 0, [b"x"])

    assert store.values(job, "rows", 0, 9) == [b"a", b"b", b"c"]
    assert store.values(job, "rows", 1, 1) == [b"b"]
    assert store.values(job, "approvals", 0, 9) == [b"yes"]
    assert [store.count_values(job, name) for name in ("rows", "approvals", "nothing")] == [3, 1, 0]
    store.set_value(job, "rows", 1, b"B")
    assert store.values(job, "rows", 0, 9) == [b"a", b"B", b"c"]


def test_values_are_removed_with_their_job(store: Store) -> None:
    job, other = ready_job(store)[0], ready_job(store, name="other")[0]
    for each in (job, other):
        store.add_values(each, "rows", 0, [b"a"])
    store.forget(job)

    assert (store.count_values(job, "rows"), store.count_values(other, "rows")) == (0, 1)
