"""Short jobs of small requests, in real time beside the oracle: limits configured, told by a refusal, or not told at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from bench import real
from bench.oracle import OracleResult
from bench.real import Lap, LimitsFrom, Output, Piece, Work

#: Every process ends after so much longer than the job should take.
PATIENCE_S: Final = 90.0
ROUNDS: Final = 3
#: DeepSeek's 429s say neither which limit was reached nor how large it is.
SILENT: Final = {"dialect": "deepseek", "retry_after": False}


class Case(msgspec.Struct, frozen=True):
    """A job of small requests on an account that limits requests, and its bar (DESIGN §8): makespan ÷ oracle, 429s in one job."""

    name: str
    units: int
    rpm: float
    depth_s: float
    latency_s: float
    limits_from: LimitsFrom
    ratio: float
    refused: int
    account_keys: dict[str, Any] = {}

    def work(self) -> Work:
        """Its requests."""
        pieces = [_piece(number) for number in range(self.units)]
        keys = {"latency": self.latency_s, **self.account_keys}
        return Work("A", "openai", pieces, {"rpm": self.rpm}, self.depth_s, keys)


#: The issue's rows. Bars: 700 units as 400 (1.30; 1 % of 429s), 1,200 units blind as 1,000 (1.12; 2 %).
CASES: Final = (
    Case(
        "700 requests, 600 a minute configured, a minute deep, 0.5 s", 700, 600.0, 60.0, 0.5, "known", 1.30, 7
    ),
    Case(
        "1,200 requests, 100 a second, 1 s deep, blind",
        1_200,
        6_000.0,
        1.0,
        0.25,
        "unknown",
        1.12,
        24,
        SILENT,
    ),
    Case(
        "1,200 requests, 100 a second, 1 s deep, a 429 says it",
        1_200,
        6_000.0,
        1.0,
        0.25,
        "unknown",
        1.12,
        24,
    ),
)


def _piece(number: int) -> Piece:
    text = f"A-{number:06d}"
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 16}
    return Piece(text, f"echo: {text}", body, 2, 4, 16)


class Measured(msgspec.Struct, frozen=True):
    """One round of a case: an account of Headway and one of the oracle, at the same time."""

    units: int
    lap: Lap
    output: Output
    exit_code: int

    @property
    def refused(self) -> int:
        """429s in the job."""
        return round(self.lap.refused_per_1000 * self.units / 1000.0)

    @property
    def oracle_refused(self) -> int:
        """429s of the oracle."""
        return round(self.lap.oracle_refused_per_1000 * self.units / 1000.0)


def measure(case: Case) -> Measured:
    """Headway and the oracle side by side."""
    one = case.work()
    bound_s = max(0.0, case.units - case.rpm / 60.0 * case.depth_s) / (case.rpm / 60.0) + case.latency_s
    timeout_s = 6.0 * bound_s + PATIENCE_S
    with TemporaryDirectory() as name, real.provider([one], Path(name), "none") as fake:
        folder = Path(name)
        oracle = real.start_oracle([one], folder, fake.url, timeout_s)
        run = real.start([one], folder / "run", fake.url, real.Run(case.limits_from), timeout_s)
        ended, best = run.wait(), oracle.wait()
        result = msgspec.json.decode(best.out or b"{}", type=OracleResult)
        if result.failed or not result.ok:
            raise RuntimeError(f"the oracle failed: {result}: {best.errors.decode()[-500:]}")
        path = folder / "run" / "out.jsonl"
        if not path.exists():
            raise RuntimeError(f"headway run: exit code {ended.code}: {ended.errors.decode()[-500:]}")
        lap = real.lap_of(fake.stats(), one)
        return Measured(case.units, lap, real.check([one], path), ended.code)


def misses(case: Case, rounds: list[Measured]) -> list[str]:
    """The missed bars: the worst of the rounds counts."""
    missed = []
    ratio, refused = max(one.lap.ratio for one in rounds), max(one.refused for one in rounds)
    if ratio > case.ratio:
        missed.append(f"{case.name}: {ratio:.2f} of the oracle's makespan, the bar is {case.ratio:g}")
    if refused > case.refused:
        missed.append(f"{case.name}: {refused} 429s, the bar is {case.refused}")
    for one in rounds:
        output = one.output
        if not output.sound or one.exit_code:
            missed.append(
                f"{case.name}: {output.lost} lost, {output.double} double, {output.wrong} wrong (exit code {one.exit_code})"
            )
    return missed


def lines(missed: list[str]) -> Iterator[str]:
    """The table."""
    yield "### Short jobs"
    yield ""
    yield f"The worst of {ROUNDS} rounds counts. Headway and the oracle run at the same time, on an account each."
    yield ""
    yield "| case | bar | oracle s (429s) | Headway s (429s) | ÷ oracle |"
    yield "|---|---|---|---|---|"
    for case in CASES:
        print(f"first minute: {case.name} …", flush=True)
        try:
            rounds = [measure(case) for _ in range(ROUNDS)]
        except RuntimeError as error:  # The other cases are still measured.
            missed.append(f"{case.name}: {error}")
            continue
        missed += misses(case, rounds)
        yield row(case, rounds)
    yield ""


def row(case: Case, rounds: list[Measured]) -> str:
    """A line of the table: all rounds."""
    oracle = ", ".join(f"{one.lap.oracle_s:.1f} ({one.oracle_refused})" for one in rounds)
    mine = ", ".join(f"{one.lap.makespan_s:.1f} ({one.refused})" for one in rounds)
    ratios = ", ".join(f"{one.lap.ratio:.2f}" for one in rounds)
    return f"| {case.name} | ≤ {case.ratio:g} ({case.refused}) | {oracle} | {mine} | {ratios} |"
