"""The order of units on real runs: jobs whose longest units stand at the end of the file, against `headway fake`.

An answer takes as long as it has tokens, so a row with a large `max_tokens` and a long prompt takes forty times as long as the others.
Each job runs in input order, longest first, and with `auto`: once where nothing is known, and once more where the first run is on
record. A job of equal units shows that `auto` costs nothing where the order does not matter.

Measured from the first start to the last answer. *Bound* is what no order can beat: all answers shared over the slots, or the starts
by the rate and the shortest answer after them, or the longest answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.processes import HEADWAY, run
from headway.fake.process import fake_process

#: Longest-first, and `auto` where an earlier run is known, against input order.
TAIL_BAR: Final = 0.85
#: `auto` against input order where all units are alike.
EVEN_BAR: Final = 1.05
LATENCY_S: Final = 0.02
PER_TOKEN_S: Final = 0.005
SHORT_TOKENS: Final = 20
LONG_TOKENS: Final = 900
PATIENCE_S: Final = 120.0
INPUT, LONGEST, FRESH, KNOWN = "input", "longest", "auto, nothing known", "auto, known from a run before"


_FAKE: Final = {
    "accounts": {
        "default": {
            "latency": {"min": LATENCY_S, "max": LATENCY_S},
            "per_token": PER_TOKEN_S,
            "headers": "none",
        }
    },
    "lengths": [
        {"contains": contains, "output_tokens": {"min": tokens, "max": tokens}}
        for contains, tokens in (("Say yes", SHORT_TOKENS), ("Write an essay", LONG_TOKENS))
    ],
}


class Job(msgspec.Struct, frozen=True):
    """A file of short rows with some long ones at its end, and the limits that its lane has."""

    name: str
    limits: str
    short: int
    long: int
    at_once: int = 0
    per_second: float = 0.0
    long_tokens: int = LONG_TOKENS

    @property
    def bound_s(self) -> float:
        """What no order can beat."""
        short_s, long_s = (LATENCY_S + PER_TOKEN_S * tokens for tokens in (SHORT_TOKENS, self.long_tokens))
        if self.at_once:
            shared_s = (self.short * short_s + self.long * long_s) / self.at_once
        else:
            shared_s = (self.short + self.long - self.per_second) / self.per_second + short_s
        return max(shared_s, long_s if self.long else 0.0)


JOBS: Final = (
    Job("8 at once, 3 long units last", "max_concurrency = 8", 600, 3, at_once=8),
    Job("40 a second, 4 long units last", 'rpm = 2400\nburst = "1s"', 400, 4, per_second=40.0),
    Job("8 at once, all alike", "max_concurrency = 8", 400, 0, at_once=8),
)


def _rows(job: Job) -> bytes:
    short = {"prompt": "Say yes to this", "max_tokens": SHORT_TOKENS}
    long = {"prompt": "Write an essay about " + "words " * 1000, "max_tokens": job.long_tokens}
    rows = [*[short] * job.short, *[long] * job.long]
    lines = [{"id": f"r{number}", **row} for number, row in enumerate(rows)]
    return msgspec.json.Encoder().encode_lines(lines)


class _Span(msgspec.Struct):
    started_utc: str
    finished_utc: str


class _Row(msgspec.Struct):
    headway: _Span


def _makespan(results: Path) -> float:
    rows = msgspec.json.Decoder(_Row).decode_lines(results.read_bytes())
    first = min(datetime.fromisoformat(row.headway.started_utc) for row in rows)
    last = max(datetime.fromisoformat(row.headway.finished_utc) for row in rows)
    return (last - first).total_seconds()


def _ran(folder: Path, order: str) -> float:
    """Run the job in a folder once more, from its beginning."""
    command = [*HEADWAY, "run", "in.jsonl", "--fresh", "--force", "--order", order, "-q"]
    ended = run(command, folder, PATIENCE_S, {"KEY": "default"})
    if ended.code:
        raise RuntimeError(f"{' '.join(command)}: exit code {ended.code}: {ended.errors.decode()[-2000:]}")
    return _makespan(folder / "in.results.jsonl")


def measure(job: Job) -> dict[str, float]:
    """What a job took in each order, in seconds."""
    with TemporaryDirectory() as name:
        (Path(name) / "fake.json").write_bytes(msgspec.json.encode(_FAKE))  # JSON is YAML.
        with fake_process("--config", str(Path(name) / "fake.json")) as fake:
            return _in_each_order(job, Path(name), fake.url)


def _in_each_order(job: Job, root: Path, url: str) -> dict[str, float]:
    took_s: dict[str, float] = {}
    for order, takes in (("input", (INPUT,)), ("longest", (LONGEST,)), ("auto", (FRESH, KNOWN))):
        folder = root / order
        folder.mkdir()
        (folder / "in.jsonl").write_bytes(_rows(job))
        (folder / "headway.toml").write_text(
            f'[providers.A]\nkind = "openai"\nbase_url = "{url}/v1"\napi_key_env = "KEY"\nmodel = "m"\n'
            f"[providers.A.limits]\n{job.limits}\n",
            encoding="utf-8",
        )
        for take in takes:
            took_s[take] = _ran(folder, order)
    return took_s


def misses(job: Job, took_s: dict[str, float]) -> list[str]:
    """Where an order did not gain what it must, or cost something."""
    bars = (
        {LONGEST: TAIL_BAR, KNOWN: TAIL_BAR, FRESH: 1.0} if job.long else {FRESH: EVEN_BAR, KNOWN: EVEN_BAR}
    )
    return [
        f"order, {job.name}, {order}: {took_s[order] / took_s[INPUT]:.2f} of input order, the bar is {bar}"
        for order, bar in bars.items()
        if took_s[order] > bar * took_s[INPUT]
    ]


def section(missed: list[str]) -> Iterator[str]:
    """The table of this file, and what was missed."""
    yield "## The longest units first, on real runs (seconds, ÷ input order)"
    yield ""
    yield f"| job | bound | {' | '.join((INPUT, LONGEST, FRESH, KNOWN))} |"
    yield "|---|---|---|---|---|---|"
    for job in JOBS:
        print(f"order: {job.name} …", flush=True)
        took_s = measure(job)
        missed += misses(job, took_s)
        cells = (
            f"{took_s[order]:.2f} ({took_s[order] / took_s[INPUT]:.2f})" for order in (LONGEST, FRESH, KNOWN)
        )
        yield f"| {job.name} | {job.bound_s:.2f} | {took_s[INPUT]:.2f} | {' | '.join(cells)} |"
    yield ""
    yield f"The bar: with long units last, longest-first and a known `auto` take at most {TAIL_BAR} of input order, a new `auto` no"
    yield f"more than it; with equal units `auto` takes at most {EVEN_BAR}. The bar in virtual time is in the first section."
    yield ""
