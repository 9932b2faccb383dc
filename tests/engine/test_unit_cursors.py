"""Units are read from the store in input order, or the longest of the remaining units first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from headway.core.commands import Fetch, FetchRest, FetchSerial
from headway.core.events import RestUnits, SerialUnits, Units
from headway.core.lanes.queueing.unit_lengths import NOTHING_KNOWN, LengthTable, UnitLengths, size_of
from headway.engine.run_spec import UnitRoute
from headway.engine.units import length_index
from headway.engine.units.unit_cursors import StoreSource, family_name
from headway.stores.records import Attempt, NewJob, NewUnit, PendingUnit, StoredRoute, UnitChange
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

#: (max_tokens, family, priority) of each unit.
Rows = Sequence[tuple[int, int, int]]
SHORT, LONG = 16, 1024


@pytest.fixture
def store() -> Iterator[Store]:
    with Store(SqliteMemory()) as opened:
        yield opened


def job_of(store: Store, rows: Rows) -> tuple[int, int]:
    """A job with these units on one route; returns the numbers of both."""
    job = store.add_job(NewJob("job", "batch", "in.jsonl", "d", "", 0.0))
    route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    new = [
        NewUnit(f"u{n}", route, "/v1", b"{}", chars=100, max_tokens=tokens, family=family, priority=priority)
        for n, (tokens, family, priority) in enumerate(rows)
    ]
    store.add_units(job, 0, new)
    store.seal(job, len(new), {"": ("alpha", "openai", "m")}, "d")
    return job, route


def source_of(store: Store, rows: Rows, only: frozenset[int] | None = None) -> StoreSource:
    job, route = job_of(store, rows)
    return StoreSource(store, job, {route: UnitRoute("lane")}, only=only)


def fetched(source: StoreSource, store: Store, n: int, longest: LengthTable | None = None) -> Units:
    event = source.fetch(Fetch("lane", n, longest, sized=True), store).event
    assert isinstance(event, Units)
    return event


def indexes(event: Units | RestUnits) -> list[int]:
    return [unit.index for unit in event.units]


def mixed(*long: int, n: int = 10) -> Rows:
    return [(LONG if index in long else SHORT, 1, 0) for index in range(n)]


def test_the_longest_units_come_first_wherever_they_are(store: Store) -> None:
    source = source_of(store, mixed(3, 8, 9))
    assert indexes(fetched(source, store, 5, NOTHING_KNOWN)) == [3, 8, 9, 0, 1]
    rest = fetched(source, store, 9, NOTHING_KNOWN)
    assert (indexes(rest), rest.more, rest.left) == ([2, 4, 5, 6, 7], False, 0)


def test_no_unit_is_fetched_twice_when_the_order_changes(store: Store) -> None:
    source = source_of(store, mixed(3, 8, 9))
    first = fetched(source, store, 4)
    assert (indexes(first), first.left) == ([0, 1, 2, 3], 6)
    assert indexes(fetched(source, store, 9, NOTHING_KNOWN)) == [8, 9, 4, 5, 6, 7]


def test_the_order_follows_what_is_known_at_each_fetch(store: Store) -> None:
    source = source_of(store, [(SHORT, 1 + index % 3, 0) for index in range(9)])
    route = next(iter(store.routes(1))).id
    for family, expected in ((2, [1, 4]), (3, [2, 5])):
        lengths = UnitLengths()
        for number in (1, 2, 3):
            lengths.learn(family_name(route, number), size_of(100, SHORT), 9.0 if number == family else 1.0)
        assert indexes(fetched(source, store, 2, lengths.table())) == expected


def test_priority_comes_before_length(store: Store) -> None:
    source = source_of(store, [(LONG, 1, 0), (SHORT, 1, 5), (LONG, 1, 0), (SHORT, 1, 5)])
    assert indexes(fetched(source, store, 9, NOTHING_KNOWN)) == [1, 3, 0, 2]


def test_units_that_ended_meanwhile_are_left_out(store: Store) -> None:
    source = source_of(store, mixed(3, 8, 9))
    assert indexes(fetched(source, store, 1, NOTHING_KNOWN)) == [3]
    batch = WriteBatch(1)
    batch.change(8, UnitChange("cancelled", finished_utc=1.0))
    store.commit(batch)
    rest = fetched(source, store, 3, NOTHING_KNOWN)
    assert (indexes(rest), rest.more) == ([9, 0, 1], True)


def test_only_the_wanted_units_are_ordered(store: Store) -> None:
    source = source_of(store, mixed(3, 8, 9), only=frozenset({0, 8, 9}))
    assert indexes(fetched(source, store, 9, NOTHING_KNOWN)) == [8, 9, 0]


def test_units_that_are_added_later_are_ordered_too(store: Store) -> None:
    source = source_of(store, mixed(3, n=4))
    assert indexes(fetched(source, store, 2, NOTHING_KNOWN)) == [3, 0]
    [route] = store.routes(1)
    new = NewUnit("late", route.id, "/v1", b"{}", chars=100, max_tokens=LONG, family=1)
    store.add_units(1, 4, [new])
    source.add([(4, new)])
    rest = fetched(source, store, 9, NOTHING_KNOWN)
    assert (indexes(rest), rest.left) == ([4, 1, 2], 0)


def test_a_deadline_gets_the_remaining_units_by_index(store: Store) -> None:
    source = source_of(store, mixed(3, 8, 9))
    fetched(source, store, 2, NOTHING_KNOWN)
    rest = source.fetch(FetchRest(5), store).event
    assert isinstance(rest, RestUnits)
    assert indexes(rest) == [0, 1, 2, 4, 5]
    more = source.fetch(FetchRest(9), store).event
    assert isinstance(more, RestUnits)
    assert indexes(more) == [6, 7, 9]


def largest(event: Units) -> set[tuple[str, int]]:
    return {(unit.family.partition(".")[2], int(unit.estimate.max_output_tokens)) for unit in event.largest}


def test_the_largest_unit_of_each_family_is_reported(store: Store) -> None:
    source = source_of(store, [(16, 1, 0), (64, 1, 0), (1024, 2, 0)])
    assert largest(fetched(source, store, 1)) == {("1", 64), ("2", 1024)}


def test_a_large_job_is_scanned_in_parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(length_index, "SURVEYED", 4)
    source = source_of(store, mixed(9))
    assert [largest(fetched(source, store, 1)) for _ in range(4)] == [
        {("1", SHORT)},
        {("1", SHORT)},
        {("1", SHORT), ("1", LONG)},
        {("1", SHORT), ("1", LONG)},
    ]
    assert indexes(fetched(source, store, 3, NOTHING_KNOWN)) == [9, 4, 5]


def test_the_next_longest_unit_is_reported(store: Store) -> None:
    source = source_of(store, mixed(3, 8))
    assert largest(fetched(source, store, 1, NOTHING_KNOWN)) == {("1", LONG)}
    assert largest(fetched(source, store, 1, NOTHING_KNOWN)) == {("1", SHORT)}
    assert largest(fetched(source, store, 9, NOTHING_KNOWN)) == set()


# -- out of turn ------------------------------------------------------------------------------------------------------


def withdrawn(source: StoreSource, store: Store, *units: int) -> tuple[list[int], int]:
    """The units that were still to come, and how many of the lane are left."""
    fetch = source.withdraw(store, units)
    return [unit.index for unit in fetch.event.units], fetch.unfetched["lane"]


def test_units_that_are_taken_out_of_turn_are_not_fetched_again(store: Store) -> None:
    source = source_of(store, mixed(n=300))
    first = fetched(source, store, 2)
    assert indexes(first) == [0, 1]
    # Fetched; in a page that was read with those; beyond all pages; unknown.
    assert withdrawn(source, store, 0, 2, 299, 999) == ([2, 299], 296)
    assert withdrawn(source, store, 2, 299) == ([], 296), "only once"
    rest = fetched(source, store, 500)
    assert indexes(rest) == [*range(3, 299)]
    assert (rest.more, rest.left) == (False, 0)


def test_units_are_taken_out_of_the_longest_first_order(store: Store) -> None:
    source = source_of(store, mixed(3, 8, 9))
    assert indexes(fetched(source, store, 1, NOTHING_KNOWN)) == [3]
    assert withdrawn(source, store, 3, 8, 0) == ([0, 8], 7)
    rest = fetched(source, store, 99, NOTHING_KNOWN)
    assert (indexes(rest), rest.left) == ([9, 1, 2, 4, 5, 6, 7], 0)


def test_units_that_were_taken_out_are_not_reported_by_a_deadline(store: Store) -> None:
    source = source_of(store, mixed(3))
    fetched(source, store, 1, NOTHING_KNOWN)
    withdrawn(source, store, 5)
    event = source.fetch(FetchRest(99), store).event
    assert isinstance(event, RestUnits)
    assert indexes(event) == [0, 1, 2, 4, 6, 7, 8, 9]


def test_only_units_of_which_an_attempt_failed_have_failed_before(store: Store) -> None:
    """Not those that were refused, or whose outcome is not known."""
    source = source_of(store, mixed(n=4))
    job = store.jobs()[0].id
    batch, lane = WriteBatch(job), store.lane("key", "lane").id
    for index, outcome in enumerate(("failed", "throttled", "timed_out")):
        batch.attempts.append(Attempt(index, 1, lane, outcome, started_utc=1.0, finished_utc=2.0))
        batch.change(index, UnitChange("pending", 1))
    store.commit(batch)
    units = fetched(source, store, 9).units
    assert [unit.index for unit in units if unit.failed_before] == [0, 2]


def test_units_that_wait_again_come_out_of_turn_and_by_no_cursor(store: Store) -> None:
    source = source_of(store, mixed(n=6))
    assert indexes(fetched(source, store, 2)) == [0, 1]
    assert [unit.index for unit in source.reopened(store, [1, 4])] == [1, 4]
    assert indexes(fetched(source, store, 9)) == [2, 3, 5]


def test_units_of_a_serial_run_are_taken_out_of_turn(store: Store) -> None:
    job, route = job_of(store, mixed(n=5))
    source = StoreSource(store, job, {route: UnitRoute("lane")}, serial=True)
    first = source.fetch(FetchSerial(2), store).event
    assert isinstance(first, SerialUnits)
    assert [unit.index for unit in first.units] == [0, 1]
    assert withdrawn(source, store, 1, 3) == ([3], 2)
    rest = source.fetch(FetchSerial(9), store)
    assert isinstance(rest.event, SerialUnits)
    assert ([unit.index for unit in rest.event.units], rest.unfetched) == ([2, 4], {"lane": 0})


def test_routes_without_units_are_not_read_again_until_units_are_added(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = store.add_job(NewJob("job", "flow", "in", "d", "", 0.0))
    routes = [store.add_route(job, StoredRoute("alpha", "openai", "m", label=f"n{n}")) for n in range(50)]
    store.seal(job, 0, {}, "d")
    source = StoreSource(store, job, {route: UnitRoute("lane") for route in routes}, grows=True)
    reads: list[int] = []
    next_of_route = store.next_of_route

    def counting(job: int, route: int, *more: int) -> list[PendingUnit]:
        reads.append(route)
        return next_of_route(job, route, *more)

    monkeypatch.setattr(store, "next_of_route", counting)
    assert indexes(fetched(source, store, 9)) == []
    for place, route in enumerate((routes[7], routes[3], routes[7])):
        reads.clear()
        unit = NewUnit(f"u{place}", route, "/v1", b"{}")
        batch = WriteBatch(job, grow=lambda store, ended, unit=unit: [unit])  # type: ignore[misc]
        batch.look = True
        store.commit(batch)
        source.add(batch.grown)
        assert indexes(fetched(source, store, 9)) == [place]
        assert set(reads) == {route}
        assert indexes(fetched(source, store, 9)) == []
