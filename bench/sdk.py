"""The real SDKs of OpenAI and Anthropic over `headway.httpx_client()`, beside the oracle.

Each SDK runs in its own process (bench/sdk_caller.py) and makes all of its calls at once, plain or streamed, to an
account of one fake with tight limits. The oracle sends the same work to its own accounts at the same time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

import msgspec

from bench import real
from bench.oracle import OracleResult
from bench.processes import Watched
from bench.sdk_caller import CallerResult, Calls

CALLS: Final = 1_000
#: Requests per second that each account allows; an SDK can make about 500 per second on one core.
RATE: Final = 25.0
DEPTH_S: Final = 1.0
RATIO: Final = 1.03

_LIMITS: Final = {"rpm": "rpm", "tpm": "tpm", "itpm": "input_tpm", "otpm": "output_tpm"}


class Case(msgspec.Struct, frozen=True):
    """How the limits are known, and whether answers are streamed."""

    limits_from: Literal["known", "headers"]
    streamed: bool

    @property
    def name(self) -> str:
        """The name in the table."""
        limits = "limits given" if self.limits_from == "known" else "limits in headers"
        return f"{limits}, {'streamed' if self.streamed else 'plain'}"


CASES: Final = tuple(
    Case(limits_from, streamed) for limits_from in ("known", "headers") for streamed in (False, True)
)


class Lap(msgspec.Struct, frozen=True):
    """One SDK in one case: what its caller saw, what the fake counted, and the oracle's time."""

    kind: str
    calls: int
    outcome: CallerResult
    makespan_s: float
    refused_per_1000: float
    oracle_s: float

    @property
    def ratio(self) -> float:
        """Makespan ÷ the oracle's."""
        return self.makespan_s / self.oracle_s

    @property
    def retried(self) -> int:
        """Requests that the SDK sent a second time."""
        return self.outcome.sends - self.calls


def measure(case: Case, calls: int = CALLS, rate: float = RATE) -> list[Lap]:
    """Measure both SDKs at the same time."""
    length_s = calls / rate - DEPTH_S
    works = [
        real.work("A", "openai", DEPTH_S, length_s, rate),
        real.work("B", "anthropic", DEPTH_S, length_s, rate),
    ]
    headers = "auto" if case.limits_from == "headers" else "none"
    timeout_s = 3.0 * length_s + real.PATIENCE_S
    with TemporaryDirectory() as name, real.provider(works, Path(name), headers) as fake:
        folder = Path(name)
        callers = [_start(case, one, folder, fake.url, timeout_s) for one in works]
        oracle = real.start_oracle(works, folder, fake.url, timeout_s)
        result = msgspec.json.decode(oracle.wait().out or b"{}", type=OracleResult)
        if result.failed or not result.ok:
            raise RuntimeError(f"the oracle failed: {result}")
        outcomes = [_result_of(caller) for caller in callers]
        stats = fake.stats()
        return [_lap(stats, one, each) for one, each in zip(works, outcomes, strict=True)]


def _start(case: Case, one: real.Work, folder: Path, url: str, timeout_s: float) -> Watched:
    limits = (
        {_LIMITS[name]: limit for name, limit in one.limits.items()} if case.limits_from == "known" else {}
    )
    bodies, echoes = [piece.body for piece in one.pieces], [piece.echo for piece in one.pieces]
    calls = Calls(one.kind, url, one.account, case.streamed, limits, bodies, echoes)
    path = folder / f"{one.account}.json"
    path.write_bytes(msgspec.json.encode(calls))
    return Watched([sys.executable, "-m", "bench.sdk_caller", str(path)], folder, timeout_s)


def _result_of(caller: Watched) -> CallerResult:
    ended = caller.wait()
    if not ended.out:
        raise RuntimeError(f"the caller ended with {ended.code}: {ended.errors.decode()[-2000:]}")
    return msgspec.json.decode(ended.out, type=CallerResult)


def _lap(stats: dict[str, object], one: real.Work, outcome: CallerResult) -> Lap:
    lap = real.lap_of(stats, one)
    return Lap(one.kind, len(one.pieces), outcome, lap.makespan_s, lap.refused_per_1000, lap.oracle_s)


def misses(case: Case, laps: list[Lap]) -> list[str]:
    """The missed bars of a case."""
    missed = []
    for lap in laps:
        at = f"{lap.kind} SDK, {case.name}"
        if lap.outcome.ok != lap.calls:
            missed.append(
                f"{at}: {lap.outcome.ok} of {lap.calls} calls succeeded ({lap.outcome.errors}, {lap.outcome.wrong} wrong)"
            )
        if lap.outcome.refused:
            missed.append(f"{at}: {lap.outcome.refused} 429s reached the SDK")
        if lap.retried:
            missed.append(f"{at}: the SDK sent {lap.retried} calls again")
        if lap.ratio > RATIO:
            missed.append(f"{at}: {lap.ratio:.3f} of the oracle's makespan, the bar is {RATIO}")
    return missed


# -- the section of RESULTS.md ---------------------------------------------------------------------------------------


# -- SDKs -------------------------------------------------------------------------------------------------------


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield "## The SDKs of OpenAI and Anthropic over `headway.httpx_client()`, beside an oracle"
    yield ""
    yield f"{CALLS:,} calls each, all at once, `max_retries=0`, to accounts that allow {RATE:.0f} requests per second (A: tokens bind, B: input"
    yield f"tokens), {DEPTH_S:g} s deep. *Reached*: 429s that the SDK saw; *again*: requests that it sent a second time. Bars: all succeed, both 0,"
    yield f"makespan ≤ {RATIO} of the oracle's."
    yield ""
    yield "| SDK | case | succeeded | reached | again | oracle s | Headway s (429s per 1000) | ÷ oracle |"
    yield "|---|---|---|---|---|---|---|---|"
    for case in CASES:
        print(f"SDKs: {case.name} …", flush=True)
        laps = measure(case)
        missed += misses(case, laps)
        for lap in laps:
            yield (
                f"| {lap.kind} | {case.name} | {lap.outcome.ok:,} of {lap.calls:,} | {lap.outcome.refused} | {lap.retried} "
                f"| {lap.oracle_s:.2f} | {lap.makespan_s:.2f} ({lap.refused_per_1000:.1f}) | {lap.ratio:.3f} |"
            )
    yield ""
