"""Which request meets which fault."""

from __future__ import annotations

from typing import Any

import pytest

from headway.errors import ConfigError
from headway.fake.faults import FaultStage, fault_stages

from .virtual_server import CHAT, ManualClock, ask, chat, config, serving


def faults(*rules: dict[str, Any], seed: int = 1) -> FaultStage:
    return FaultStage(config(faults=list(rules)).faults, seed, "one")


def test_chance_is_a_share_and_reproducible_by_seed() -> None:
    runs = [
        [faults_.next_fault(0.0) for _ in range(4000)]
        for faults_ in (faults({"kind": "hang", "chance": 0.05}, seed=seed) for seed in (1, 1, 2))
    ]
    assert runs[0] == runs[1] != runs[2]
    assert sum(map(bool, runs[0])) == pytest.approx(200, abs=50)


def test_every_nth_request_meets_a_fault() -> None:
    one = faults({"kind": "reset", "every": 3})
    assert [one.next_fault(0.0) for _ in range(7)] == ["", "", "reset", "", "", "reset", ""]


def test_at_happens_once_and_between_lasts() -> None:
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


def test_5xx_is_one_of_three_statuses() -> None:
    one = faults({"kind": "5xx"})
    assert {one.next_fault(0.0) for _ in range(100)} == {"500", "502", "503"}


def test_the_first_applicable_fault_wins() -> None:
    one = faults({"kind": "hang", "every": 2}, {"kind": "reset"})
    assert [one.next_fault(0.0) for _ in range(2)] == ["reset", "hang"]


def test_faults_are_split_by_stage() -> None:
    rules = config(faults=[{"kind": "quota"}, {"kind": "hang"}]).faults
    before, after = fault_stages(rules, 1, "one")
    assert before is not None
    assert after is not None
    assert (before.next_fault(0.0), after.next_fault(0.0)) == ("quota", "hang")
    assert fault_stages((), 1, "one") == (None, None)


def test_a_fault_may_depend_on_the_text() -> None:
    one = faults({"kind": "hang", "contains": "slow"})
    assert [one.next_fault(0.0, text) for text in ("quick", "a slow one")] == ["", "hang"]


def test_a_used_up_window_refuses_everything_until_its_reset() -> None:
    one = faults({"kind": "subscription", "at": 5, "resets": 20, "claim": "seven_day"})
    answers = [(one.next_fault(now), one.wait_s) for now in (4.0, 6.0, 16.0, 25.9)]
    assert answers == [
        ("", 0.0),
        ("subscription", 20.0),
        ("subscription", 10.0),
        ("subscription", pytest.approx(0.1)),
    ]
    assert one.closed.claim == "seven_day"
    assert [one.next_fault(now) for now in (26.0, 100.0)] == ["", ""]


def test_a_window_between_two_instants_resets_at_the_second() -> None:
    one = faults({"kind": "subscription", "between": [10, 40]})
    assert [(one.next_fault(now), one.wait_s) for now in (10.0, 30.0)] == [
        ("subscription", 30.0),
        ("subscription", 10.0),
    ]
    assert one.next_fault(40.0) == ""


def test_only_faults_with_a_reset_take_one() -> None:
    with pytest.raises(ConfigError, match="'resets' is for 429 and subscription, not for 'hang'"):
        faults({"kind": "hang", "resets": 3})


async def test_an_error_may_come_sooner_than_an_answer() -> None:
    clock = ManualClock()
    default = {"latency": 9, "error_latency": "20ms", "faults": [{"kind": "500", "every": 2}]}
    async with serving(clock, default=default) as server:
        statuses = [(await ask(server, CHAT, chat())).status for _ in range(4)]
    assert statuses == [200, 500, 200, 500]
    assert clock.waits == [9, 0.02, 9, 0.02]
