"""`headway.map(executor="ray")` gives what `isolation="process"` gives."""

from __future__ import annotations

import os
from typing import Any

from tests.on_ray.inside import map_acts

import headway

ITEMS = ["say a", "raise b", "die c", "pay d", *(f"say {n}" for n in range(40))]


def test_results_errors_and_crashes_are_those_of_processes() -> None:
    retry = headway.Retry(max_attempts=2, base="10ms")
    here = headway.map(map_acts.act, ITEMS, on_error="return", retry=retry, isolation="process", workers=2)
    on_ray = headway.map(
        map_acts.act, ITEMS, on_error="return", retry=retry, executor="ray",
        ray_address=os.environ["HEADWAY_TEST_RAY"], resources={"num_cpus": 0.5},
    )  # fmt: skip
    assert [_plain(value) for value in on_ray] == [_plain(value) for value in here]
    assert "SIGKILL" in str(on_ray[2])


def _plain(value: Any) -> Any:
    return (type(value), str(value).partition(" after")[0]) if isinstance(value, BaseException) else value
