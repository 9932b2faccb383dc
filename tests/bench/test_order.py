"""A sample of the bench that holds orders against each other: a small job whose long unit stands last."""

from __future__ import annotations

from bench import order


def test_a_job_whose_tail_is_long_ends_sooner_longest_first() -> None:
    job = order.Job("small", "max_concurrency = 4", 48, 1, at_once=4, long_tokens=300)
    took_s = order.measure(job)
    assert took_s[order.INPUT] >= job.bound_s + 0.8  # The tail: the long unit alone.
    assert took_s[order.LONGEST] < 0.9 * took_s[order.INPUT]
    assert took_s[order.KNOWN] < 0.9 * took_s[order.INPUT]


def test_misses_are_reported() -> None:
    tail, even = order.JOBS[0], order.JOBS[-1]
    same = dict.fromkeys((order.INPUT, order.LONGEST, order.FRESH, order.KNOWN), 10.0)
    assert len(order.misses(tail, same)) == 2
    assert order.misses(even, same) == []
    slower = {**same, order.FRESH: 12.0, order.KNOWN: 12.0}
    assert len(order.misses(tail, slower)) == 3
    assert len(order.misses(even, slower)) == 2
