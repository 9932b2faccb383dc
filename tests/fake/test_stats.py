"""The books: exact counts, repeats, what is lost, and the story of one unit."""

from __future__ import annotations

from headway.fake.seeded_random import fingerprint
from headway.fake.stats import Statistics

A, B = fingerprint(b"a"), fingerprint(b"b")


def statistics(remember: int = 100) -> Statistics:
    return Statistics(["one", "two"], remember)


def test_a_unit_answered_before_is_a_repeat() -> None:
    page = statistics()
    one, two = page.counts_by_account.values()
    assert not page.admitted(one, A, 5, 1.0)
    page.ok(one, A, 3, 2.0)
    assert page.admitted(two, A, 5, 3.0)
    page.example(two, A, "a", 3.0)
    facts = page.as_dict(4.0)
    assert facts["total"]["repeats"] == facts["accounts"]["two"]["repeats"] == 1
    assert facts["accounts"]["one"]["repeats"] == 0
    assert facts["total"]["repeat_examples"] == [{"fingerprint": f"{A:016x}", "unit": "a", "at_s": 3.0}]
    assert facts["total"]["in_flight"] == 1


def test_a_second_try_after_a_failure_is_none() -> None:
    page = statistics()
    one = page.counts_by_account["one"]
    page.admitted(one, A, 5, 1.0)
    page.failed(one, A, 2.0)
    assert page.as_dict(2.0)["total"]["lost"] == 1
    assert not page.admitted(one, A, 5, 3.0)
    assert page.as_dict(3.0)["total"]["lost"] == 0
    page.ok(one, A, 3, 4.0)
    assert page.as_dict(4.0)["total"]["lost"] == 0


def test_two_at_once_are_lost_only_when_both_are() -> None:
    page = statistics()
    one = page.counts_by_account["one"]
    page.admitted(one, A, 5, 1.0)
    page.admitted(one, A, 5, 1.0)
    page.failed(one, A, 2.0)
    assert one.lost == 0
    page.cancelled(one, A, 2.0)
    assert one.lost == 1


def test_lost_on_one_account_and_found_on_another() -> None:
    page = statistics()
    one, two = page.counts_by_account.values()
    page.admitted(one, A, 5, 1.0)
    page.failed(one, A, 1.0)
    page.admitted(two, A, 5, 2.0)
    assert (one.lost, two.lost) == (0, 0)
    page.failed(two, A, 3.0)
    assert (one.lost, two.lost) == (0, 1)


def test_books_balance_and_peaks_are_kept() -> None:
    page = statistics()
    one, two = page.counts_by_account.values()
    for counts in (one, two, two):
        page.admitted(counts, A + counts.admitted, 10, 1.5)
    page.ok(one, A, 7, 2.0)
    page.failed(two, A, 2.0)
    page.refused(page.no_account, None, "auth", 2.0)
    total = page.as_dict(3.0, series=True)["total"]
    assert total["admitted"] == total["ok"] + total["failed"] + total["cancelled"] + total["in_flight"]
    assert total["peak_in_flight"] == 3
    assert page.as_dict(3.0)["accounts"]["two"]["peak_in_flight"] == 2
    assert (total["tokens_in"], total["tokens_out"]) == (30, 7)
    assert total["refused"] == {"auth": 1}
    assert total["admitted_per_second"] == [0, 3]
    assert (total["first_admission_s"], total["last_admission_s"]) == (1.5, 1.5)


def test_the_story_of_one_by_name_or_by_fingerprint() -> None:
    page = statistics()
    one = page.counts_by_account["one"]
    page.refused(one, A, "rpm", 0.5)
    page.admitted(one, A, 5, 1.0)
    page.faulted(one, A, "hang", 1.0)
    page.cancelled(one, A, 3.0)
    page.admitted(one, B, 5, 3.5)
    page.admitted(one, A, 5, 4.0)
    page.ok(one, A, 5, 5.0)
    history = page.history("a")
    assert history == page.history(f"{A:016x}")
    assert history is not None
    counts = {
        name: history[name] for name in ("admitted", "ok", "refused", "failed", "cancelled", "in_flight")
    }
    assert counts == {"admitted": 2, "ok": 1, "refused": 1, "failed": 0, "cancelled": 1, "in_flight": 0}
    what = [event["what"] for event in history["events"]]
    assert what == ["refused: rpm", "admitted", "fault: hang", "cancelled", "admitted", "ok"]
    assert page.history("nobody") is None


def test_memory_is_bounded_and_says_so() -> None:
    page = statistics(remember=2)
    one = page.counts_by_account["one"]
    for unit in range(5):
        page.admitted(one, unit, 1, 0.0)
        page.ok(one, unit, 1, 0.0)
    facts = page.as_dict(1.0)
    assert (facts["units"], facts["untracked"], facts["total"]["ok"]) == (2, 3, 5)


def test_a_unit_seen_very_often_keeps_its_counts_apart() -> None:
    page = statistics()
    one = page.counts_by_account["one"]
    for _ in range(70_000):
        page.admitted(one, A, 1, 0.0)
        page.ok(one, A, 1, 0.0)
    history = page.history("a")
    assert history is not None
    assert (history["admitted"], history["ok"], history["failed"], history["in_flight"]) == (
        70_000,
        70_000,
        0,
        0,
    )
    assert one.repeats == 69_999
