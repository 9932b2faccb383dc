"""The real SDKs of OpenAI and Anthropic, unmodified, over `headway.httpx_client()`, beside the oracle.

Each SDK is a process of its own (bench/sdk_caller.py) that makes all of its calls at once, plain or streamed, to an
account of the same fake with tight limits. The oracle sends the same work to accounts of its own at the same time.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

import msgspec

from bench import real
from bench.oracle import Made
from bench.processes import Watched
from bench.sdk_caller import Calls, Came

CALLS: Final = 1_000
#: Requests a second that each account allows; an SDK makes some 500 a second with all of a core.
RATE: Final = 25.0
DEPTH_S: Final = 1.0
RATIO: Final = 1.03

_LIMITS: Final = {"rpm": "rpm", "tpm": "tpm", "itpm": "input_tpm", "otpm": "output_tpm"}


class Case(msgspec.Struct, frozen=True):
    """How limits are known, and how answers come."""

    told: Literal["known", "headers"]
    streamed: bool

    @property
    def name(self) -> str:
        """For people."""
        told = "limits given" if self.told == "known" else "limits in headers"
        return f"{told}, {'streamed' if self.streamed else 'plain'}"


CASES: Final = tuple(Case(told, streamed) for told in ("known", "headers") for streamed in (False, True))


class Lap(msgspec.Struct, frozen=True):
    """One SDK in one case: what its caller saw, what the fake saw, and the oracle's time."""

    kind: str
    calls: int
    came: Came
    makespan_s: float
    refused_per_1000: float
    oracle_s: float

    @property
    def ratio(self) -> float:
        """Against the oracle."""
        return self.makespan_s / self.oracle_s

    @property
    def retried(self) -> int:
        """What the SDK sent a second time."""
        return self.came.sends - self.calls


def measure(case: Case, calls: int = CALLS, rate: float = RATE) -> list[Lap]:
    """Both SDKs at once."""
    length_s = calls / rate - DEPTH_S
    works = [
        real.work("A", "openai", DEPTH_S, length_s, rate),
        real.work("B", "anthropic", DEPTH_S, length_s, rate),
    ]
    headers = "auto" if case.told == "headers" else "none"
    timeout_s = 3.0 * length_s + real.PATIENCE_S
    with TemporaryDirectory() as name, real.provider(works, Path(name), headers) as fake:
        folder = Path(name)
        callers = [_start(case, one, folder, fake.url, timeout_s) for one in works]
        oracle = real.start_oracle(works, folder, fake.url, timeout_s)
        made = msgspec.json.decode(oracle.wait().out or b"{}", type=Made)
        if made.failed or not made.ok:
            raise RuntimeError(f"the oracle failed: {made}")
        came = [_came(caller) for caller in callers]
        stats = fake.stats()
        return [_lap(stats, one, each) for one, each in zip(works, came, strict=True)]


def _start(case: Case, one: real.Work, folder: Path, url: str, timeout_s: float) -> Watched:
    limits = {_LIMITS[name]: limit for name, limit in one.limits.items()} if case.told == "known" else {}
    bodies, echoes = [piece.body for piece in one.pieces], [piece.echo for piece in one.pieces]
    calls = Calls(one.kind, url, one.account, case.streamed, limits, bodies, echoes)
    path = folder / f"{one.account}.json"
    path.write_bytes(msgspec.json.encode(calls))
    return Watched([sys.executable, "-m", "bench.sdk_caller", str(path)], folder, timeout_s)


def _came(caller: Watched) -> Came:
    ended = caller.wait()
    if not ended.out:
        raise RuntimeError(f"the caller ended with {ended.code}: {ended.errors.decode()[-2000:]}")
    return msgspec.json.decode(ended.out, type=Came)


def _lap(stats: dict[str, object], one: real.Work, came: Came) -> Lap:
    lap = real.lap_of(stats, one)
    return Lap(one.kind, len(one.pieces), came, lap.makespan_s, lap.refused_per_1000, lap.oracle_s)


def misses(case: Case, laps: list[Lap]) -> list[str]:
    """Where a case misses its bar; empty is good."""
    found = []
    for lap in laps:
        at = f"{lap.kind} SDK, {case.name}"
        if lap.came.ok != lap.calls:
            found.append(
                f"{at}: {lap.came.ok} of {lap.calls} calls succeeded ({lap.came.errors}, {lap.came.wrong} wrong)"
            )
        if lap.came.refused:
            found.append(f"{at}: {lap.came.refused} 429s reached the SDK")
        if lap.retried:
            found.append(f"{at}: the SDK sent {lap.retried} calls again")
        if lap.ratio > RATIO:
            found.append(f"{at}: {lap.ratio:.3f} of the oracle's makespan, the bar is {RATIO}")
    return found
