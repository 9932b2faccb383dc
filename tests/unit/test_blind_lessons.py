"""Bugs that blind lanes once had: each test names the cause that was fixed."""

from __future__ import annotations

import pytest
from tests.unit.blind import PLAIN, Blind
from tests.unit.drive import Run, entry_of, failed, lane_spec, ok, one_lane, units

from headway.core.lanes.estimate import Estimator
from headway.core.lanes.in_flight.window import QUIET_S
from headway.core.lanes.lane import LaneState
from headway.core.lanes.lane_memory import export_lane, import_lane
from headway.core.lanes.queueing.queue import NEVER, Entry
from headway.core.model import Kind, LaneLimits, Outcome, Unit, Usage


def suspected() -> tuple[Run, float]:
    """The last of the first handful was refused; returns the run and when one beyond may go."""
    run = Run(units(999, estimate=PLAIN), lane_spec(limits=LaneLimits()))
    run.at(0.0)
    run.at(0.1, failed(run.out[-1], Kind.RATE))
    return run, 0.1 + QUIET_S


@pytest.mark.parametrize(("rate", "answer_s", "share"), [(5.0, 0.3, 0.9), (1.0, 3.0, 0.6), (1.0, 10.0, 0.6)])
def test_a_shallow_rate_limit_is_used_though_few_are_in_flight(
    rate: float, answer_s: float, share: float
) -> None:
    """At a ceiling of three or less every refusal was "near" it: taken for a cap, and never measured (20 % used).

    A bucket that holds a single request is still used to two thirds only: docs/decisions/0007.
    """
    world = Blind(rate, 1.0, answer_s)
    world.play(300.0)
    assert world.used(60.0, 300.0) > share


@pytest.mark.parametrize("depth_s", [10.0, 60.0])
def test_a_slow_limit_with_quick_answers_is_not_hammered(depth_s: float) -> None:
    """A refusal with one in flight cannot be about the number; taken for that, the pace climbed on unmeasured."""
    world = Blind(1.0, depth_s, 0.1)
    world.play(300.0)
    assert sum(at > 60.0 for at in world.refused) < 0.1 * len(world.accepted)


def test_a_refusal_that_names_the_number_in_flight_ends_the_suspicion() -> None:
    """window.refused() left probe_at in place: probes went on, and the third accepted one opened it all."""
    run, beyond_at = suspected()
    (probe,) = run.at(beyond_at).started
    run.at(beyond_at + 0.05, failed(probe, Kind.CONCURRENCY))
    while run.lane().in_flight > run.lane().window.size:
        run.at(beyond_at + 0.06, ok(run.out[0]))
    assert run.lane().in_flight == run.lane().window.size
    assert run.lane().permit_at() == NEVER


def test_a_mere_suspicion_is_not_remembered_as_a_window() -> None:
    """Window.learned was true of a suspect too; resume() made a ceiling of it that nothing would question."""
    run, _ = suspected()
    warm = Run(units(999, estimate=PLAIN), lane_spec(limits=LaneLimits()))
    import_lane(warm.lane(), export_lane(run.lane(), 0.2, 0.0), 0.0, 0.0)
    assert warm.lane().window.open


def test_a_refused_burst_of_one_instant_counts_in_no_measurement() -> None:
    """`since` was only what started later, so the burst's other refusals counted as accepted."""
    out: dict[int, Entry] = {}
    lane = LaneState(one_lane(LaneLimits()).spec, 0.0, out)

    def send(now: float) -> Entry:
        entry = out[lane.traffic.started] = entry_of(lane, Unit(lane.traffic.started, "a", PLAIN))
        lane.charge(entry, now)
        return entry

    def end(entry: Entry, kind: Kind | None, now: float) -> None:
        del out[entry.unit.index]
        lane.release(entry, Outcome(kind), now)
        if kind is not None:
            lane.throttled(entry, Outcome(kind), now)

    end(send(5.0), Kind.RATE, 5.05)
    lane.window.clear()
    for place in range(1, 31):
        end(send(5.0 + place / 10.0 - 0.01), None, 5.0 + place / 10.0)
    for entry in [send(8.0) for _ in range(5)]:
        end(entry, Kind.RATE, 8.05)
    assert lane.limits.finder is not None
    assert lane.limits.finder.rates[0] == pytest.approx(10.0)


def test_the_most_to_be_expected_survives_a_restart() -> None:
    """The record's highest quantile was 0.9, but 0.95 stands in for max_tokens."""
    old, new = Estimator(), Estimator()
    for place in range(100):
        old.learn(400, "", Usage(100.0, 1000.0 if place % 13 == 0 else 10.0))
    new.recall(old.export())
    assert new.estimate(400).max_output_tokens == old.estimate(400).max_output_tokens
