"""Requests that wait to be written: for a connection, or for the disk. They are charged when they are written."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.drive import entry_of, lane_spec, one_lane

from headway.core import events
from headway.core.commands import Start
from headway.core.lanes.in_flight.connections_ahead import HANDFUL, connections_ahead
from headway.core.lanes.lane import LaneState
from headway.core.lanes.queueing.queue import NEVER, Entry
from headway.core.model import Dimension, Hint, Kind, LaneLimits, LimitReport, Outcome, Unit
from headway.core.scheduler import Scheduler
from headway.core.unit_source import FedScheduler, ListSource

#: Ten a second out of a bucket of a second.
SECOND = LaneLimits(rpm=600.0, burst_s=1.0)
REQUEST_S = 0.1


def sent(lane: LaneState, now: float) -> Entry:
    entry = entry_of(lane, Unit(lane.traffic.started, lane.key))
    lane.charge(entry, now)
    return entry


def delayed(lane: LaneState, now: float, times: int) -> list[Entry]:
    entries = [sent(lane, now) for _ in range(times)]
    for entry in entries:
        lane.delayed(entry)
    return entries


def full_at(lane: LaneState) -> float:
    [meter] = lane.limits.meters
    return meter.full_at


def test_a_burst_that_waited_is_charged_when_it_is_written() -> None:
    lane = one_lane(SECOND)
    burst = delayed(lane, 0.0, 5)
    for entry in burst:
        lane.written(entry, 0.3)
    assert full_at(lane) == pytest.approx(0.3 + 5 * REQUEST_S)
    assert burst[-1].started_at == 0.3
    assert lane.unwritten.count == 0


def test_a_bucket_in_debt_refills_while_a_request_waits() -> None:
    lane = one_lane(SECOND)
    for _ in range(5):
        sent(lane, 0.0)
    [entry] = delayed(lane, 0.0, 1)
    lane.written(entry, 0.3)
    assert full_at(lane) == pytest.approx(6 * REQUEST_S)


def test_nothing_starts_that_would_not_fit_beside_those_that_wait() -> None:
    lane = one_lane(SECOND)
    lane.caution.level = 0.0
    burst = delayed(lane, 0.0, 10)
    another = entry_of(lane, Unit(99, lane.key))
    assert lane.when(another, 0.5) == (NEVER, "")  # By its own clock the bucket has refilled by half.
    lane.written(burst[0], 0.5)
    assert lane.when(another, 0.5)[0] > 0.5
    for entry in burst[1:]:
        lane.written(entry, 0.5)
    assert lane.when(another, 0.5)[0] == pytest.approx(0.5 + REQUEST_S)


def test_one_that_is_never_written_leaves_its_room() -> None:
    lane = one_lane(SECOND)
    lane.caution.level = 0.0
    burst = delayed(lane, 0.0, 10)
    another = entry_of(lane, Unit(99, lane.key))
    assert lane.when(another, 0.5)[0] == NEVER
    lane.release(burst[0], Outcome(Kind.TRANSIENT, reached=False, sent=False), 0.5)
    assert lane.unwritten.count == 9
    assert lane.when(another, 0.5)[0] <= 0.5


def test_delayed_and_written_count_once() -> None:
    lane = one_lane(SECOND)
    [entry] = delayed(lane, 0.0, 1)
    lane.delayed(entry)
    lane.written(entry, 0.2)
    lane.written(entry, 5.0)
    assert lane.unwritten.count == 0
    assert full_at(lane) == pytest.approx(0.2 + REQUEST_S)


def test_a_gap_of_our_own_does_not_wait_for_connections() -> None:
    lane = one_lane(LaneLimits(min_gap_s=0.1))
    delayed(lane, 0.0, 1)
    assert lane.when(entry_of(lane, Unit(99, lane.key)), 0.1)[0] <= 0.1


@pytest.mark.parametrize("seed", range(20))
def test_it_equals_a_meter_that_is_charged_in_the_order_of_writing(seed: int) -> None:
    random = Random(seed)
    lane = one_lane(LaneLimits(rpm=600.0, burst_s=1000.0))
    starts = sorted(random.uniform(0.0, 3.0) for _ in range(40))
    waits = [random.choice((0.0, random.uniform(0.0, 0.6))) for _ in starts]
    agenda = [(at, 0, number) for number, at in enumerate(starts)]
    agenda += [
        (at + wait_s, 1, number) for number, (at, wait_s) in enumerate(zip(starts, waits, strict=True))
    ]
    entries: dict[int, Entry] = {}
    expected = 0.0
    for at, written, number in sorted(agenda):
        if not written:
            entries[number] = sent(lane, at)
            if waits[number]:
                lane.delayed(entries[number])
            continue
        expected = max(expected, at) + REQUEST_S
        lane.written(entries[number], at)
        # Its mark is the debt on arrival, without what waits.
        assert entries[number].marks[0] == pytest.approx(expected)
    assert full_at(lane) == pytest.approx(expected)


def test_a_report_on_what_was_written_earlier_does_not_undo_the_charge() -> None:
    lane = one_lane(SECOND)

    def report(left: float) -> Hint:
        return Hint((LimitReport(Dimension.REQUESTS, 600.0, left, 60.0 - left / 10.0),))

    first = sent(lane, 0.0)
    lane.admitted(first, report(599.0), 0.05)
    early, late = delayed(lane, 1.0, 2)
    lane.written(early, 1.1)
    lane.written(late, 1.5)
    lane.admitted(early, report(599.0), 1.6)
    [meter] = [meter for meter in lane.limits.meters if meter.reported]
    assert meter.full_at >= 1.5 + REQUEST_S - 1e-9


def test_the_scheduler_waits_for_the_written_event() -> None:
    units = [Unit(index, "lane") for index in range(40)]
    scheduler = Scheduler([lane_spec("lane", SECOND)])
    lane = scheduler.lanes["lane"]
    lane.caution.level = 0.0
    fed = FedScheduler(scheduler, ListSource(units))
    started = [one.unit.index for one in fed.handle([], 0.0) if isinstance(one, Start)]
    assert len(started) == 10
    fed.handle([events.Delayed(index) for index in started], 0.0)
    assert not [one for one in fed.handle([], 0.9) if isinstance(one, Start)]
    commands = fed.handle([events.Written(index) for index in started], 0.9)
    assert not [one for one in commands if isinstance(one, Start)]
    assert [one for one in fed.handle([], 0.9 + REQUEST_S) if isinstance(one, Start)]
    fed.handle([events.Delayed(-1), events.Written(-1)], 1.1)  # Unknown attempts are ignored.


def test_connections_are_opened_ahead_only_for_work_that_starts_soon() -> None:
    fed = FedScheduler(Scheduler([lane_spec("lane", SECOND)]), ListSource([]))
    assert fed.connections_ahead("lane", 0.0) in (0, HANDFUL)
    fed.handle([], 0.0)
    assert fed.connections_ahead("lane", 0.0) == 0  # There is no work.


def test_connections_ahead_follow_the_pace_and_the_ramp() -> None:
    units = [Unit(index, "lane") for index in range(2_000)]
    paced = FedScheduler(
        Scheduler([lane_spec("lane", LaneLimits(rpm=6000.0, burst_s=1.0))]), ListSource(units)
    )
    assert paced.connections_ahead("lane", 0.0) == HANDFUL
    started = [one.unit.index for one in paced.handle([], 0.0) if isinstance(one, Start)]
    assert paced.connections_ahead("lane", 0.0) == 0  # The burst opens its own.
    assert HANDFUL < paced.connections_ahead("lane", 0.2) < 60  # About a third of a second's worth.
    paced.handle([events.Delayed(index) for index in started], 0.2)
    assert paced.connections_ahead("lane", 0.2) == 0
    ramping = FedScheduler(Scheduler([lane_spec("lane", LaneLimits(rpm=600.0))]), ListSource(units))
    ramping.handle([], 0.0)
    in_flight = ramping.scheduler.lanes["lane"].in_flight
    assert ramping.connections_ahead("lane", 0.2) == in_flight > HANDFUL


def test_no_connection_is_opened_ahead_for_a_closed_or_full_lane() -> None:
    units = [Unit(index, "lane") for index in range(2_000)]
    limits = LaneLimits(rpm=6000.0, burst_s=1.0)
    fed = FedScheduler(Scheduler([lane_spec("lane", limits)]), ListSource(units))
    fed.handle([], 0.0)
    lane = fed.scheduler.lanes["lane"]
    assert connections_ahead(lane, 0.2) > 0
    lane.hold.extend(60.0, "a test")
    assert connections_ahead(lane, 0.2) == 0
    capped = LaneLimits(rpm=6000.0, burst_s=1.0, max_concurrency=20)
    full = FedScheduler(Scheduler([lane_spec("lane", capped)]), ListSource(units))
    full.handle([], 0.0)
    assert full.connections_ahead("lane", 0.2) == 0
