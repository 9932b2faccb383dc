"""Which request meets which fault."""

from __future__ import annotations

from typing import Any

import pytest

from headway.fake.faults import FaultStage, fault_stages

from .virtual_server import config


def faults(*said: dict[str, Any], seed: int = 1) -> FaultStage:
    return FaultStage(config(faults=list(said)).faults, seed, "one")


def test_chance_is_a_share_and_the_same_for_the_same_seed() -> None:
    runs = [
        [faults_.next_fault(0.0) for _ in range(4000)]
        for faults_ in (faults({"kind": "hang", "chance": 0.05}, seed=seed) for seed in (1, 1, 2))
    ]
    assert runs[0] == runs[1] != runs[2]
    assert sum(map(bool, runs[0])) == pytest.approx(200, abs=50)


def test_every_nth() -> None:
    one = faults({"kind": "reset", "every": 3})
    assert [one.next_fault(0.0) for _ in range(7)] == ["", "", "reset", "", "", "reset", ""]


def test_at_is_once_and_between_is_all_that_while() -> None:
    one = faults({"kind": "hang", "at": 5}, {"kind": "500", "between": [10, 20]})
    assert [one.next_fault(now) for now in (4.9, 5.2, 5.3, 9.9, 10.0, 19.9, 20.0)] == [
        "",
        "hang",
        "",
        "",
        "500",
        "500",
        "",
    ]


def test_5xx_is_one_of_three() -> None:
    one = faults({"kind": "5xx"})
    assert {one.next_fault(0.0) for _ in range(100)} == {"500", "502", "503"}


def test_the_first_that_fits_wins() -> None:
    one = faults({"kind": "hang", "every": 2}, {"kind": "reset"})
    assert [one.next_fault(0.0) for _ in range(2)] == ["reset", "hang"]


def test_some_stand_at_the_door() -> None:
    said = config(faults=[{"kind": "quota"}, {"kind": "hang"}]).faults
    door, inside = fault_stages(said, 1, "one")
    assert door is not None
    assert inside is not None
    assert (door.next_fault(0.0), inside.next_fault(0.0)) == ("quota", "hang")
    assert fault_stages((), 1, "one") == (None, None)
