"""The cases of the section `servers`: blind jobs of 300 and 3,000 units against each server, beside a bare client that is told the limits.

Both clients send to nginx at the same time, each with a key of its own. The others are busy with one client, so the clients take
turns: at LiteLLM's proxy with a model each, from the same second of a minute; at a server without limits beside the bare client's
best number in flight.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.servers import installed, jobs, litellm, llama_cpp, nginx
from bench.servers.jobs import Result, Truth, Work
from bench.servers.running import Server

SIZES: Final = (300, 3_000)
#: 3,000 units take at least two windows.
LITELLM_RPM: Final = 1_500
#: Jobs that need more than one window begin at this second of a minute.
LITELLM_SECOND: Final = 20.0
#: The bare client's numbers in flight: for LiteLLM's proxy, and those of which the best is the reference for llama.cpp's server.
LITELLM_IN_FLIGHT: Final = 64
IN_FLIGHT: Final = (4, 8, 16, 32)
UNLIMITED: Final = "rpm = 0\ntpm = 0"
#: Answers of this length take llama.cpp's server about 10 ms.
LLAMA_TOKENS: Final = 64
#: What a run says about other clients of its key. There are none.
OTHER_CLIENTS: Final = "other users of this key"


class Measured(msgspec.Struct, frozen=True):
    """One job against one server, and the bare client's makespan and refusals."""

    server: str
    units: int
    headway: Result
    oracle_s: float
    oracle_refused: int

    @property
    def ratio(self) -> float:
        """Makespan ÷ the bare client's."""
        return self.headway.makespan_s / self.oracle_s


class Bar(msgspec.Struct, frozen=True):
    """Makespan ÷ the bare client's; and refusals in one job: so many, or this share of its units where that is more."""

    ratio: float
    refused: int
    refused_share: float

    def most_refused(self, units: int) -> float:
        """How many refusals a job of this size may meet."""
        return max(self.refused, self.refused_share * units)


#: DESIGN §8: blind short jobs (the bar of 400 units for 300, that of 1,000 for 3,000), and fixed windows with headers.
BLIND: Final = {300: Bar(1.5, 10, 0.02), 3_000: Bar(1.12, 10, 0.02)}
WINDOWS: Final = {300: Bar(1.3, 5, 0.01), 3_000: Bar(1.05, 5, 0.01)}
#: A server that queues refuses nothing.
QUEUES: Final = {300: Bar(1.5, 0, 0.0), 3_000: Bar(1.12, 0, 0.0)}


# -- one job ------------------------------------------------------------------------------------------------------


def beside_oracle(name: str, server: Server, work: Work, other: Work, truth: Truth) -> Measured:
    """Headway and the bare client at the same time."""
    with TemporaryDirectory() as folder:
        oracle = jobs.start_oracle(server, Path(folder) / "oracle", other, truth)
        headway = jobs.run_headway(server, Path(folder) / "run", work)
        best = jobs.oracle_result(oracle)
    return Measured(name, work.units, headway, best.took_s, best.refused)


def nginx_job(server: Server, units: int, name: str = "nginx") -> Measured:
    """Blind against nginx."""
    truth = Truth(nginx.RATE, (nginx.BURST + 1) / nginx.RATE)
    return beside_oracle(name, server, Work(units), Work(units, key="key-of-the-oracle"), truth)


def litellm_job(
    server: Server, units: int, rpm: int, models: tuple[str, str], second: float | None = None
) -> Measured:
    """Against LiteLLM's proxy: nothing is configured, and headers report what is left. Headway and the oracle have a model each.

    It is one process, which answers some 150 requests a second: beside each other, the one that has more in flight would
    take the other's share. So one begins after the other; at this second of a minute, where a window is not enough for the job.
    """
    mine, other = (Work(units, model, litellm.KEY) for model in models)
    truth = Truth(rpm / 60.0, window_s=litellm.WINDOW_S, most_in_flight=LITELLM_IN_FLIGHT)
    with TemporaryDirectory() as name:
        folder = Path(name)
        _wait_for(second)
        best = jobs.run_oracle(server, folder / "oracle", other, truth)
        _wait_for(second)
        run = jobs.run_headway(server, folder / "run", mine)
    return Measured("LiteLLM's proxy", units, run, best.took_s, best.refused)


def _wait_for(second: float | None) -> None:
    """Wait for this second of a minute."""
    if second is not None:
        time.sleep((second - time.time()) % 60.0)


def llama_jobs(server: Server, units: int, in_flight: tuple[int, ...] = IN_FLIGHT) -> list[Measured]:
    """Blind and as unlimited against llama.cpp's server, each right after the bare client with its best number in flight."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        work = Work(units, max_tokens=LLAMA_TOKENS)

        def bare_s(most: int, place: str) -> float:
            return jobs.run_oracle(server, folder / place, work, Truth(most_in_flight=most)).took_s

        best = min(in_flight, key=lambda most: bare_s(most, f"in-flight-{most}"))
        measured = []
        for limits, settings in (("blind", ""), ("unlimited", UNLIMITED)):
            best_s = bare_s(best, f"before-{limits}")
            run = jobs.run_headway(server, folder / limits, msgspec.structs.replace(work, limits=settings))
            measured.append(Measured(f"llama.cpp's server, {limits}", units, run, best_s, 0))
        return measured


# -- all of them --------------------------------------------------------------------------------------------------


def _nginx(*, nodelay: bool) -> Iterator[tuple[Measured, Bar]]:
    name = f"nginx, {nginx.RATE} r/s, burst {nginx.BURST}{', nodelay' if nodelay else ''}"
    for units in SIZES:
        with TemporaryDirectory() as folder, nginx.running(Path(folder), nodelay=nodelay) as server:
            yield nginx_job(server, units, name), BLIND[units]


def _litellm() -> Iterator[tuple[Measured, Bar]]:
    models = [(f"mine-{units}", f"oracle-{units}") for units in SIZES]
    rpm = {model: LITELLM_RPM for pair in [*models, ("warm-up",)] for model in pair}
    with TemporaryDirectory() as folder, litellm.running(Path(folder), rpm) as server:
        # The proxy's first requests take seconds.
        warm_up = Work(LITELLM_IN_FLIGHT, "warm-up", litellm.KEY)
        jobs.run_oracle(server, Path(folder) / "warm-up", warm_up, Truth(most_in_flight=LITELLM_IN_FLIGHT))
        for units, pair in zip(SIZES, models, strict=True):
            second = LITELLM_SECOND if units > LITELLM_RPM else None
            yield litellm_job(server, units, LITELLM_RPM, pair, second), WINDOWS[units]


def _llama() -> Iterator[tuple[Measured, Bar]]:
    with TemporaryDirectory() as folder, llama_cpp.running(Path(folder)) as server:
        for units in SIZES:
            yield from ((one, QUEUES[units]) for one in llama_jobs(server, units))


def misses(one: Measured, bar: Bar) -> list[str]:
    """The missed bars of a job."""
    what, run = f"{one.server}, {one.units:,} units", one.headway
    missed = []
    if one.ratio > bar.ratio:
        missed.append(f"{what}: {one.ratio:.2f} of the oracle's makespan, the bar is {bar.ratio:g}")
    if run.refused > bar.most_refused(one.units):
        missed.append(f"{what}: {run.refused} refused, the bar is {bar.most_refused(one.units):.0f}")
    if run.lost or run.exit_code:
        missed.append(f"{what}: {run.lost} lost, exit code {run.exit_code}")
    if OTHER_CLIENTS in run.log:
        missed.append(f"{what}: it says that others use the key")
    return missed


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield "## Real servers as they come: `headway run`, beside a bare client that is told the limits"
    yield ""
    yield "Nothing is configured, except for *unlimited* (`rpm = 0`, `tpm = 0`). LiteLLM's proxy counts clock minutes"
    yield f"({LITELLM_RPM:,} requests per minute) and reports what is left, and no reset; both clients begin at the same second of a minute, one"
    yield f"after the other. llama.cpp's server has {llama_cpp.SLOTS} slots and a tiny random"
    yield f"model; its reference is the best of {', '.join(map(str, IN_FLIGHT))} in flight. *Most*: the most successful requests in flight at once."
    yield ""
    yield "| server | units | bar | oracle s (429s) | Headway s (429s) | ÷ oracle | most |"
    yield "|---|---|---|---|---|---|---|"
    servers: tuple[tuple[str, Callable[[], Iterator[tuple[Measured, Bar]]]], ...] = (
        (installed.missing_nginx(), partial(_nginx, nodelay=True)),
        (installed.missing_nginx(), partial(_nginx, nodelay=False)),
        (installed.missing_litellm(), _litellm),
        (installed.missing_llama_cpp(), _llama),
    )
    for reason, measure in servers:
        if reason:
            missed.append(reason)
            continue
        for one, bar in measure():
            print(f"servers: {one.server}, {one.units:,} units", flush=True)
            missed += misses(one, bar)
            run = one.headway
            yield (
                f"| {one.server} | {one.units:,} | ≤ {bar.ratio:g} ({bar.most_refused(one.units):.0f}) "
                f"| {one.oracle_s:.1f} ({one.oracle_refused}) | {run.makespan_s:.1f} ({run.refused}) "
                f"| {one.ratio:.2f} | {run.most_in_flight} |"
            )
    yield ""
