"""The contract of the answer cache, run over every database."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from headway.errors import StoreError
from headway.stores.answer_cache import AnswerSource, CachedModel, CallsSaved, KeyProgress, UnkeyedUnit
from headway.stores.records import Attempt, NewUnit, StoredRoute, UnitChange
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store
from headway.stores.write_batch import Grow, WriteBatch

from .records import MODELS, begun, end, new_job, statuses, the_job

PATH = "/v1/chat/completions"


def keyed_job(store: Store, keys: str, name: str = "translate", **units: dict[str, object]) -> int:
    """A running job with one unit per letter; equal letters are equal requests, "-" has no key. `u3={…}` sets more fields of a unit."""
    job = store.add_job(new_job(name))
    route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    new = [
        NewUnit(f"u{n}", route, PATH, key.encode(), **units.get(f"u{n}", {}))  # type: ignore[arg-type]
        for n, key in enumerate(keys)
    ]
    store.add_units(job, 0, new)
    store.seal(job, len(keys), MODELS, "d2")
    store.begin(job, {}, "o", 200.0)
    store.cache.rekey(job, "basis")
    made = [(n, key.encode()) for n, key in enumerate(keys) if key != "-"]
    store.cache.add_keys(job, made, len(keys) - 1)
    return job


def answer(store: Store, job: int, *indexes: int, at_utc: float = 300.0, caching: bool = True) -> WriteBatch:
    """Let these units succeed, in one batch."""
    lane = store.lane("key-a", "alpha/m").id
    batch = WriteBatch(job, caching=caching)
    for index in indexes:
        change = UnitChange("succeeded", 1, lane, None, None, None, at_utc - 1, at_utc, 10, 20, 3, 0.5)
        batch.change(index, change)
        attempt = Attempt(
            index, 1, lane, "succeeded", started_utc=at_utc - 1, finished_utc=at_utc, input_tokens=10,
            output_tokens=20, cached_tokens=3, cost_usd=0.5,
        )  # fmt: skip
        batch.attempts.append(attempt)
        batch.answers.append((index, 200, f"r{index}", b'{"n":%d}' % index))
    store.commit(batch)
    return batch


def bodies(store: Store, job: int) -> list[bytes | None]:
    return [result.body for result in store.results(job, -1, 1_000)]


# -- keys ----------------------------------------------------------------------------------------------------


def test_keys_are_made_page_by_page_for_units_without_an_answer(store: Store) -> None:
    job, _, _ = begun(store, 5)
    end(store, job, 1, "succeeded")
    end(store, job, 2, "failed")
    [route] = store.routes(job)

    assert store.cache.keyed(job) == KeyProgress()
    first = store.cache.unkeyed(job, -1, 2)
    assert first == [UnkeyedUnit(n, route.id, PATH, b'{"id":"u%d"}' % n) for n in (0, 2)]
    assert [each.index for each in store.cache.unkeyed(job, 2, 9)] == [3, 4]
    store.cache.rekey(job, "a")
    assert store.cache.keyed(job) == KeyProgress("a")
    store.cache.add_keys(job, [(0, b"k0")], 2)
    store.cache.add_keys(job, [(3, b"k3"), (4, b"k4")], 4)
    assert store.cache.keyed(job) == KeyProgress("a", 4, 3)
    store.cache.rekey(job, "b")
    assert store.cache.keyed(job) == KeyProgress("b")


def test_new_keys_replace_the_old(store: Store) -> None:
    job = keyed_job(store, "aab")
    assert store.cache.group(job) == 1
    store.cache.rekey(job, "other")
    assert store.cache.group(job) == 0


# -- answers that are there ------------------------------------------------------------------------------------


def test_an_answer_serves_every_other_job(store: Store) -> None:
    job = keyed_job(store, "ab-")
    answer(store, job, 0, 2)
    other = keyed_job(store, "cba-a", "other")

    assert store.cache.serve(other, -1, 99, 400.0) == [2, 4]
    assert statuses(store, other) == ["pending", "pending", "cached", "pending", "cached"]
    assert bodies(store, other) == [None, None, b'{"n":0}', None, b'{"n":0}']
    got = store.results(other, 1, 1)[0]
    assert (got.attempts, got.lane, got.cost_usd or 0.0) == (0, None, 0.0)
    assert (got.input_tokens, got.output_tokens, got.cached_tokens) == (10, 20, 3)
    assert (got.started_utc, got.finished_utc, got.status_code, got.request_id) == (None, 400.0, 200, "r0")
    now = the_job(store, "other")
    assert (now.counts["cached"], now.good, now.ended) == (2, 2, 2)
    assert (now.attempts, now.input_tokens, now.cost_usd) == (0, 0, 0.0), "it cost nothing"
    assert store.cache.saved(other) == CallsSaved(2, 20, 40, 1.0)
    assert store.cache.saved() == CallsSaved(2, 20, 40, 1.0)
    assert store.cache.saved(job) == CallsSaved()
    assert store.cache.source(other, 2) == AnswerSource("translate", 0, "u0")
    assert store.cache.source(other, 0) is None
    assert store.cache.source(job, 0) is None
    assert store.cache.serve(other, -1, 99, 500.0) == []


def test_only_the_requested_units_are_served_page_by_page(store: Store) -> None:
    answer(store, keyed_job(store, "a"), 0)
    other = keyed_job(store, "aaaaaa", "other")

    assert store.cache.serve(other, -1, 2, 400.0, frozenset({0, 2, 3, 5})) == [0, 2]
    assert store.cache.serve(other, 2, 2, 400.0, frozenset({0, 2, 3, 5})) == [3, 5]
    assert statuses(store, other) == ["cached", "pending", "cached", "cached", "pending", "cached"]


def test_answers_of_a_run_without_the_cache_are_not_cached(store: Store) -> None:
    job = keyed_job(store, "aa")
    store.cache.group(job)
    batch = answer(store, job, 0, caching=False)

    assert store.cache.entries_by_model() == []
    assert (statuses(store, job), batch.followed) == (["succeeded", "pending"], [])


def test_the_first_answer_to_equal_requests_stays_in_the_cache(store: Store) -> None:
    job, other = keyed_job(store, "ba"), keyed_job(store, "-a", "other")
    answer(store, job, 1)
    answer(store, other, 1, at_utc=350.0)
    third = keyed_job(store, "a", "third")
    store.cache.serve(third, -1, 9, 400.0)

    assert [shelf.entries for shelf in store.cache.entries_by_model()] == [1]
    assert store.cache.source(third, 0) == AnswerSource("translate", 1, "u1")


def test_a_cached_unit_stays_when_its_job_is_resumed(store: Store) -> None:
    answer(store, keyed_job(store, "a"), 0)
    other = keyed_job(store, "ab", "other")
    store.cache.serve(other, -1, 9, 400.0)
    store.begin(other, {}, "o", 500.0)

    assert statuses(store, other) == ["cached", "pending"]
    assert bodies(store, other) == [b'{"n":0}', None]
    assert the_job(store, "other").counts["cached"] == 1


def test_a_cached_answer_clears_an_earlier_failure(store: Store) -> None:
    answer(store, keyed_job(store, "a"), 0)
    other = keyed_job(store, "a", "other")
    end(store, other, 0, "failed", tries=2, code="transient", message="broke", cost_usd=0.25)
    store.begin(other, {}, "o", 400.0)
    store.cache.serve(other, -1, 9, 500.0)

    [got] = store.results(other, -1, 1)
    assert (got.status, got.code, got.message, got.attempts, got.cost_usd) == ("cached", None, None, 2, 0.25)
    assert store.failures(other) == []


# -- followers -------------------------------------------------------------------------------------------------


def leading(store: Store, job: int) -> list[int]:
    return [each.index for each in store.cache.next_serial(job, -1, 99, every=True)]


def test_cursors_leave_followers_out(store: Store) -> None:
    job = keyed_job(store, "abaacb--")
    [route] = store.routes(job)

    assert store.cache.group(job) == 3
    assert leading(store, job) == [0, 1, 4, 6, 7]
    assert store.cache.pending(job) == {route.id: 5}
    assert [each.index for each in store.cache.next_of_route(job, route.id, 0, 0, 2)] == [1, 4]
    assert store.pending(job) == {route.id: 8}, "the store's own cursors know nothing of it"
    assert statuses(store, job) == ["pending"] * 8


def test_the_unit_that_runs_first_is_the_leader(store: Store) -> None:
    job = keyed_job(store, "aabbcc", u1={"priority": 5}, u3={"serial": True}, u2={"priority": 9})
    store.cache.group(job)

    assert leading(store, job) == [1, 3, 4]
    assert [each.index for each in store.cache.next_serial(job, -1, 9, every=False)] == [3]


def test_equal_requests_to_two_providers_are_not_grouped(store: Store) -> None:
    """A held lane must not delay a unit of another lane."""
    job = store.add_job(new_job())
    routes = [store.add_route(job, StoredRoute(name, "openai", "m")) for name in ("alpha", "beta")]
    store.add_units(job, 0, [NewUnit(f"u{n}", routes[n % 2], PATH, b"{}") for n in range(4)])
    store.seal(job, 4, MODELS, "d")
    store.cache.rekey(job, "basis")
    store.cache.add_keys(job, [(n, b"a") for n in range(4)], 3)

    assert store.cache.group(job) == 2
    assert leading(store, job) == [0, 1]


def test_followers_end_with_their_leader(store: Store) -> None:
    job = keyed_job(store, "abaab")
    store.cache.group(job)
    batch = answer(store, job, 0)

    assert batch.followed == [2, 3]
    assert statuses(store, job) == ["succeeded", "pending", "cached", "cached", "pending"]
    assert bodies(store, job) == [b'{"n":0}', None, b'{"n":0}', b'{"n":0}', None]
    now = the_job(store)
    assert (now.counts["succeeded"], now.counts["cached"]) == (1, 2)
    assert batch.counts["cached"] == 2
    assert store.cache.saved(job) == CallsSaved(2, 20, 40, 1.0)
    assert store.cache.source(job, 3) == AnswerSource("translate", 0, "u0")
    assert leading(store, job) == [1]


@pytest.mark.parametrize("status", ["failed", "timed_out"])
def test_followers_fail_with_their_leader_and_say_why(store: Store, status: str) -> None:
    job = keyed_job(store, "aba")
    store.cache.group(job)
    batch = WriteBatch(job, caching=True)
    batch.change(0, UnitChange(status, 1, code="invalid", message="no such model", finished_utc=300.0))
    store.commit(batch)

    assert (statuses(store, job), batch.followed) == ([status, "pending", status], [2])
    [_, _, got] = store.results(job, -1, 9)
    assert (got.code, got.message) == ("invalid", "unit 0 asked the same: no such model")
    assert (got.attempts, got.finished_utc) == (0, 300.0)
    assert the_job(store).counts[status] == 2
    assert store.cache.entries_by_model() == [], "a failure is never kept"


def test_followers_are_grouped_again_when_they_are_run_again(store: Store) -> None:
    job = keyed_job(store, "aba")
    store.cache.group(job)
    batch = WriteBatch(job, caching=True)
    batch.change(0, UnitChange("failed", 1, code="transient", finished_utc=300.0))
    store.commit(batch)
    only = frozenset(store.failed(job))
    store.begin(job, {}, "o", 400.0, only_failed=True)

    assert (only, store.cache.group(job, only)) == (frozenset({0, 2}), 1)
    assert answer(store, job, 0).followed == [2]
    assert the_job(store).counts["cached"] == 1


@pytest.mark.parametrize("status", ["cancelled", "skipped", "pending"])
def test_followers_of_a_skipped_or_cancelled_leader_stay_pending(store: Store, status: str) -> None:
    job = keyed_job(store, "aa")
    store.cache.group(job)
    batch = WriteBatch(job, caching=True)
    done = None if status == "pending" else 300.0
    batch.change(0, UnitChange(status, 1, code="interrupted", finished_utc=done))
    store.commit(batch)
    assert (statuses(store, job), batch.followed) == ([status, "pending"], [])


def test_only_the_requested_units_are_grouped(store: Store) -> None:
    job = keyed_job(store, "aaa")
    assert store.cache.group(job, frozenset({1, 2})) == 1
    assert leading(store, job) == [0, 1]


# -- entries and clearing ----------------------------------------------------------------------------------------


def test_cache_entries_are_counted_by_model(store: Store) -> None:
    job = keyed_job(store, "abc")
    answer(store, job, 0)
    answer(store, job, 1, at_utc=310.0)

    shelf = CachedModel("alpha", "m", 2, 14, 300.0, 310.0)
    assert store.cache.entries_by_model() == [shelf]
    assert store.cache.entries_by_model(model="m") == store.cache.entries_by_model(model="alpha/m") == [shelf]
    assert store.cache.entries_by_model(model="beta/m") == store.cache.entries_by_model(model="x") == []
    assert store.cache.entries_by_model(310.0) == [CachedModel("alpha", "m", 1, 7, 300.0, 300.0)]


def test_clearing_the_cache_keeps_the_answers_of_units(store: Store) -> None:
    job = keyed_job(store, "ab")
    answer(store, job, 0)
    answer(store, job, 1, at_utc=310.0)
    other = keyed_job(store, "ab", "other")
    store.cache.serve(other, -1, 9, 400.0)

    assert store.cache.clear(model="beta/m") == 0
    assert store.cache.clear(310.0) == 1
    assert [shelf.entries for shelf in store.cache.entries_by_model()] == [1]
    assert store.cache.clear() == 1
    assert store.cache.entries_by_model() == []
    assert bodies(store, job) == bodies(store, other) == [b'{"n":0}', b'{"n":1}']
    assert store.cache.saved().units == 2
    third = keyed_job(store, "ab", "third")
    assert store.cache.serve(third, -1, 9, 500.0) == []


def test_cached_answers_outlive_their_job(store: Store) -> None:
    job = keyed_job(store, "abc")
    answer(store, job, 0, 1, 2)
    other = keyed_job(store, "a", "other")
    store.cache.serve(other, -1, 9, 400.0)
    store.cache.clear()
    answer(store, keyed_job(store, "b", "another"), 0)
    store.forget(job)

    assert bodies(store, other) == [b'{"n":0}']
    assert store.cache.source(other, 0) == AnswerSource(None, 0, None)
    newer = keyed_job(store, "cb", "newer")
    assert newer not in (job, other), "a number that answers are kept under is not given again"
    answer(store, newer, 0)
    assert store.cache.serve(newer, -1, 9, 500.0) == [1]
    assert bodies(store, other) == [b'{"n":0}']


def test_forgetting_a_job_keeps_its_cache_entries(store: Store) -> None:
    job = keyed_job(store, "ab")
    answer(store, job, 0, 1)
    store.forget(job)
    other = keyed_job(store, "ab", "other")

    assert other != job
    assert store.cache.serve(other, -1, 9, 400.0) == [0, 1]
    assert bodies(store, other) == [b'{"n":0}', b'{"n":1}']
    store.forget(other)
    assert store.cache.clear() == 2
    assert store.cache.saved() == CallsSaved()


def test_a_body_is_stored_once_and_removed_with_its_last_user(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "h.db")
    with Store(file) as store:
        job = keyed_job(store, "aab")
        store.cache.group(job)
        answer(store, job, 0, 2)
        other = keyed_job(store, "ab", "other")
        store.cache.serve(other, -1, 9, 400.0)

        def kept() -> int:
            return int(file.connection.execute("SELECT count(*) FROM answers").fetchone()[0])

        assert kept() == 2
        store.forget(job)
        assert kept() == 2
        store.forget(other)
        assert kept() == 2, "the cache has them"
        store.cache.clear()
        assert kept() == 0


# -- answers of the same rows in another job -------------------------------------------------------------------------


def test_answers_of_equal_requests_at_the_same_index_are_adopted(store: Store) -> None:
    earlier = keyed_job(store, "abcd", "earlier")
    answer(store, earlier, 0, 1, 3, caching=False)
    job = keyed_job(store, "aXcde", "younger")
    assert store.cache.adopt(job, earlier, -1, 1, 400.0) == [0]
    assert store.cache.adopt(job, earlier, 0, 9, 400.0) == [3], (
        "not what was asked otherwise, nor what has no answer"
    )
    assert store.cache.adopt(job, earlier, -1, 9, 400.0) == []
    assert statuses(store, job) == ["cached", "pending", "pending", "cached", "pending"]
    assert bodies(store, job)[0] == b'{"n":0}'
    assert the_job(store, "younger").counts["cached"] == 2
    assert store.cache.saved(job) == CallsSaved(2, 20, 40, 1.0)
    assert store.cache.source(job, 3) == AnswerSource("earlier", 3, "u3")


def test_answers_are_adopted_during_ingest(store: Store) -> None:
    earlier = keyed_job(store, "ab", "earlier")
    answer(store, earlier, 0, caching=False)
    job = store.add_job(new_job("younger"))
    route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    store.add_units(job, 0, [NewUnit(f"u{n}", route, PATH, key) for n, key in enumerate((b"a", b"b"))])
    assert store.cache.adopt(job, earlier, -1, 9, 400.0) == [0]
    store.seal(job, 2, MODELS, "d2")
    assert (the_job(store, "younger").total, the_job(store, "younger").good) == (2, 1)


def test_an_adopted_answer_can_be_adopted_again_and_outlives_its_job(store: Store) -> None:
    earlier = keyed_job(store, "ab", "earlier")
    answer(store, earlier, 0, caching=False)
    middle = keyed_job(store, "ab", "middle")
    store.cache.adopt(middle, earlier, -1, 9, 400.0)
    job = keyed_job(store, "ab", "youngest")
    assert store.cache.adopt(job, middle, -1, 9, 500.0) == [0]
    assert store.cache.source(job, 0) == AnswerSource("earlier", 0, "u0")
    store.forget(earlier)
    store.forget(middle)
    assert bodies(store, job) == [b'{"n":0}', None]
    assert store.cache.saved(job) == CallsSaved(1, 10, 20, 0.5)


def test_answers_of_several_units_include_those_of_other_units(store: Store) -> None:
    first = keyed_job(store, "ab", "first")
    answer(store, first, 0, 1)
    second = keyed_job(store, "ba", "second")
    store.cache.serve(second, -1, 9, 400.0)

    assert store.answers(second, [0, 1]) == {0: b'{"n":1}', 1: b'{"n":0}'}
    assert [end.status for end in store.unit_ends(second, -1, 9)] == ["cached", "cached"]


# -- units that are added with their answer ---------------------------------------------------------------------------


def adding(*units: NewUnit) -> Grow:
    return lambda store, ended: units


def grow(store: Store, job: int, *units: NewUnit) -> WriteBatch:
    """Add units in a batch."""
    batch = WriteBatch(job, caching=True, grow=adding(*units))
    batch.look = True
    store.commit(batch)
    return batch


def test_an_answer_is_found_by_its_key(store: Store) -> None:
    job = keyed_job(store, "ab")
    answer(store, job, 0)

    found = store.cache.find(b"a")
    assert found == (job << 32, b'{"n":0}')
    assert store.cache.answer_at(job << 32) == b'{"n":0}'
    assert store.cache.find(b"b") is None
    assert store.cache.answer_at((job << 32) + 1) is None


def test_the_answer_of_a_unit_that_was_added_with_a_key_is_cached(store: Store) -> None:
    job = keyed_job(store, "-")
    route = store.routes(job)[0].id
    grow(store, job, NewUnit("new", route, PATH, b"{}", key=b"k"))
    assert statuses(store, job) == ["pending", "pending"]
    answer(store, job, 0, 1)

    assert store.cache.find(b"k") == ((job << 32) + 1, b'{"n":1}')
    assert [entry.entries for entry in store.cache.entries_by_model()] == [1]


@pytest.mark.parametrize("removed", [False, True])
def test_a_unit_may_be_added_with_the_answer_of_another(store: Store, removed: bool) -> None:
    first = keyed_job(store, "a", "first")
    answer(store, first, 0)
    found = store.cache.find(b"a")
    assert found is not None
    if removed:
        store.forget(first)
    job = keyed_job(store, "-", "second")
    route = store.routes(job)[0].id
    new = NewUnit("hit", route, PATH, b"{}", key=b"a", source=found[0])
    batch = grow(store, job, new, NewUnit("sent", route, PATH, b"{}"))

    assert batch.grown == [(1, new), (2, NewUnit("sent", route, PATH, b"{}"))]
    assert (batch.followed, batch.totals()["cached"], batch.ungrown) == ([1], 1, [])
    assert statuses(store, job) == ["pending", "cached", "pending"]
    result = store.results(job, 0, 1)[0]
    assert (result.body, result.input_tokens, result.output_tokens, result.cached_tokens) == (
        b'{"n":0}',
        10,
        20,
        3,
    )
    assert result.finished_utc is not None
    assert (the_job(store, "second").total, the_job(store, "second").counts["cached"]) == (3, 1)
    assert store.cache.saved(job) == CallsSaved(1, 10, 20, 0.5)
    source = store.cache.source(job, 1)
    assert source == AnswerSource(None if removed else "first", 0, None if removed else "u0")


def test_a_source_may_itself_have_the_answer_of_another(store: Store) -> None:
    job = keyed_job(store, "a")
    answer(store, job, 0)
    route = store.routes(job)[0].id
    grow(store, job, NewUnit("second", route, PATH, b"{}", source=job << 32))
    grow(store, job, NewUnit("third", route, PATH, b"{}", source=(job << 32) + 1))

    assert bodies(store, job) == [b'{"n":0}'] * 3
    assert store.cache.source(job, 2) == AnswerSource("translate", 0, "u0")
    assert store.cache.saved(job).cost_usd == 1.0


def test_a_unit_that_is_added_with_an_answer_may_add_others(store: Store) -> None:
    job = keyed_job(store, "a")
    route, source = store.routes(job)[0].id, job << 32
    calls: list[list[int]] = []

    def chain(store: Store, ended: Sequence[int]) -> list[NewUnit]:
        calls.append(list(ended))
        return [NewUnit(f"c{n}", route, PATH, b"{}", source=source) for n in ended if n < 3]

    lane = store.lane("key-a", "alpha/m").id
    batch = WriteBatch(job, caching=True, grow=chain)
    batch.change(0, UnitChange("succeeded", 1, lane, finished_utc=300.0))
    batch.attempts.append(Attempt(0, 1, lane, "succeeded", finished_utc=300.0))
    batch.answers.append((0, 200, None, b"{}"))
    store.commit(batch)

    assert calls == [[0], [1], [2], [3]]
    assert [index for index, _ in batch.grown] == [1, 2, 3]
    assert statuses(store, job) == ["succeeded", "cached", "cached", "cached"]


def test_at_most_a_page_is_added_in_one_transaction(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.stores.store.GROWTH_PAGE", 2)
    job = keyed_job(store, "a")
    answer(store, job, 0)
    route = store.routes(job)[0].id

    def chain(store: Store, ended: Sequence[int]) -> list[NewUnit]:
        return [NewUnit(f"c{n}", route, PATH, b"{}", source=job << 32) for n in ended if n < 5]

    batch = WriteBatch(job, grow=chain)
    batch.ended_before.append(0)
    store.commit(batch)
    assert (batch.ungrown, the_job(store).total) == ([2], 3)
    rest = WriteBatch(job, grow=chain)
    rest.ended_before += batch.ungrown
    store.commit(rest)
    assert (rest.ungrown, the_job(store).total) == ([4], 5)


def test_a_source_without_an_answer_is_an_error(store: Store) -> None:
    job = keyed_job(store, "a")
    route = store.routes(job)[0].id
    with pytest.raises(StoreError, match="which has none"):
        grow(store, job, NewUnit("hit", route, PATH, b"{}", source=job << 32))
    with pytest.raises(StoreError, match="while its job runs"):
        store.add_units(job, 1, [NewUnit("hit", route, PATH, b"{}", source=job << 32)])
    assert the_job(store).total == 1
