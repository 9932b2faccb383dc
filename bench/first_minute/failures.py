"""Requests of which a share fails at once, long before the first good answer, with 100 in flight: the lane keeps working.

The oracle has the same account and sends what failed again at once. A breaker that opens by mistake costs seconds: it is counted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench import real
from bench.first_minute.short_jobs import PATIENCE_S
from bench.oracle import Call, Job, Lane, OracleResult
from bench.processes import Watched
from bench.real import Output, Piece, Work
from headway.fake.process import FakeProcess

UNITS: Final = 1_000
IN_FLIGHT: Final = 100
LATENCY_S: Final = 1.0
#: A failure is back long before the first answer.
FAILS_AFTER_S: Final = 0.02
#: The share of requests that fail, and the bar: makespan ÷ the oracle's (DESIGN §8: short jobs).
SHARES: Final = (0.05, 0.20, 0.40)
RATIO: Final = 1.30
#: Even with 40 % failures only four in a million units fail so often.
MOST_ATTEMPTS: Final = 14
#: Short waits before retries: with the usual ones, the last unit that fails five times in a row decides the makespan.
RETRY: Final = '[providers.A.retry]\nbase = "50ms"\ncap = "500ms"'
#: What a run says when its breaker opens.
OPENED: Final = "no new requests until"


class Measured(msgspec.Struct, frozen=True):
    """One job: its makespan and the oracle's, how often the breaker opened, and its output."""

    share: float
    makespan_s: float
    oracle_s: float
    opened: int
    output: Output
    exit_code: int

    @property
    def name(self) -> str:
        """The case in words."""
        return f"{self.share:.0%} failures, {IN_FLIGHT} in flight"

    @property
    def ratio(self) -> float:
        """Makespan ÷ the oracle's."""
        return self.makespan_s / self.oracle_s


def _work(units: int) -> Work:
    pieces = []
    for number in range(units):
        text = f"A-{number:06d}"
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 16}
        pieces.append(Piece(text, f"echo: {text}", body, 2, 4, 16))
    return Work("A", "openai", pieces, {}, 1.0, {"latency": LATENCY_S, "error_latency": FAILS_AFTER_S})


def measure(share: float, units: int = UNITS) -> Measured:
    """Headway and the oracle, on an account each, at the same time."""
    one = _work(units)
    faults = [{"kind": "5xx", "chance": share}]
    oracle_account = {**one.account_keys, "headers": "none", "faults": faults}
    timeout_s = 4.0 * units * LATENCY_S / IN_FLIGHT + PATIENCE_S
    further = {"A-oracle": oracle_account}
    with (
        TemporaryDirectory() as name,
        real.provider([one], Path(name), "none", faults=faults, further=further) as fake,
    ):
        folder = Path(name)
        oracle = _start_oracle(one, folder, fake, timeout_s)
        settings = f"[providers.A.limits]\nmax_concurrency = {IN_FLIGHT}\n{RETRY}"
        run = real.Run(
            "unknown", settings=settings, flags=("--max-attempts", str(MOST_ATTEMPTS)), quiet=False
        )
        ended = real.start([one], folder / "run", fake.url, run, timeout_s).wait()
        best = oracle.wait()
        if msgspec.json.decode(best.out or b"{}", type=OracleResult).ok != units:
            raise RuntimeError(f"the oracle failed: {best.out.decode()} {best.errors.decode()[-500:]}")
        stats = fake.stats()
        output = real.check([one], folder / "run" / "out.jsonl")
        makespan_s, _ = real.seen(stats, "A", units)
        oracle_s, _ = real.seen(stats, "A-oracle", units)
        opened = ended.errors.decode().count(OPENED)
        return Measured(share, makespan_s, oracle_s, opened, output, ended.code)


def _start_oracle(one: Work, folder: Path, fake: FakeProcess, timeout_s: float) -> Watched:
    headers = {"Content-Type": "application/json", "Authorization": "Bearer A-oracle"}
    calls = [
        Call(msgspec.Raw(msgspec.json.encode({"model": "model", **piece.body})), ()) for piece in one.pieces
    ]
    lane = Lane(fake.url + one.path, headers, (), 1.0, calls, most_in_flight=IN_FLIGHT, again=True)
    path = folder / "oracle.json"
    path.write_bytes(msgspec.json.encode(Job([lane])))
    return Watched([sys.executable, "-m", "bench.oracle", str(path)], folder, timeout_s)


def misses(one: Measured) -> list[str]:
    """The missed bars."""
    missed = []
    if one.ratio > RATIO:
        missed.append(f"{one.name}: {one.ratio:.2f} of the oracle's makespan, the bar is {RATIO:g}")
    if one.opened:
        missed.append(f"{one.name}: the breaker opened {one.opened} times")
    if not one.output.sound or one.exit_code:
        missed.append(f"{one.name}: {one.output.lost} lost, exit code {one.exit_code}")
    return missed


def lines(missed: list[str]) -> Iterator[str]:
    """The table."""
    yield "### Failures at once, long before the first answer"
    yield ""
    yield f"{UNITS:,} units, {IN_FLIGHT} in flight, answers after {LATENCY_S:g} s. A failure is a 500, 502 or 503 after"
    yield f"{FAILS_AFTER_S:g} s. The oracle sends the request again at once, Headway after 0.05 to 0.5 s (`retry`)."
    yield ""
    yield "| failures | bar | oracle s | Headway s | ÷ oracle | the breaker opened |"
    yield "|---|---|---|---|---|---|"
    for share in SHARES:
        print(f"first minute: {share:.0%} failures …", flush=True)
        try:
            one = measure(share)
        except RuntimeError as error:
            missed.append(f"{share:.0%} failures: {error}")
            continue
        missed += misses(one)
        yield (
            f"| {share:.0%} | ≤ {RATIO:g}, not opened | {one.oracle_s:.1f} | {one.makespan_s:.1f} | {one.ratio:.2f} | "
            f"{one.opened} times |"
        )
    yield ""
