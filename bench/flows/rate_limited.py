"""A `for_each` of agents against a provider with a rate limit: the lane's rate sets the pace, and not a number of threads.

With `concurrency: auto` the run takes what the limit allows, with whatever latency. With a fixed number, as graph runners have it, it takes
`items × latency ÷ number` if that is longer, and is refused if the number is too high.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from bench.overhead import ACCOUNT, sound, start
from headway.fake.process import fake_process
from headway.sim.bound import meter_bound_s

ITEMS: Final = 900
RPM: Final = 1_800.0
BURST_S: Final = 2.0
LATENCY_S: Final = (0.5, 1.5)
#: Of the bound, for `auto`.
BAR: Final = 1.10
#: Requests that are refused, of a thousand.
REFUSED_BAR: Final = 10.0
SIZES: Final = ("auto", "1000", "8")
LONGEST_S: Final = 600.0


class FanOut(msgspec.Struct, frozen=True):
    """One run: `spent_s` is from the first admitted request to the last one, `bound_s` the least time that the limit allows."""

    size: str
    items: int
    spent_s: float
    bound_s: float
    refused: int

    @property
    def ratio(self) -> float:
        """Time ÷ bound."""
        return self.spent_s / self.bound_s


def measure(size: str, items: int = ITEMS, rpm: float = RPM) -> FanOut:
    """Run the flow with so many iterations at a time."""
    low, high = LATENCY_S
    flags = (
        "--rpm",
        f"{rpm:g}",
        "--burst",
        f"{BURST_S:g}s",
        "--headers",
        "openai",
        "--latency",
        f"{low:g}s-{high:g}s",
    )
    with TemporaryDirectory() as name, fake_process(*flags, "--output-tokens", "20") as fake:
        folder = Path(name)
        _prepare(folder, fake.url, size, items)
        sound(start(folder, "run", "flow.yaml", "--quiet", longest_s=LONGEST_S).wait(), 0)
        stats: dict[str, Any] = fake.stats()["accounts"][ACCOUNT]
    if stats["ok"] != items:
        raise RuntimeError(f"{stats['ok']} of {items} answered")
    spent_s = stats["last_admission_s"] - stats["first_admission_s"]
    bound_s = meter_bound_s([1.0] * items, rpm / 60.0, BURST_S)
    return FanOut(size, items, spent_s, bound_s, stats["received"] - stats["ok"])


def _prepare(folder: Path, url: str, size: str, items: int) -> None:
    (folder / "headway.toml").write_text(
        f'[providers.x]\nkind = "openai"\nbase_url = "{url}"\nmodel = "m"\napi_key_env = "KEY_X"\n',
        encoding="utf-8",
    )
    (folder / "ask.md").write_text("What number is {{item.n}}?", encoding="utf-8")
    (folder / "rows.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(items)), encoding="utf-8")
    (folder / "flow.yaml").write_text(
        "graph:\n  nodes:\n"
        "  - {id: load, kind: dataset, file: ./rows.jsonl, writes: [rows]}\n"
        "  - id: ask\n    kind: agent\n    prompt: ./ask.md\n"
        f"    for_each: {{source: $.rows, concurrency: {size}}}\n    writes: [answers]\n",
        encoding="utf-8",
    )


def misses(runs: list[FanOut]) -> list[str]:
    """The missed bars: those of `auto`."""
    missed = []
    for run in (run for run in runs if run.size == "auto"):
        if run.ratio > BAR:
            missed.append(
                f"a fan-out with concurrency: auto takes {run.ratio:.2f} × the bound of its limit, the bar is {BAR:g}"
            )
        if 1000.0 * run.refused / run.items > REFUSED_BAR:
            missed.append(
                f"a fan-out with concurrency: auto was refused {run.refused} times, the bar is {REFUSED_BAR:g} of 1000"
            )
    return missed


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    runs = []
    for size in SIZES:
        print(f"flows: {ITEMS:,} agents, concurrency: {size} …", flush=True)
        runs.append(measure(size))
    missed += misses(runs)
    yield "### A fan-out of agents under a rate limit"
    yield ""
    yield f"{ITEMS:,} items at {RPM:,.0f} requests per minute, known from headers, and answers after {LATENCY_S[0]:g} to {LATENCY_S[1]:g} s. Time is from the first admitted request to the last one, its"
    yield "bound (items − full bucket) ÷ rate."
    yield f"Bars for `auto`: {BAR:g} × the bound, {REFUSED_BAR:g} refused of 1000."
    yield ""
    yield "| `for_each.concurrency` | seconds | ÷ bound | refused |"
    yield "|---|---|---|---|"
    for run in runs:
        yield f"| {run.size} | {run.spent_s:.1f} | {run.ratio:.2f} | {run.refused} |"
    yield ""
