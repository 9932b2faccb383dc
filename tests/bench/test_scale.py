"""The simulation of many engines on one database: nothing is lost when they die or lose it, and what counts as a missed bar."""

from __future__ import annotations

import msgspec
import pytest
from bench.scale.fleet_plan import FleetPlan, Trouble
from bench.scale.fleet_result import FleetResult, run_fleet
from bench.scale.section import misses

#: One host dies; one loses the database for less than a lease, one for longer.
TROUBLES = (Trouble(8.0, 1), Trouble(10.0, 1, 6.0), Trouble(12.0, 1, 25.0))


@pytest.fixture(scope="module")
def troubled() -> FleetResult:
    return run_fleet(FleetPlan(engines=8, lanes=4, work_s=40.0, troubles=TROUBLES))


def test_no_unit_is_lost_or_recorded_twice_when_engines_die_or_lose_the_database(
    troubled: FleetResult,
) -> None:
    assert (troubled.lost, troubled.doubled) == (0, 0)
    assert troubled.takeovers == 2, "the job of the dead host, and that of the longer partition"
    assert troubled.fenced == 1, "the engine that came back after its lease"
    assert troubled.used >= 0.95
    assert troubled.beyond <= 0.05


def test_a_hundred_engines_keep_to_one_limit() -> None:
    """300 requests per minute; each engine has two units. When each had at least 2 % of the limit, three requests of four were refused."""
    result = run_fleet(FleetPlan(engines=100, lanes=1, kinds=("configured",), work_s=30.0, troubles=()))
    assert result.lost == 0
    assert result.refused_per_1000 <= 50.0


def test_every_bar_can_be_missed(troubled: FleetResult) -> None:
    lane = msgspec.structs.replace(troubled.lanes[0], used=0.5, refused=99, units=1_000, around=[(2, 100)])
    worse = msgspec.structs.replace(troubled, lanes=[lane], units=1_000, lost=1, doubled=2)
    assert misses(worse) == [
        "8 engines: 50.0% of the limits used, the bar is 95%",
        "8 engines: 99.0 429s per 1000, the bar is 5",
        "8 engines: 2.0% beyond the limits at a partition, the bar is 1%",
        "8 engines: 1 units lost, 2 doubled",
    ]
