"""Units in lists, attempts as figures, and totals of lanes: the same over every database."""

from __future__ import annotations

from headway.core.unit_states import Status
from headway.stores.attempt_figures import EndCount, StartCount
from headway.stores.lane_tally import TallyRow
from headway.stores.records import Attempt, NewJob, NewUnit, StoredRoute, UnitChange
from headway.stores.store import Store
from headway.stores.unit_lists import UnitFilter
from headway.stores.write_batch import WriteBatch

UNITS = 12
BEGAN_UTC = 1_000.0


def job_of(store: Store) -> tuple[int, int]:
    """A job and its lane: even units are answered, unit 3 has failed, the others wait. Unit n began after n seconds and took two."""
    job = store.add_job(NewJob("job", "batch", "in.jsonl", "d", "", 0.0))
    route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    lane = store.lane("k", "beta/other").id
    store.add_units(job, 0, [NewUnit(f"row-{n:02d}", route, "/v1/x", b'{"n":%d}' % n) for n in range(UNITS)])
    store.seal(job, UNITS, {}, "d")
    batch = WriteBatch(job)
    for n in [3, *range(0, UNITS, 2)]:
        failed, began = n == 3, BEGAN_UTC + n
        attempt = Attempt(n, 1, lane, "failed" if failed else "succeeded", kind="invalid" if failed else None, message=None, started_utc=began,
                          finished_utc=began + 2, input_tokens=10, output_tokens=5, cost_usd=0.5,
                          charged=(1.0, 15.0, 10.0, 5.0))  # fmt: skip
        batch.attempts.append(attempt)
        status = Status.FAILED if failed else Status.SUCCEEDED
        batch.change(n, UnitChange(status, 1, lane, "invalid" if failed else None, finished_utc=began + 2))
        if not failed:
            batch.answers.append((n, 200, None, b'{"answer":%d}' % n))
    batch.waits[lane, "rate", "rpm"] = 2.5
    store.commit(batch)
    return job, lane


def test_filters(store: Store) -> None:
    job, _ = job_of(store)
    sent = [0, 2, 3, 4, 6, 8, 10]
    for wanted, indexes in (
        (UnitFilter(), list(range(UNITS))),
        (UnitFilter(statuses=("failed", "succeeded")), sent),
        (UnitFilter(codes=("invalid",)), [3]),
        (UnitFilter(lane="beta/other"), sent),
        (UnitFilter(lane="alpha/m"), [1, 5, 7, 9, 11]),
        (UnitFilter(statuses=("succeeded",), codes=("invalid",)), []),
    ):
        assert store.lists.next(job, -1, UNITS, 100, wanted) == indexes
        assert store.lists.next(job, 2, 9, 2, wanted) == [n for n in indexes if 2 < n <= 9][:2]
        assert store.lists.accepted(job, list(range(UNITS - 1, -1, -1)), wanted) == indexes[::-1]


def test_rows_come_in_the_order_in_which_they_are_asked(store: Store) -> None:
    job, _ = job_of(store)
    rows = store.lists.rows(job, [5, 0, 3])
    assert [(row.custom_id, row.status, row.lane, row.code) for row in rows] == [
        ("row-05", "pending", "alpha/m", None),
        ("row-00", "succeeded", "beta/other", None),
        ("row-03", "failed", "beta/other", "invalid"),
    ]
    assert [(row.request, row.answer) for row in rows[:2]] == [
        (b'{"n":5}', None),
        (b'{"n":0}', b'{"answer":0}'),
    ]
    assert store.lists.by_id(job, "row-1", "row-10", 5) == [(11, "row-11")]
    [one] = store.jobs()
    assert [found.id for found in store.jobs_in([one.state, "no such state"])] == [job]
    assert store.jobs_in(["no such state"]) == []


def test_figures_and_totals(store: Store) -> None:
    job, lane = job_of(store)
    figures = store.attempt_figures
    assert figures.time_span(job) == (BEGAN_UTC, BEGAN_UTC + 12)
    # Units 0, 2, 3 and 4 began in the first five seconds; a stretch begins with its first moment, and nothing is rounded up.
    assert sorted(figures.starts(job, BEGAN_UTC, 5.0), key=lambda row: row.place) == [
        StartCount(lane, 0, 4, 60.0, 0),
        StartCount(lane, 1, 2, 30.0, 0),
        StartCount(lane, 2, 1, 15.0, 0),
    ]
    assert sorted(figures.ends(job, BEGAN_UTC, 5.0), key=lambda row: row.place) == [
        EndCount(lane, 0, 2, 2, 1.0),
        EndCount(lane, 1, 3, 2, 1.5),
        EndCount(lane, 2, 2, 2, 1.0),
    ]
    assert sorted(store.tally.attempts(0, store.tally.last()), key=lambda row: row.outcome) == [
        TallyRow(lane, "failed", "invalid", 1, 10, 5, 0.5),
        TallyRow(lane, "succeeded", None, 6, 60, 30, 3.0),
    ]
    assert store.tally.waits() == [(lane, "rate", 2.5)]
