"""`headway eval` and the real promptfoo on the same configuration: one of two providers is slow and limited.

In promptfoo the cells of both providers share a number of places, so the slow provider's waits hold the places of the healthy
one. Here each has its own lane, and the healthy one waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from bench.evals import promptfoo
from bench.evals.closed_room import ClosedRoom, closed_room
from bench.evals.eval_files import headway_eval, write_eval
from bench.evals.timed_command import TimedCommand
from headway.sim.bound import meter_bound_s

TESTS: Final = 120
#: Requests per minute, the depth of the bucket in seconds, and the latency.
HEALTHY: Final[dict[str, Any]] = {"key": "sk-healthy", "rpm": 1500, "burst": "1s", "latency": 0.2}
SLOW: Final[dict[str, Any]] = {"key": "sk-slow", "rpm": 150, "burst": "2s", "latency": 1.0}
HEALTHY_RATE: Final = 25.0
#: The time of the healthy lane ÷ the bound of its limit.
BAR: Final = 1.15
LONGEST_S: Final = 200.0
PROVIDERS: Final[list[dict[str, Any]]] = [
    {"id": "openai:chat:gpt-4o-mini", "label": "healthy"},
    {"id": "anthropic:messages:claude-sonnet-4-5", "label": "slow", "config": {"max_tokens": 64}},
]

Tool = Callable[[ClosedRoom, Path, Path], TimedCommand]


class SideRun(msgspec.Struct, frozen=True):
    """A run of one tool. Times of a lane are from its first admitted request to its last one."""

    ended: bool
    seconds: float
    healthy_s: float
    slow_s: float
    refused: int
    cpu_s: float

    @property
    def healthy_ratio(self) -> float:
        """Time of the healthy lane ÷ the bound of its limit."""
        return self.healthy_s / meter_bound_s([1.0] * TESTS, HEALTHY_RATE, 1.0)


def measure(tool: Tool) -> SideRun:
    """Run the configuration with one tool, in a namespace of its own."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        config = write_eval(folder, PROVIDERS, [f"word-{number:04d}" for number in range(TESTS)])
        with closed_room(folder, {"accounts": {"healthy": HEALTHY, "slow": SLOW}}) as room:
            command = tool(room, config, folder / "results.json")
            accounts = room.accounts()
    healthy, slow = accounts["healthy"], accounts["slow"]
    refused = sum(account["received"] - account["admitted"] for account in (healthy, slow))
    return SideRun(
        command.code is not None, command.seconds, _spent_s(healthy), _spent_s(slow), refused, command.cpu_s
    )


def with_headway(room: ClosedRoom, config: Path, results: Path) -> TimedCommand:
    """`headway eval`."""
    return headway_eval(room.prefix, config, results, _keys(room.url), LONGEST_S)


def with_promptfoo(room: ClosedRoom, config: Path, results: Path) -> TimedCommand:
    """`promptfoo eval`."""
    return promptfoo.evaluate(room.prefix, config, results, _keys(room.url), LONGEST_S)


def _keys(url: str) -> dict[str, str]:
    return promptfoo.targets(url, HEALTHY["key"], SLOW["key"])


def _spent_s(account: dict[str, Any]) -> float:
    return float(account["last_admission_s"] - account["first_admission_s"])


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    print(f"evals: {2 * TESTS} cells, one of two providers is slow …", flush=True)
    runs = {"`headway eval`": measure(with_headway)}
    if promptfoo.missing():
        missed.append(f"evals: {promptfoo.missing()}")
    else:
        runs["promptfoo"] = measure(with_promptfoo)
    ours = runs["`headway eval`"]
    if ours.healthy_ratio > BAR:
        missed.append(
            f"evals: the healthy lane takes {ours.healthy_ratio:.2f} × its bound, the bar is {BAR:g}"
        )
    yield "### Two providers, one of them slow and limited"
    yield ""
    yield f"{TESTS} tests on two providers: one allows {HEALTHY['rpm']:,} requests a minute and answers in {HEALTHY['latency']:g} s, the other {SLOW['rpm']} and {SLOW['latency']:g} s."
    yield "Both tools have the same file and no settings, and run in a namespace with only loopback. The time of a lane is from its first admitted request to"
    yield f"its last one. Bar: the healthy lane of `headway eval` takes at most {BAR:g} × the bound of its limit."
    yield ""
    yield "| | seconds in all | healthy lane, s | ÷ bound | slow lane, s | 429s | CPU s |"
    yield "|---|---|---|---|---|---|---|"
    for name, run in runs.items():
        seconds = f"{run.seconds:.1f}" if run.ended else f"stopped after {run.seconds:.0f}"
        yield f"| {name} | {seconds} | {run.healthy_s:.1f} | {run.healthy_ratio:.2f} | {run.slow_s:.1f} | {run.refused} | {run.cpu_s:.1f} |"
    yield ""
