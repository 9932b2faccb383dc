"""What a report says of a run: its course out of attempts, what would have made it faster, and markup that stays markup."""

from __future__ import annotations

import re

import pytest
from tests.contract.records import begun, the_job

from headway.core.model import Dimension
from headway.display.html.run.run_section import run_section
from headway.display.html.run.svg_plot import PlotLine, TimePlot, plot_html
from headway.forecast.what_if import Change, ReplayJob, ReplayLane, ReplayUnit, changes, replay
from headway.reports.run_analysis.attempt_history import attempt_history
from headway.reports.run_analysis.cost_rows import CostRow
from headway.reports.run_analysis.run_analysis import RunAnalysis, run_analysis, worked_seconds
from headway.stores.records import Attempt, JobEvent
from headway.stores.samples import LaneWait
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import BEGAN, ENDED, LOST, Store
from headway.stores.write_batch import WriteBatch

T = 1_000_000.0
HOSTILE = "</svg><script>alert(1)</script>\x1b[31m"


def lane_of(name: str = "alpha/x", requests: int = 600, rpm: float = 600.0, **more: int) -> ReplayLane:
    """Answers of one second and 100 tokens, of which 100 are on record."""
    units = [ReplayUnit(60.0, 40.0, 1.0)] * 100
    return ReplayLane(name, requests, units, {Dimension.REQUESTS: (rpm, 1.0)}, **more)


def test_a_replay_takes_as_long_as_its_limits_allow() -> None:
    job = ReplayJob([lane_of(), lane_of("beta/x", requests=300)])
    before = replay(job)
    assert before.slowest == "alpha/x"
    assert before.seconds == pytest.approx(60.0, rel=0.05)
    assert replay(job) == before, "nothing is drawn at random"
    after = {change: replay(changed) for change, changed in changes(job, before.slowest)}
    assert set(after) == {Change("requests", "alpha/x"), Change("key", "alpha/x")}
    for change, changed in after.items():
        assert changed.seconds == pytest.approx(30.0, rel=0.1), (
            f"{change}: then both lanes take half a minute"
        )


def test_more_in_flight_helps_where_the_window_binds() -> None:
    job = ReplayJob([lane_of(rpm=60_000.0, most_in_flight=5)])
    before = replay(job)
    assert before.seconds == pytest.approx(120.0, rel=0.05)
    after = {change.what: replay(changed).seconds for change, changed in changes(job, before.slowest)}
    assert after["in_flight"] == pytest.approx(60.0, rel=0.05)
    assert after["requests"] == pytest.approx(before.seconds, rel=0.05)


def recorded() -> Store:
    """A job of four attempts of 2.5 seconds each, begun one second after the other, without samples."""
    store = Store(SqliteMemory())
    job, _, lane = begun(store, 4)
    batch = WriteBatch(job)
    for index in range(4):
        at = T + index
        batch.attempts.append(
            Attempt(index, 1, lane, "succeeded", started_utc=at, finished_utc=at + 2.5, cost_usd=0.25)
        )
    store.commit(batch)
    return store


def test_a_job_without_samples_has_the_course_of_its_attempts() -> None:
    store = recorded()
    history = attempt_history(store, the_job(store), points=10)
    [curves] = history.lanes.values()
    assert sum(one or 0.0 for one in curves.starts_per_min) * (
        history.t[1] - history.t[0]
    ) / 60 == pytest.approx(4)
    assert max(one or 0.0 for one in curves.in_flight) == 3.0
    assert (history.done[-1], history.cost_usd[-1], curves.in_flight[-1]) == (4.0, 1.0, 0.0)
    analysis = run_analysis(store, the_job(store))
    assert not analysis.sampled
    assert "no samples" in run_section(analysis, [])


def test_time_between_runs_does_not_count() -> None:
    events = [
        (0.0, BEGAN),
        (5.0, ENDED),
        (100.0, BEGAN),
        (103.0, "held"),
        (200.0, LOST),
        (200.0, BEGAN),
        (202.0, ENDED),
    ]
    assert worked_seconds([JobEvent(T + at, None, what, "") for at, what in events], T) == pytest.approx(
        5 + 3 + 2
    )


def test_names_of_others_stay_text() -> None:
    store = recorded()
    analysis = run_analysis(store, the_job(store))
    history = analysis.history
    hostile = RunAnalysis(
        10.0, type(history)(history.t, dict.fromkeys([HOSTILE], *history.lanes.values()), [], history.done, []), True,
        [LaneWait(HOSTILE, "pace", HOSTILE, 5.0), LaneWait("a", "a_newer_reason", "", 5.0)], {}, analysis.faster,
    )  # fmt: skip
    markup = run_section(hostile, [CostRow(HOSTILE, HOSTILE, 1, 1, 1, 0.5, None)])
    assert "<script" not in markup
    assert "\x1b" not in markup
    assert "a newer reason" in markup
    assert "style=" not in markup, "the page forbids it"


def test_a_limit_far_above_is_named_and_not_drawn() -> None:
    t = [T + n for n in range(5)]
    used = PlotLine("started", [10.0, 12.0, None, 9.0, 9.0], "used", "area")
    drawn = plot_html(
        TimePlot("Requests", "a minute", t, [used, PlotLine("limit", [20.0] * 5, "limit", "steps")])
    )
    far = plot_html(
        TimePlot("Requests", "a minute", t, [used, PlotLine("limit", [9e6] * 5, "limit", "steps")])
    )
    assert ('class="line limit"' in drawn, 'class="line limit"' in far) == (True, False)
    assert "9M (above the plot)" in far
    [path] = re.findall(r'class="line used" d="([^"]+)"', drawn)
    assert path.count("M") == 2, "a hole is no line"
    assert plot_html(TimePlot("Requests", "", t, [PlotLine("started", [None] * 5, "used")])) == ""
