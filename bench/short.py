"""The first minute: short jobs, wrong limits and fixed windows, in virtual time against an oracle (DESIGN §8).

The oracle knows each limit, its depth and what every request is charged (`headway.sim.oracle`). Every figure is the worst
of four seeds, each seed against the oracle on the same work.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Final

import msgspec

from bench.lanes import scenario
from headway.core.model import RetryPolicy
from headway.sim.runner import HEADWAY, ORACLE, run_once
from headway.sim.scenario import Scenario
from headway.sim.workload import draw

SIZES: Final = (100, 400, 1_000)
DEPTHS: Final = (60, 10, 1)
#: How far into a window each seed begins where windows follow the clock.
OFFSETS_S: Final = (0.0, 13.0, 37.0, 52.0)
#: Knowing more never makes a lane slower than knowing nothing; below this share it is chance.
NOT_SLOWER: Final = 1.02


class Case(msgspec.Struct, frozen=True):
    """A shipped scenario, perhaps with another size or depth, and its bar."""

    scenario: str
    ratio: float
    #: 429s in one job: so many, or this share of its units where that is more.
    refused: int
    refused_share: float
    units: int | None = None
    depth_s: float | None = None
    #: The scenario of the same account with nothing told: this case must not be slower.
    blind: str = ""
    #: The share of attempts that fail: some units then fail for good, under the oracle too.
    errors: float = 0.0
    #: Shown, and no bar yet.
    aim: bool = False

    @property
    def name(self) -> str:
        """As it is called in tables."""
        parts = [self.scenario]
        parts += [f"{self.units:,} units"] if self.units else []
        parts += [f"{self.depth_s:g} s"] if self.depth_s else []
        return ", ".join(parts)

    def most_refused(self, units: int) -> float:
        """How many 429s a job of this size may meet."""
        return max(self.refused, self.refused_share * units)

    def most_failed(self, units: int) -> float:
        """How many units may fail for good: those whose every attempt fails, and three standard deviations."""
        expected = units * self.errors ** RetryPolicy().max_attempts
        return expected + 3.0 * sqrt(expected)


def _told(name: str) -> tuple[Case, ...]:
    bars = dict(zip(SIZES, (1.30, 1.30, 1.10), strict=True))
    return tuple(
        Case(name, bars[units], 5, 0.01, units, depth_s, blind="short-blind")
        for units in SIZES
        for depth_s in DEPTHS
    )


def _blind() -> tuple[Case, ...]:
    bars = dict(zip(SIZES, (1.6, 1.5, 1.12), strict=True))
    return tuple(
        Case("short-blind", bars[units], 10, 0.02, units, depth_s) for units in SIZES for depth_s in DEPTHS
    )


#: DESIGN §8, row by row.
SHORT: Final = (
    *_told("short-headers"),
    *_told("short-known"),
    *(
        Case("short-minute-headers", ratio, 5, 0.01, units)
        for units, ratio in zip(SIZES, (1.30, 1.30, 1.10), strict=True)
    ),
    Case("short-minute-levels", 1.30, 5, 0.01),
    *(
        Case("short-minute-levels", ratio, 5, 0.01, units)
        for units, ratio in zip(SIZES, (1.30, 1.30, 1.10), strict=True)
    ),
    *_blind(),
    Case("short-requests", 1.30, 5, 0.01),
    Case("short-requests-blind", 1.12, 10, 0.02),
    Case("short-requests-near", 1.12, 10, 0.02),
    *(
        Case("short-connections", ratio, 5, 0.01, units)
        for units, ratio in zip(SIZES, (1.30, 1.30, 1.10), strict=True)
    ),
    Case("short-requests-connections", 1.10, 5, 0.01),
)
WRONG: Final = tuple(
    Case(name, 1.05, 0, 0.02, depth_s=depth_s)
    for name in ("limits-too-high", "limits-half-told")
    for depth_s in DEPTHS
)
WINDOWS: Final = (
    Case("clock-minutes", 1.05, 0, 0.01),
    Case("clock-minutes-blind", 1.10, 0, 0.02),
    Case("clock-minutes-warm", 1.10, 0, 0.02),
    Case("fixed-windows-blind", 1.10, 0, 0.02),
    Case("gateway-minutes", 1.30, 5, 0.01, 300),
    Case("gateway-minutes", 1.05, 5, 0.01),
)
#: Failures, mostly long before the first answer.
FAILING: Final = tuple(Case(f"failing-{share}", 1.30, 5, 0.01, errors=share / 100.0) for share in (5, 20))
#: One of four seeds of the first runs across a stop of the depth ramp. In the second a refusal takes as long as an answer, so that each
#: end of the bucket costs three times as many.
AIMS: Final = (
    Case("failing-40", 1.30, 5, 0.01, errors=0.40, aim=True),
    Case("short-requests-slow-refusals", 1.12, 10, 0.02, aim=True),
)
CASES: Final = (*SHORT, *WRONG, *WINDOWS, *FAILING, *AIMS)
#: Policies as people write them today, in the same table.
BESIDE: Final = ("pool-128", "halving")


class Result(msgspec.Struct, frozen=True):
    """One lane of a case: the worst of the seeds."""

    lane: str
    units: int
    ratio: float
    refused: int
    oracle_s: float
    #: Makespan ÷ that of the same account blind.
    to_blind: float = 0.0
    failed: int = 0
    unfinished: int = 0


def measure(case: Case, seeds: tuple[int, ...] = (1, 2, 3, 4), policy: str = HEADWAY) -> list[Result]:
    """A case under the scheduler (or another policy), lane by lane."""
    runs = [result for seed in seeds for result in _seed(case, seed, policy)]
    return [
        _worst([run for run in runs if run.lane == lane]) for lane in dict.fromkeys(run.lane for run in runs)
    ]


def _worst(runs: list[Result]) -> Result:
    slowest = max(runs, key=lambda run: run.ratio)
    return msgspec.structs.replace(
        slowest,
        refused=max(run.refused for run in runs),
        to_blind=max(run.to_blind for run in runs),
        failed=max(run.failed for run in runs),
        unfinished=max(run.unfinished for run in runs),
    )


def _seed(case: Case, seed: int, policy: str) -> list[Result]:
    offset_s = OFFSETS_S[seed % len(OFFSETS_S)]
    mine = varied(case.scenario, case, offset_s)
    taken, best = _run(mine, seed, policy), _run(mine, seed, ORACLE)
    blind = _run(varied(case.blind, case, offset_s), seed, policy) if case.blind else {}
    return [
        Result(
            lane=name,
            units=run.units,
            ratio=run.makespan_s / best[name].makespan_s,
            refused=run.refused,
            oracle_s=best[name].makespan_s,
            to_blind=run.makespan_s / blind[name].makespan_s if blind else 0.0,
            failed=run.failed,
            unfinished=run.unfinished,
        )
        for name, run in taken.items()
    ]


def varied(name: str, case: Case, offset_s: float = 0.0) -> Scenario:
    """A shipped scenario with the size, depth and beginning of a case."""
    base = scenario(name)
    lanes = {}
    for lane, one in base.lanes.items():
        work, real = one.work, one.provider
        if case.units:
            work = msgspec.structs.replace(work, units=case.units)
        if case.depth_s:
            real = msgspec.structs.replace(real, depth_s=case.depth_s)
        if real.window_offset_s:
            real = msgspec.structs.replace(real, window_offset_s=offset_s)
        lanes[lane] = msgspec.structs.replace(one, work=work, provider=real)
    return msgspec.structs.replace(base, lanes=lanes)


class _LaneRun(msgspec.Struct, frozen=True):
    units: int
    makespan_s: float
    refused: int
    failed: int
    unfinished: int


def _run(one: Scenario, seed: int, policy: str) -> dict[str, _LaneRun]:
    world = run_once(one, draw(one, seed), policy, seed)
    found = {}
    for name, log in world.logs.items():
        units = one.lanes[name].work.units
        unfinished = units - len(log.finished)
        makespan_s = world.ended_at if unfinished else max(log.finished)
        found[name] = _LaneRun(units, makespan_s, len(log.refused), log.failed, unfinished)
    return found


def misses(case: Case, results: list[Result]) -> list[str]:
    """Where a case misses its bar; empty is good."""
    found = []
    for one in results:
        what, most = f"{case.name} {one.lane}", case.most_refused(one.units)
        if one.ratio > case.ratio:
            found.append(f"{what}: {one.ratio:.2f} of the oracle, the bar is {case.ratio}")
        if one.refused > most:
            found.append(f"{what}: {one.refused} 429s, the bar is {most:.0f}")
        if one.to_blind > NOT_SLOWER:
            found.append(f"{what}: {one.to_blind:.2f} times as long as blind")
        if one.unfinished:
            found.append(f"{what}: {one.unfinished} units did not end")
        if one.failed > case.most_failed(one.units):
            found.append(f"{what}: {one.failed} units failed")
    return found


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield "## The first minute: makespan ÷ that of an oracle (429s in one job), the worst of four seeds"
    yield ""
    yield "The oracle knows every limit, its depth and what each request is charged. Sizes are units a lane, seconds the depth of the buckets."
    yield "*Blind*: makespan ÷ that of the same account with nothing told."
    for title, cases in (
        ("Short jobs", SHORT),
        ("Wrong limits", WRONG),
        ("Fixed windows", WINDOWS),
        ("Failures", FAILING),
        ("Aims, not bars", AIMS),
    ):
        yield ""
        yield f"### {title}"
        yield ""
        yield "| case | lane | bar | oracle s | headway | blind | " + " | ".join(BESIDE) + " | |"
        yield "|---|---|---|---|---|---|" + "---|" * len(BESIDE) + "---|"
        for case in cases:
            print(f"{case.name} …", flush=True)
            yield from _rows(case, missed)
    yield ""


def _rows(case: Case, missed: list[str]) -> Iterator[str]:
    results = measure(case)
    if not case.aim:
        missed += misses(case, results)
    others = [measure(case, policy=policy) for policy in BESIDE]
    for place, one in enumerate(results):
        bar = f"≤ {case.ratio:g} ({case.most_refused(one.units):.0f})"
        beside = " | ".join(_cell(other[place]) for other in others)
        blind = f"{one.to_blind:.2f}" if one.to_blind else ""
        verdict = "missed" if misses(case, [one]) else "met"
        yield f"| {case.name} | {one.lane} | {bar} | {one.oracle_s:.1f} | {_cell(one)} | {blind} | {beside} | {verdict} |"


def _cell(one: Result) -> str:
    ends = f", {one.failed} failed" if one.failed else ""
    ends += f", {one.unfinished} unfinished" if one.unfinished else ""
    return f"{one.ratio:.2f} ({one.refused}{ends})"
