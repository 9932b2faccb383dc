"""The first minute in real time: a small job of each kind, and the bars on made-up figures."""

from __future__ import annotations

from bench.first_minute import failures, short_jobs, unlimited
from bench.first_minute.short_jobs import Case, Measured
from bench.real import Lap, Output

SOUND = Output(0, 0, 0)
CASE = Case("a case", 100, 600.0, 1.0, 0.1, "known", 1.30, 5)


def test_a_short_job_beside_the_oracle() -> None:
    case = Case("60 requests", 60, 1_200.0, 1.0, 0.1, "known", 1.30, 5)
    one = short_jobs.measure(case)
    assert one.output.sound
    assert one.exit_code == 0
    assert one.lap.oracle_s > 1.5, "the oracle was faster than the limit allows"
    assert one.lap.makespan_s > 1.5, "Headway was faster than the limit allows"
    assert "| 60 requests | ≤ 1.3 (5) |" in short_jobs.row(case, [one])


def test_the_worst_round_counts() -> None:
    good = Measured(100, Lap("A", 10.0, 0.0, 10.0, 0.0), SOUND, 0)
    slow = Measured(100, Lap("A", 14.0, 60.0, 10.0, 0.0), SOUND, 0)
    lost = Measured(100, Lap("A", 10.0, 0.0, 10.0, 0.0), Output(1, 0, 0), 1)
    assert short_jobs.misses(CASE, [good, good]) == []
    assert short_jobs.misses(CASE, [good, slow]) == [
        "a case: 1.40 of the oracle's makespan, the bar is 1.3",
        "a case: 6 429s, the bar is 5",
    ]
    assert short_jobs.misses(CASE, [lost]) == ["a case: 1 lost, 0 double, 0 wrong (exit code 1)"]


def test_a_job_of_which_a_share_fails_at_once() -> None:
    one = failures.measure(0.2, units=200)
    assert one.output.sound
    assert one.exit_code == 0
    assert one.oracle_s >= 0.9, "200 units with 100 in flight take two rounds"


def test_a_breaker_that_opens_is_missed() -> None:
    good = failures.Measured(0.05, 11.0, 10.0, 0, SOUND, 0)
    assert failures.misses(good) == []
    assert failures.misses(failures.Measured(0.05, 14.0, 10.0, 2, SOUND, 0)) == [
        "5% failures, 100 in flight: 1.40 of the oracle's makespan, the bar is 1.3",
        "5% failures, 100 in flight: the breaker opened 2 times",
    ]


def test_an_unlimited_job_with_few_files() -> None:
    one = unlimited.measure(unlimited.Case(0.0, 128), units=600)
    assert (one.wrong, one.repeats, one.exit_code, one.errors) == (0, 0, 0, 0)
    assert 16 < one.files <= 128


def test_what_an_unlimited_job_may_miss() -> None:
    case = unlimited.Case(0.0, 256)
    good = unlimited.Measured(case, 1_000, 0.1, 60.0, 100, 5e3, 5e3, 0, 0, 0, "")
    assert unlimited.misses(good) == []
    bad = unlimited.Measured(case, 1_000, 0.3, 160.0, 900, 5e3, 5e3, 2, 0, 1, "too many open files")
    name = "unlimited, answers at once, `ulimit -n 256`"
    assert unlimited.misses(bad) == [
        f"{name}: 0.30 CPU s per 1000, the bar is 0.2",
        f"{name}: 160 MB, the bar is 100",
        f"{name}: 900 open files, the bar is 512",
        f"{name}: 2 without an answer, 0 repeated, exit code 1, 1 errors named",
    ]
