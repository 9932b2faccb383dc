"""The statistics: exact counts, repeats, lost units, and the history of one unit."""

from __future__ import annotations

from headway.fake.seeded_random import fingerprint
from headway.fake.stats import Statistics

A, B = fingerprint(b"a"), fingerprint(b"b")


def new_statistics(remember: int = 100) -> Statistics:
    return Statistics(["one", "two"], remember)


def test_a_unit_that_was_answered_before_is_a_repeat() -> None:
    stats = new_statistics()
    one, two = stats.counts_by_account.values()
    assert not stats.admitted(one, A, 5, 1.0)
    stats.ok(one, A, 3, 2.0)
    assert stats.admitted(two, A, 5, 3.0)
    stats.example(two, A, "a", 3.0)
    figures = stats.as_dict(4.0)
    assert figures["total"]["repeats"] == figures["accounts"]["two"]["repeats"] == 1
    assert figures["accounts"]["one"]["repeats"] == 0
    assert figures["total"]["repeat_examples"] == [{"fingerprint": f"{A:016x}", "unit": "a", "at_s": 3.0}]
    assert figures["total"]["in_flight"] == 1


def test_a_retry_after_a_failure_is_no_repeat() -> None:
    stats = new_statistics()
    one = stats.counts_by_account["one"]
    stats.admitted(one, A, 5, 1.0)
    stats.failed(one, A, 2.0)
    assert stats.as_dict(2.0)["total"]["lost"] == 1
    assert not stats.admitted(one, A, 5, 3.0)
    assert stats.as_dict(3.0)["total"]["lost"] == 0
    stats.ok(one, A, 3, 4.0)
    assert stats.as_dict(4.0)["total"]["lost"] == 0


def test_a_unit_with_two_requests_is_lost_when_both_failed() -> None:
    stats = new_statistics()
    one = stats.counts_by_account["one"]
    stats.admitted(one, A, 5, 1.0)
    stats.admitted(one, A, 5, 1.0)
    stats.failed(one, A, 2.0)
    assert one.lost == 0
    stats.cancelled(one, A, 2.0)
    assert one.lost == 1


def test_a_lost_unit_moves_to_the_account_that_tries_it_again() -> None:
    stats = new_statistics()
    one, two = stats.counts_by_account.values()
    stats.admitted(one, A, 5, 1.0)
    stats.failed(one, A, 1.0)
    stats.admitted(two, A, 5, 2.0)
    assert (one.lost, two.lost) == (0, 0)
    stats.failed(two, A, 3.0)
    assert (one.lost, two.lost) == (0, 1)


def test_counts_add_up_and_peaks_are_kept() -> None:
    stats = new_statistics()
    one, two = stats.counts_by_account.values()
    for counts in (one, two, two):
        stats.admitted(counts, A + counts.admitted, 10, 1.5)
    stats.ok(one, A, 7, 2.0)
    stats.failed(two, A, 2.0)
    stats.refused(stats.no_account, None, "auth", 2.0)
    total = stats.as_dict(3.0, series=True)["total"]
    assert total["admitted"] == total["ok"] + total["failed"] + total["cancelled"] + total["in_flight"]
    assert total["peak_in_flight"] == 3
    assert stats.as_dict(3.0)["accounts"]["two"]["peak_in_flight"] == 2
    assert (total["tokens_in"], total["tokens_out"]) == (30, 7)
    assert total["refused"] == {"auth": 1}
    assert total["admitted_per_second"] == [0, 3]
    assert (total["first_admission_s"], total["last_admission_s"]) == (1.5, 1.5)


def test_a_history_is_found_by_name_or_by_fingerprint() -> None:
    stats = new_statistics()
    one = stats.counts_by_account["one"]
    stats.refused(one, A, "rpm", 0.5)
    stats.admitted(one, A, 5, 1.0)
    stats.faulted(one, A, "hang", 1.0)
    stats.cancelled(one, A, 3.0)
    stats.admitted(one, B, 5, 3.5)
    stats.admitted(one, A, 5, 4.0)
    stats.ok(one, A, 5, 5.0)
    history = stats.history("a")
    assert history == stats.history(f"{A:016x}")
    assert history is not None
    counts = {
        name: history[name] for name in ("admitted", "ok", "refused", "failed", "cancelled", "in_flight")
    }
    assert counts == {"admitted": 2, "ok": 1, "refused": 1, "failed": 0, "cancelled": 1, "in_flight": 0}
    what = [event["what"] for event in history["events"]]
    assert what == ["refused: rpm", "admitted", "fault: hang", "cancelled", "admitted", "ok"]
    assert stats.history("unknown") is None


def test_memory_is_bounded_and_untracked_units_are_counted() -> None:
    stats = new_statistics(remember=2)
    one = stats.counts_by_account["one"]
    for unit in range(5):
        stats.admitted(one, unit, 1, 0.0)
        stats.ok(one, unit, 1, 0.0)
    figures = stats.as_dict(1.0)
    assert (figures["units"], figures["untracked"], figures["total"]["ok"]) == (2, 3, 5)


def test_many_requests_of_one_unit_do_not_overflow_its_fields() -> None:
    stats = new_statistics()
    one = stats.counts_by_account["one"]
    for _ in range(70_000):
        stats.admitted(one, A, 1, 0.0)
        stats.ok(one, A, 1, 0.0)
    history = stats.history("a")
    assert history is not None
    assert (history["admitted"], history["ok"], history["failed"], history["in_flight"]) == (
        70_000,
        70_000,
        0,
        0,
    )
    assert one.repeats == 69_999
