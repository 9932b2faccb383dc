"""How fast an eval runs: caps, delays, serial tests, time limits."""

from __future__ import annotations

from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path

from tests.evals.running.conftest import EvalRuns, named, rows_of, settings

from headway.evals import spec as specs
from headway.evals.spec import AssertionSpec
from headway.testing import FakeProvider, fake_provider

TEXTS = [str(n) for n in range(12)]


def most_at_once(evals: EvalRuns) -> int:
    """The most requests of the last job that were in flight together, by its records."""
    with evals.store() as store:
        spans = [
            (result.started_utc, result.finished_utc) for result in store.results(evals.job.id, -1, 1000)
        ]
    moments = sorted(start for start, _ in spans if start is not None)
    return max(
        sum(1 for start, end in spans if start is not None and end is not None and start <= at < end)
        for at in moments
    )


def slow(folder: Path, latency: str = "30ms") -> AbstractContextManager[FakeProvider]:
    return fake_provider(latency=latency)


def test_a_cap_holds_over_all_lanes(folder: Path) -> None:
    with slow(folder) as provider:
        (folder / "headway.toml").write_text(settings(provider.openai_url))
        evals = EvalRuns(folder, provider)
        columns = (named("alpha"), named("beta"))
        evals.run(evals.spec(providers=columns, tests=rows_of(TEXTS), max_concurrency=3))
        assert most_at_once(evals) <= 3
        evals.run(evals.spec(providers=columns, tests=rows_of(TEXTS)), fresh=True)
        assert most_at_once(evals) > 3


def test_a_delay_forces_one_request_at_a_time_in_order(folder: Path) -> None:
    with slow(folder, "5ms") as provider:
        (folder / "headway.toml").write_text(settings(provider.openai_url))
        evals = EvalRuns(folder, provider)
        evals.run(
            evals.spec(providers=(named("alpha"), named("beta")), tests=rows_of(TEXTS[:3]), delay_s=0.05)
        )
        assert most_at_once(evals) == 1
        with evals.store() as store:
            starts = [result.started_utc or 0.0 for result in store.results(evals.job.id, -1, 10)]
        assert starts == sorted(starts)
        assert min(after - before for before, after in pairwise(starts)) >= 0.03


def test_serial_tests_run_first_and_one_by_one(folder: Path) -> None:
    with slow(folder) as provider:
        (folder / "headway.toml").write_text(settings(provider.openai_url))
        evals = EvalRuns(folder, provider)
        tests = (
            *rows_of(["a", "b", "c"]),
            *rows_of(["d", "e"], runs_serially=True),
        )
        evals.run(evals.spec(tests=tests))
        with evals.store() as store:
            found = store.results(evals.job.id, -1, 10)
        spans = [(one.started_utc or 0.0, one.finished_utc or 0.0) for one in found]
        assert spans[3][1] <= spans[4][0]
        assert all(spans[4][1] <= start for start, _ in spans[:3])


def test_cells_that_the_time_did_not_allow_are_timeouts_and_run_later(folder: Path) -> None:
    with slow(folder, "100ms") as provider:
        (folder / "headway.toml").write_text(settings(provider.openai_url))
        evals = EvalRuns(folder, provider)
        spec = evals.spec(tests=rows_of(TEXTS), max_concurrency=1, max_duration_s=0.25)
        cells = evals.run(spec)
        assert evals.job.state == "deadline"
        assert evals.code == 3
        ended = [cell.status for cell in cells]
        assert ended[0] == "pass"
        assert ended[-1] == "timeout"
        assert set(ended) == {"pass", "timeout"}
        cells = evals.run(evals.spec(tests=rows_of(TEXTS), max_concurrency=1))
        assert {cell.status for cell in cells} == {"pass"}


def test_an_attempt_that_takes_too_long_is_a_timeout(folder: Path) -> None:
    (folder / "headway.toml").write_text("")
    with slow(folder, "5s") as provider:
        text = settings(provider.openai_url).replace("[run]\n", "[run]\nmax_attempts = 1\n")
        (folder / "headway.toml").write_text(text)
        evals = EvalRuns(folder, provider)
        contains = AssertionSpec(type="contains", value="1")
        cells = evals.run(evals.spec(tests=rows_of(["1"], asserts=(contains,)), timeout_s=0.1))
        assert [cell.status for cell in cells] == ["timeout"]


def test_a_rate_limit_is_never_a_result(folder: Path) -> None:
    with fake_provider(latency="2ms", faults=["429/3"]) as provider:
        (folder / "headway.toml").write_text(settings(provider.openai_url))
        evals = EvalRuns(folder, provider)
        cells = evals.run(evals.spec(tests=tuple(specs.TestSpec(vars={"x": text}) for text in TEXTS[:3])))
        assert {cell.status for cell in cells} == {"pass"}
