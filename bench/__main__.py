"""`make bench`: measures everything that has a bar and writes bench/RESULTS.md. Exits 1 if a bar is missed.

`python -m bench SECTION` (or `make bench SECTION=…`) measures one section and replaces it in that file.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

import headway
from bench import (
    calls,
    deaths,
    lanes,
    order,
    overhead,
    plans,
    real,
    results,
    sdk,
    short,
    speed,
    templates,
    workers,
)
from headway.sim.runner import HEADWAY, POLICIES, LaneResult, SimulationReport

RESULTS: Final = Path(__file__).parent / "RESULTS.md"

CPU_BAR_US: Final = 20.0
GROWTH_BAR: Final = 1.2


def main(wanted: list[str]) -> int:
    """Measure, write the results, print the missed bars."""
    began = time.monotonic()
    unknown = [name for name in wanted if name not in SECTIONS]
    if unknown:
        print(f"unknown section '{unknown[0]}'; one of {', '.join(SECTIONS)}")
        return 2
    parts = results.read(RESULTS)
    missed: list[str] = []
    # Real time is measured first, while the machine is idle. Virtual time does not depend on the machine.
    for name in wanted or list(reversed(SECTIONS)):
        section_missed: list[str] = []
        lines = list(SECTIONS[name](section_missed))
        parts[name] = results.Part(
            time.strftime("%Y-%m-%d", time.gmtime()), _machine(), section_missed, lines
        )
        missed += section_missed
    results.write(RESULTS, {name: parts[name] for name in SECTIONS if name in parts})
    print(f"wrote {RESULTS.relative_to(Path.cwd())} in {time.monotonic() - began:.0f} s")
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


def _machine() -> str:
    parts = f"headway {headway.__version__}, msgspec {msgspec.__version__}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{python}, {parts}; {_processor()}, {os.cpu_count()} cores"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine()
    )


def _lanes(missed: list[str]) -> Iterator[str]:
    yield "## Makespan ÷ bound (429s per 1000), the worst of the seeds"
    yield ""
    yield "| scenario | order | lane | bar | " + " | ".join(POLICIES) + " |"
    yield "|---|---|---|---|" + "---|" * len(POLICIES)
    for bar in lanes.BARS:
        print(f"{bar.scenario}, {bar.order} order …", flush=True)
        report = lanes.run(bar)
        missed += lanes.misses(bar, report)
        yield from _rows(bar, report)
    yield ""
    yield "### Aims, not bars"
    yield ""
    yield "Known to be hard. The figures are recorded, but not judged."
    yield ""
    yield "| scenario | order | lane | aim | " + " | ".join(POLICIES) + " |"
    yield "|---|---|---|---|" + "---|" * len(POLICIES)
    for aim in lanes.AIMS:
        print(f"{aim.scenario} …", flush=True)
        yield from _rows(aim, lanes.run(aim))
    yield ""


def _rows(bar: lanes.Bar, report: SimulationReport) -> Iterator[str]:
    for lane in report.policies[HEADWAY].lanes:
        ratio, rejected = bar.of(lane)
        cells = [_cell(result.lanes[lane]) for result in report.policies.values()]
        yield (
            f"| {bar.scenario} | {bar.order} | {lane} | ≤ {ratio} ({rejected:.0f}) | "
            + " | ".join(cells)
            + " |"
        )


def _cell(result: LaneResult) -> str:
    ends = f", {result.failed} failed" if result.failed else ""
    ends += f", {result.unfinished} unfinished" if result.unfinished else ""
    return f"{result.ratio:.3f} ({result.rejected_per_1000:.1f}{ends})"


def _beside_held(missed: list[str]) -> Iterator[str]:
    print("a healthy lane beside a held one …", flush=True)
    yield "## A healthy lane beside a held one, compared with running alone"
    yield ""
    for seed, ratio in lanes.beside_held():
        yield f"- seed {seed}: {ratio:.4f} (bar: ≤ {lanes.BESIDE_HELD})"
        if ratio > lanes.BESIDE_HELD:
            missed.append(f"beside a held lane, seed {seed}: {ratio:.3f}")
    yield ""


def _speed(missed: list[str]) -> Iterator[str]:
    yield f"## CPU of the scheduler per unit, {speed.LANES} lanes, requests and tokens metered"
    yield ""
    yield "Including the driver that answers. *Batched*: all answers of an instant in one call, as in the engine;"
    yield "*single*: one call for each answer. The long run is measured in a hundred slices with a whole short run after each, so"
    yield "that both see the same machine. The figure of the short runs is the mean of all hundred."
    yield ""
    yield "| units | headers | calls | µs per unit | against 10,000 | most units in the queues | peak MB |"
    yield "|---|---|---|---|---|---|---|"
    for headers in (False, True):
        for batched in (True, False):
            yield from _speed_rows(missed, headers=headers, batched=batched)
    yield ""


def _speed_rows(missed: list[str], *, headers: bool, batched: bool) -> Iterator[str]:
    small, large = _in_own_process(headers=headers, batched=batched)
    for result in (small, large):
        growth = result.cpu_us / small.cpu_us
        yield (
            f"| {result.units:,} | {'yes' if headers else 'no'} | {'batched' if batched else 'single'} "
            f"| {result.cpu_us:.1f} | {growth:.2f} | {result.peak_queued:,} | {result.peak_mb:.0f} |"
        )
        if result.cpu_us > CPU_BAR_US:
            missed.append(
                f"{result.units:,} units: {result.cpu_us:.1f} µs per unit, the bar is {CPU_BAR_US:.0f}"
            )
    if large.cpu_us > small.cpu_us * GROWTH_BAR:
        missed.append(
            f"CPU per unit grows {large.cpu_us / small.cpu_us:.2f} × to a million, the bar is {GROWTH_BAR}"
        )


def _in_own_process(*, headers: bool, batched: bool) -> tuple[speed.SpeedResult, speed.SpeedResult]:
    print(f"speed: headers {headers}, batched {batched} …", flush=True)
    command = [sys.executable, "-m", "bench.speed", str(int(headers)), str(int(batched))]
    done = subprocess.run(command, check=True, capture_output=True)
    return msgspec.json.decode(done.stdout, type=tuple[speed.SpeedResult, speed.SpeedResult])


# -- in real time -------------------------------------------------------------------------------------------------


def _real(missed: list[str]) -> Iterator[str]:
    yield "## In real time: `headway run` against `headway fake`, beside an oracle"
    yield ""
    yield f"Two accounts in one job, A like OpenAI (tokens bind) and B like Anthropic (input tokens bind): {real.RATE:.0f}"
    yield f"requests per second each for {real.LENGTH_S:.0f} s, answers after 0.1 to 0.6 s. The oracle knows all limits and depths. It runs at the"
    yield "same time on its own accounts. Makespan: from an account's first admission to its last."
    yield ""
    yield "| case | account | bar | oracle s (429s per 1000) | Headway s (429s per 1000) | ÷ oracle |"
    yield "|---|---|---|---|---|---|"
    for bar in real.BARS:
        print(f"real time: {bar.name} …", flush=True)
        try:
            case = real.paced(bar.limits_from, bar.depth_s)
        except RuntimeError as error:  # The other cases are still measured.
            missed.append(f"{bar.name}: {error}")
            continue
        missed += real.misses(bar, case)
        for lap in case.laps:
            yield (
                f"| {bar.name} | {lap.account} | ≤ {bar.ratio} ({bar.refused_per_1000:g}) "
                f"| {lap.oracle_s:.2f} ({lap.oracle_refused_per_1000:.1f}) "
                f"| {lap.makespan_s:.2f} ({lap.refused_per_1000:.1f}) | {lap.ratio:.3f} |"
            )
    yield ""
    yield from _beside_trouble(missed)
    yield from _faulty(missed)


def _beside_trouble(missed: list[str]) -> Iterator[str]:
    yield "### A lane beside one in trouble, compared with running alone"
    yield ""
    alone_s = 0.0
    for trouble, name in real.TROUBLES.items():
        print(f"real time: {name} …", flush=True)
        case = real.beside(trouble)
        missed += real.unsound(f"a lane {name}", case)
        taken_s = case.laps[0].makespan_s
        alone_s = alone_s or taken_s
        ratio = taken_s / alone_s
        yield f"- {name}: {taken_s:.2f} s" + (f", {ratio:.3f} (bar: ≤ {real.BESIDE})" if trouble else "")
        if ratio > real.BESIDE:
            missed.append(f"a lane {name}: {ratio:.3f} of its time alone, the bar is {real.BESIDE}")
    yield ""


def _faulty(missed: list[str]) -> Iterator[str]:
    print("real time: a faulty provider …", flush=True)
    yield "### A faulty provider"
    yield ""
    case = real.faulty()
    missed += real.unsound("a faulty provider", case)
    met = ", ".join(f"{count} × {name}" for name, count in case.faults.items())
    output = case.output
    yield (
        f"{case.units:,} units in {case.attempts:,} attempts ({met}): {output.lost} lost, {output.wrong} wrong, "
        f"{output.double} double."
    )
    yield ""


# -- SDKs -------------------------------------------------------------------------------------------------------


def _sdk(missed: list[str]) -> Iterator[str]:
    yield "## The SDKs of OpenAI and Anthropic over `headway.httpx_client()`, beside an oracle"
    yield ""
    yield f"{sdk.CALLS:,} calls each, all at once, `max_retries=0`, to accounts that allow {sdk.RATE:.0f} requests per second (A: tokens bind, B: input"
    yield f"tokens), {sdk.DEPTH_S:g} s deep. *Reached*: 429s that the SDK saw; *again*: requests that it sent a second time. Bars: all succeed, both 0,"
    yield f"makespan ≤ {sdk.RATIO} of the oracle's."
    yield ""
    yield "| SDK | case | succeeded | reached | again | oracle s | Headway s (429s per 1000) | ÷ oracle |"
    yield "|---|---|---|---|---|---|---|---|"
    for case in sdk.CASES:
        print(f"SDKs: {case.name} …", flush=True)
        laps = sdk.measure(case)
        missed += sdk.misses(case, laps)
        for lap in laps:
            yield (
                f"| {lap.kind} | {case.name} | {lap.outcome.ok:,} of {lap.calls:,} | {lap.outcome.refused} | {lap.retried} "
                f"| {lap.oracle_s:.2f} | {lap.makespan_s:.2f} ({lap.refused_per_1000:.1f}) | {lap.ratio:.3f} |"
            )
    yield ""


# -- overhead -----------------------------------------------------------------------------------------------------


def _overhead(missed: list[str]) -> Iterator[str]:
    yield f"## Overhead: {overhead.REQUESTS:,} small requests, no latency, durability included"
    yield ""
    yield f"Compared with a bare loop of the same HTTP client, in turns; bars: CPU ≤ {overhead.CPU_BAR:g} × (aim {overhead.CPU_AIM:g} ×), throughput"
    yield f"≥ {overhead.THROUGHPUT_BAR:.0%}, and {overhead.MANY:,} in flight ≤ {overhead.IN_FLIGHT_BAR:g} × the CPU of {overhead.FEW}."
    yield ""
    yield "| in flight | Headway, µs CPU per request | bare loop | CPU ÷ | Headway, requests/s | bare loop | throughput ÷ |"
    yield "|---|---|---|---|---|---|---|"
    print("overhead: CPU …", flush=True)
    few, many = overhead.costs()
    for one in (few, many):
        mine, bare = (median(cost.per_s for cost in costs) for costs in (one.headway, one.bare))
        yield (
            f"| {one.in_flight:,} | {one.cpu_us('headway'):.0f} | {one.cpu_us('bare'):.0f} | {one.cpu_ratio:.2f} "
            f"| {mine:,.0f} | {bare:,.0f} | {one.throughput_ratio:.2f} |"
        )
    missed += overhead.cost_misses(few, many)
    started, ingested, ran, ended = few.split
    yield ""
    yield (
        f"Of Headway's CPU at {few.in_flight} in flight: {started:.2f} s to create the job, {ingested:.2f} s to ingest it, "
        f"{ran:.2f} s to run it, {ended:.2f} s after it."
    )
    yield ""
    yield from _sizes(missed)


def _sizes(missed: list[str]) -> Iterator[str]:
    print("overhead: start-up …", flush=True)
    start_up_s = median(overhead.start_up())
    print(f"overhead: {overhead.SMALL:,} units …", flush=True)
    small = overhead.small()
    print(f"overhead: {overhead.LARGE:,} units …", flush=True)
    figures = overhead.figures(small, overhead.large(), start_up_s)
    yield f"### {overhead.LARGE:,} units"
    yield ""
    yield "| what | reached | bar |"
    yield "|---|---|---|"
    for figure in figures:
        yield f"| {figure.what} | {figure.shown} | {figure.bar} |"
        if not figure.met:
            missed.append(f"{figure.what}: {figure.shown}, the bar is {figure.bar}")
    yield ""


# -- plan against reality -----------------------------------------------------------------------------------------


def _plans(missed: list[str]) -> Iterator[str]:
    yield "## Plan against reality: `headway plan` after one calibrating run, then `headway run`"
    yield ""
    yield f"`headway run --limit {plans.SAMPLE}` calibrates; lengths and delays of answers are random. Bars: time within {plans.TIME_BAR:.0%}, cost within"
    yield f"{plans.COST_BAR:.0%}."
    yield ""
    yield "| scenario | requests | planned s (range) | took s | off | planned $ | paid $ | off | bound by |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for scenario in plans.SCENARIOS:
        print(f"plan: {scenario.name} …", flush=True)
        try:
            result = plans.measure(scenario)
        except RuntimeError as error:  # The others are still measured.
            missed.append(f"plan, {scenario.name}: {error}")
            continue
        missed += plans.misses(result)
        likely, low, high = result.time_s
        yield (
            f"| {result.name} | {result.requests:,} | {likely:.1f} ({low:.1f}–{high:.1f}) | {result.took_s:.1f} "
            f"| {result.time_off:+.1%} | {result.cost_usd:.3f} | {result.paid_usd:.3f} | {result.cost_off:+.1%} | {result.binding} |"
        )
    yield ""
    yield from _templates(missed)
    yield from _sampling(missed)


def _templates(missed: list[str]) -> Iterator[str]:
    """Plans by template: known templates, and new ones."""
    print("plan: templates …", flush=True)
    try:
        with templates.plan_folder() as at:
            known, fresh = templates.calibrated(at), templates.new(at)
    except RuntimeError as error:
        missed.append(f"plan, templates: {error}")
        return
    missed += templates.misses(known, fresh)
    yield "### One model, many templates"
    yield ""
    yield f"All jobs go to the same model from the same directory. Calibrated: a file of {templates.ROWS} rows ran before, then files of the other"
    yield f"templates; another file of the template is planned and run. Bars: time within {templates.TIME_BAR:.0%}, cost within {templates.COST_BAR:.0%}."
    yield ""
    yield "| template | planned s (range) | took s | off | planned $ (range) | paid $ | off |"
    yield "|---|---|---|---|---|---|---|"
    for one in known:
        yield f"| {one.name} | {_three(one.time_s, 1)} | {one.took_s:.1f} | {one.time_off:+.1%} | {_three(one.cost_usd, 4)} | {one.paid_usd:.4f} | {one.cost_off:+.1%} |"
    yield ""
    inside = sum(one.inside for one in fresh)
    yield f"New: files of {templates.NEW_ROWS} rows of a template that was never sent. Both figures were inside the printed range in {inside} of {len(fresh)}"
    yield f"trials (bar: {templates.INSIDE_BAR} of 10)."
    yield ""
    yield "| template | range s | took s | range $ | paid $ | inside |"
    yield "|---|---|---|---|---|---|"
    for one in fresh:
        yield f"| {one.name} | {_three(one.time_s, 1)} | {one.took_s:.1f} | {_three(one.cost_usd, 4)} | {one.paid_usd:.4f} | {'yes' if one.inside else 'no'} |"
    yield ""


def _three(figure: tuple[float, float, float], digits: int) -> str:
    likely, low, high = (f"{value:.{digits}f}" for value in figure)
    return f"{likely} ({low}–{high})"


def _sampling(missed: list[str]) -> Iterator[str]:
    print("plan: a sample against the whole …", flush=True)
    one = plans.sampling(plans.MANY, plans.TRIED)
    yield (
        f"A forecast of {one.units:,} rows from {one.tried:,} of them, compared with one from all rows, in virtual time: {one.sampled_s:,.1f} s and "
        f"{one.whole_s:,.1f} s, {one.off:+.2%} (bar: {plans.SAMPLING_BAR:.0%}); {one.sampled_cpu_s:.1f} s and {one.whole_cpu_s:.1f} s of CPU."
    )
    yield ""
    if abs(one.off) > plans.SAMPLING_BAR:
        missed.append(f"plan: a sample is off by {one.off:+.1%}, the bar is {plans.SAMPLING_BAR:.0%}")


def _calls(missed: list[str]) -> Iterator[str]:
    print("calls: headway.map …", flush=True)
    spent = calls.in_turns()
    yield f"## `headway.map` over {calls.CALLS:,} no-op coroutines, beside an `asyncio.Semaphore`"
    yield ""
    yield f"{calls.AT_ONCE} at once, each in its own process, in turns; the median of {calls.TURNS}. CPU of all threads."
    yield ""
    yield "| | µs of CPU per call | calls/s | bar |"
    yield "|---|---|---|---|"
    bars = {"map": calls.BAR_US, "map with a store": calls.STORE_BAR_US}
    for way, one in spent.items():
        bar = bars.get(way)
        yield f"| {way} | {one.cpu_us:.1f} | {one.per_s:,.0f} | {'' if bar is None else f'≤ {bar:.0f} µs'} |"
        if bar is not None and one.cpu_us > bar:
            missed.append(f"{way}: {one.cpu_us:.1f} µs per call, the bar is {bar:.0f}")
    yield ""


def _virtual(missed: list[str]) -> Iterator[str]:
    yield from _lanes(missed)
    yield from _beside_held(missed)


# -- worker processes ---------------------------------------------------------------------------------------------


def _workers(missed: list[str]) -> Iterator[str]:
    yield f"## {deaths.WORKERS} worker processes"
    yield ""
    print("workers: overhead …", flush=True)
    cost = workers.overhead()
    yield (
        f"A no-op unit takes {cost.pool_us:.0f} µs (bar: ≤ {workers.OVERHEAD_BAR_US:.0f}); with ProcessPoolExecutor, in turns, "
        f"{cost.executor_us:.0f} µs. Both with spawned processes and without a store."
    )
    if cost.pool_us > workers.OVERHEAD_BAR_US:
        missed.append(
            f"a no-op unit in a worker: {cost.pool_us:.0f} µs, the bar is {workers.OVERHEAD_BAR_US:.0f}"
        )
    yield ""
    yield "| deaths | finished | quarantined | attempts repeated | units that ran a wrong number of times | s |"
    yield "|---|---|---|---|---|---|"
    cases: dict[str, tuple[int, int, int]] = {
        f"{deaths.KILLS} SIGKILLs at random": (deaths.KILLS, 1, 0),
        "the whole pool, twice": (2 * deaths.WORKERS, deaths.WORKERS, 0),
        "a unit that always kills": (0, 1, 1),
    }
    for name, (kills, at_once, deadly) in cases.items():
        print(f"workers: {name} …", flush=True)
        case = deaths.deaths(kills, at_once, deadly)
        yield (
            f"| {name} | {case.finished} of {deaths.UNITS} | {case.quarantined} | {case.repeats} | {case.wrong} "
            f"| {case.took_s:.1f} |"
        )
        if case.wrong or case.quarantined != deadly:
            missed.append(f"{name}: {case.finished} finished, {case.wrong} ran a wrong number of times")
    yield ""
    yield from _limit_in_logs(missed)


def _limit_in_logs(missed: list[str]) -> Iterator[str]:
    print("workers: a limit in the logs …", flush=True)
    result = workers.limit_in_logs()
    yield "### A limit at the fifth of 15 units, reported only in the logs of workers that exit hard"
    yield ""
    yield f"ProcessPoolExecutor finishes {result.executor} of 15, Headway {result.headway} of 15 after the reset. Its message:"
    yield f"`{result.summary}`"
    yield ""
    if result.headway != 15 or not result.summary:
        missed.append(f"a limit in the logs: {result.headway} of 15 finished")


SECTIONS: Final[dict[str, Callable[[list[str]], Iterator[str]]]] = {
    "lanes": _virtual,
    "short": short.section,
    "speed": _speed,
    "real": _real,
    "order": order.section,
    "sdk": _sdk,
    "overhead": _overhead,
    "plan": _plans,
    "workers": _workers,
    "calls": _calls,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
