"""Random matrices with serial tests, conversations and stored outputs: a parallel run gives what a serial run gives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.evals.running.conftest import EvalRuns, named, prompt
from tests.evals.running.conftest import settings as toml

from headway.evals import spec as specs
from headway.evals.records import CellResult
from headway.evals.spec import AssertionSpec
from headway.testing import FakeProvider, fake_provider

CHAT = """[{% for turn in _conversation %}{"role": "user", "content": "{{turn.input}}"},
{"role": "assistant", "content": "{{turn.output}}"},{% endfor %}{"role": "user", "content": "{{x}} {{r0}} {{r1}}"}]"""
PLAIN = "say {{x}} {{r0}} {{r1}}"
REGISTERS = ("r0", "r1")
#: Fields that say when and how an answer came.
OF_TIME = ("latency_ms", "finished_utc", "attempts", "cached", "cost_usd")


@pytest.fixture(scope="module")
def uneven() -> Iterator[FakeProvider]:
    """A provider whose answers overtake each other."""
    with fake_provider(latency={"min": "1ms", "max": "20ms"}) as provider:
        yield provider


@st.composite
def random_tests(draw: st.DrawFn) -> specs.TestSpec:
    x: Any = draw(st.sampled_from(["a", "b", "c"]))
    if draw(st.booleans()):
        x = ["one", "two"]
    return specs.TestSpec(
        vars={"x": x},
        runs_serially=draw(st.booleans()),
        store_output_as=draw(st.sampled_from(["", "", *REGISTERS])),
        metadata={"conversationId": draw(st.sampled_from(["", "k", "l"]))},
        asserts=tuple(draw(st.lists(st.sampled_from(ASSERTIONS), max_size=2))),
        repeat=draw(st.sampled_from([0, 0, 2])),
    )


ASSERTIONS = [
    AssertionSpec(type="contains", value="{{r0}}"),
    AssertionSpec(type="contains", value="one"),
    AssertionSpec(type="equals", value="say a", negated=True, weight=2.0),
]


@settings(
    max_examples=int(os.environ.get("HEADWAY_EVAL_EXAMPLES", "12")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    rows=st.lists(random_tests(), min_size=1, max_size=5),
    prompts=st.lists(st.sampled_from([CHAT, PLAIN]), min_size=1, max_size=2, unique=True),
    columns=st.integers(1, 2),
)
def test_a_parallel_run_equals_the_serial_one(
    folder: Path, uneven: FakeProvider, rows: list[specs.TestSpec], prompts: list[str], columns: int
) -> None:
    (folder / "headway.toml").write_text(toml(uneven.openai_url))
    evals = EvalRuns(folder, uneven)
    spec = evals.spec(
        prompts=tuple(map(prompt, prompts)),
        providers=(named("alpha"), named("beta"))[:columns],
        tests=tuple(rows),
    )
    parallel = plain(evals.run(spec, fresh=True))
    assert evals.code == 0
    assert parallel == plain(evals.run(spec, fresh=True, serial=True))


def plain(cells: list[CellResult]) -> list[dict[str, Any]]:
    """Cells without what differs between two runs."""
    return [
        {name: getattr(cell, name) for name in cell.__struct_fields__ if name not in OF_TIME}
        for cell in cells
    ]
