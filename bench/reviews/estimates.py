"""`headway review --estimate` after one calibrating review, against the review that follows. Lengths and delays of answers are random."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from bench.overhead import sound, start
from bench.reviews.trees import write_settings, write_tree
from headway.fake.process import fake_process

TIME_BAR: Final = 0.15
COST_BAR: Final = 0.10
CALIBRATING: Final = 60
FILES: Final = 240
AXES: Final = ("--axis", "correctness", "--axis", "security", "--axis", "tests")
LONGEST_S: Final = 200.0


class Case(msgspec.Struct, frozen=True):
    """What binds the time of a review."""

    name: str
    limits: str
    flags: tuple[str, ...] = ()
    #: Of the fake.
    account: dict[str, Any] = {}


def _latency(low: float, high: float) -> dict[str, Any]:
    return {"latency": {"min": low, "max": high}, "per_token": 0.004}


CASES: Final = (
    Case("four files at a time", "rpm = 0\ntpm = 0", (), {**_latency(0.2, 0.6), "headers": "none"}),
    Case(
        "requests per minute",
        "",
        ("--concurrency", "auto"),
        {**_latency(0.2, 0.6), "headers": "openai", "rpm": 1800, "burst": 5.0},
    ),
)
#: Three lengths of answers; findings whose quote is nowhere are corrected in a second turn.
_FINDING: Final = {
    "rule": "wrong-condition", "severity": "high", "confidence": 0.9, "start_line": 2, "end_line": 2,
    "quote": "def f0(x):", "message": "It is wrong. " * 12, "suggestion": "",
}  # fmt: skip
_ANSWERS: Final[tuple[dict[str, Any], ...]] = (
    {"contains": "# long ", "turns": [{"findings": [{**_FINDING, "quote": "nowhere"}]}, {"findings": [_FINDING]}]},
    {"contains": "only: Security.", "turns": [{"findings": [_FINDING]}]},
    {"turns": [{"findings": []}]},
)  # fmt: skip


class Compared(msgspec.Struct, frozen=True):
    """An estimate, and what the review took."""

    name: str
    requests: int
    time_s: float
    took_s: float
    cost_usd: float
    paid_usd: float

    @property
    def time_off(self) -> float:
        """The error of the time, as a share of what it took."""
        return self.time_s / self.took_s - 1.0

    @property
    def cost_off(self) -> float:
        """The error of the cost."""
        return self.cost_usd / self.paid_usd - 1.0


def measure(case: Case, files: int = FILES, calibrating: int = CALIBRATING) -> Compared:
    """Review some files, change all and add others, estimate, and review them."""
    with TemporaryDirectory() as name:
        root = Path(name)
        config = {"accounts": {"default": case.account}, "answers": list(_ANSWERS)}
        (root / "fake.json").write_bytes(msgspec.json.encode(config))  # JSON is YAML.
        with fake_process("--config", str(root / "fake.json")) as fake:
            write_settings(root, fake.url, case.limits)
            write_tree(root, calibrating)
            _review(root, case, "--quiet")
            write_tree(root, files, version=2)
            ahead = msgspec.json.decode(_review(root, case, "--estimate", "--json"))
            ran = msgspec.json.decode(_review(root, case, "--json"))
            states = msgspec.json.decode(
                (root / ".headway/jobs" / ran["job"] / "progress.json").read_bytes(), type=_Progress
            )
    return Compared(
        case.name,
        ahead["requests"],
        ahead["time_s"]["estimate"],
        states.updated_utc - states.started_utc,
        ahead["cost_usd"]["estimate"],
        ran["cost_usd"],
    )


class _Progress(msgspec.Struct):
    started_utc: float
    updated_utc: float


def _review(root: Path, case: Case, *flags: str) -> bytes:
    return sound(start(root, "review", "src", *AXES, *case.flags, *flags, longest_s=LONGEST_S).wait(), 0).out


def misses(one: Compared) -> list[str]:
    """The missed bars."""
    missed = []
    if abs(one.time_off) > TIME_BAR:
        missed.append(
            f"reviews, {one.name}: the time is off by {one.time_off:+.0%}, the bar is {TIME_BAR:.0%}"
        )
    if abs(one.cost_off) > COST_BAR:
        missed.append(
            f"reviews, {one.name}: the cost is off by {one.cost_off:+.0%}, the bar is {COST_BAR:.0%}"
        )
    return missed


def lines(missed: list[str]) -> Iterator[str]:
    """The part of the section."""
    yield "### The estimate against the review"
    yield ""
    yield f"{CALIBRATING} files on {len(AXES) // 2} axes are reviewed; then all change, and there are {FILES}. A quarter of the answers is corrected once. Bars: time within {TIME_BAR:.0%}, cost"
    yield f"within {COST_BAR:.0%}."
    yield ""
    yield "| bound by | requests | estimated s | took s | off | estimated $ | paid $ | off |"
    yield "|---|---|---|---|---|---|---|---|"
    for case in CASES:
        print(f"reviews: an estimate, {case.name} …", flush=True)
        one = measure(case)
        missed += misses(one)
        yield (
            f"| {one.name} | {one.requests:,} | {one.time_s:.1f} | {one.took_s:.1f} | {one.time_off:+.1%} "
            f"| {one.cost_usd:.4f} | {one.paid_usd:.4f} | {one.cost_off:+.1%} |"
        )
    yield ""
