"""The bars in virtual time: each shipped scenario, in both orders, beside the baselines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from headway.sim.runner import HEADWAY, USUAL, LaneResult, SimulationReport, simulate
from headway.sim.scenario import Scenario, load

SCENARIOS: Final = Path(__file__).parent.parent / "scenarios"


class Bar(msgspec.Struct, frozen=True):
    """The bar of a scenario: makespan ÷ bound and 429s per 1000, for every lane unless one is named."""

    scenario: str
    order: str
    ratio: float
    rejected_per_1000: float
    #: Lanes with their own bar: (ratio, 429s per 1000).
    apart: dict[str, tuple[float, float]] = {}
    #: The most units that may fail, and the most requests that may wait in the queue of a server that queues.
    failed: int = 0
    queue: int = 0

    def of(self, lane: str) -> tuple[float, float]:
        """The bar of one lane."""
        return self.apart.get(lane, (self.ratio, self.rejected_per_1000))


#: As in issues 2 and 3. Scenarios without a bar there have the general one, so that a regression is noticed.
BARS: Final = (
    *(Bar(f"headers-{depth}s", "input", 1.03, 1.0) for depth in (60, 10, 1)),
    *(Bar(f"headers-{depth}s", "longest", 1.01, 1.0) for depth in (60, 10, 1)),
    Bar("headers-10s", "auto", 1.01, 1.0),
    *(Bar(f"known-{depth}s", "input", 1.03, 1.0) for depth in (60, 10)),
    *(Bar(f"known-{depth}s", "longest", 1.01, 1.0) for depth in (60, 10)),
    Bar("known-1s", "input", 1.03, 1.0, {"B": (1.11, 25.0)}),
    Bar("known-1s", "longest", 1.01, 1.0, {"B": (1.11, 25.0)}),
    # As in `make bench SECTION=real`: refusals come back as late as answers, and much has been sent by then.
    Bar("known-fast", "input", 1.03, 4.0),
    Bar("minute-headers", "input", 1.06, 4.0),
    *(Bar(f"levels-{depth}s", "input", 1.03, 1.0) for depth in (60, 10, 1)),
    Bar("limit-drops", "input", 1.10, 40.0),
    # A unit whose five attempts all meet the storm fails.
    Bar("storms", "input", 1.10, 4.0, failed=8),
    # Unknown limits (issue 3).
    *(Bar(f"blind-{depth}s", "input", 1.10, 15.0) for depth in (60, 10)),
    Bar("blind-1s", "input", 1.10, 15.0, {"B": (1.13, 15.0)}),
    Bar("blind-short", "input", 1.12, 15.0),
    Bar("blind-drops", "input", 1.10, 40.0),
    Bar("text-hints", "input", 1.10, 15.0),
    *(Bar(f"warm-{depth}s", "input", 1.03, 2.0) for depth in (60, 10, 1)),
    Bar("two-clients", "input", 1.10, 20.0),
    # Two jobs that share their lanes have the bars of one job alone.
    Bar("two-jobs", "input", 1.03, 1.0),
    Bar("two-jobs-known", "input", 1.03, 1.0),
    Bar("two-jobs-blind", "input", 1.10, 15.0),
    Bar("three-jobs-blind", "input", 1.10, 20.0),
    # Hardly more may wait than the server answers at once (48).
    Bar("queueing-server", "input", 1.10, 0.0, queue=56),
    # Without first headers only the throughput shows the queue.
    Bar("queueing-whole", "input", 1.10, 0.0, queue=208),
    # Known to have no limit, so nothing but throughput bounds what is in flight: at most as much again waits as is answered at once (40).
    Bar("unlimited-server", "input", 1.10, 0.0, queue=80),
    # Against the bound; against the oracle in `make bench SECTION=short`.
    Bar("fixed-windows", "input", 1.15, 50.0),
    Bar("fixed-windows-blind", "input", 1.15, 50.0),
    Bar("characters", "input", 1.03, 1.0),
    Bar("daily-quota", "input", 1.10, 1.0),
)

#: Aims, not bars: not reached yet. The figures are recorded.
AIMS: Final = (
    # nginx's limit_req, as in `make bench SECTION=servers`: in virtual time the same makespan as in real time.
    Bar("local-gateway", "input", 1.12, 20.0),
    Bar("two-clients-blind", "input", 1.10, 20.0),
)

#: A lane beside a held one, compared with running alone.
BESIDE_HELD: Final = 1.02


def scenario(name: str, order: str = "input", seeds: tuple[int, ...] | None = None) -> Scenario:
    """A shipped scenario in one of the orders."""
    loaded = load(SCENARIOS / f"{name}.yaml")
    return msgspec.structs.replace(loaded, order=order, seeds=seeds or loaded.seeds)


def run(
    bar: Bar, policies: tuple[str, ...] = USUAL, seeds: tuple[int, ...] | None = None
) -> SimulationReport:
    """The scenario of a bar under these policies."""
    return simulate(bar.scenario, scenario(bar.scenario, bar.order, seeds), policies)


def misses(bar: Bar, report: SimulationReport) -> list[str]:
    """The missed bars."""
    missed = []
    for lane, result in report.policies[HEADWAY].lanes.items():
        ratio, rejected = bar.of(lane)
        if result.ratio > ratio:
            missed.append(
                f"{bar.scenario} {bar.order} {lane}: {result.ratio:.3f} of the bound, the bar is {ratio}"
            )
        if result.rejected_per_1000 > rejected:
            missed.append(
                f"{bar.scenario} {bar.order} {lane}: {result.rejected_per_1000:.1f} 429s per 1000, bar {rejected}"
            )
        if result.unfinished:
            missed.append(f"{bar.scenario} {bar.order} {lane}: {result.unfinished} units did not end")
        if result.failed > bar.failed:
            missed.append(
                f"{bar.scenario} {bar.order} {lane}: {result.failed} units failed, the bar is {bar.failed}"
            )
        if result.longest_queue > bar.queue:
            missed.append(
                f"{bar.scenario} {bar.order} {lane}: {result.longest_queue} requests waited in the server's queue, "
                f"the bar is {bar.queue}"
            )
    return missed


def beside_held(seeds: tuple[int, ...] | None = None) -> list[tuple[int, float]]:
    """(seed, makespan of the healthy lane beside the held one ÷ alone)."""
    both = scenario("held-lane", seeds=seeds)
    alone = msgspec.structs.replace(both, lanes={"healthy": both.lanes["healthy"]})
    ratios = []
    for seed in both.seeds:
        one = msgspec.structs.replace(both, seeds=(seed,))
        other = msgspec.structs.replace(alone, seeds=(seed,))
        together_s = simulate("held-lane", one, (HEADWAY,)).policies[HEADWAY].lanes["healthy"].makespan_s
        alone_s = simulate("held-lane", other, (HEADWAY,)).policies[HEADWAY].lanes["healthy"].makespan_s
        ratios.append((seed, together_s / alone_s))
    return ratios


# -- the section of RESULTS.md ---------------------------------------------------------------------------------------


def _lanes(missed: list[str]) -> Iterator[str]:
    yield "## Makespan ÷ bound (429s per 1000), the worst of the seeds"
    yield ""
    yield "| scenario | order | lane | bar | " + " | ".join(USUAL) + " |"
    yield "|---|---|---|---|" + "---|" * len(USUAL)
    for bar in BARS:
        print(f"{bar.scenario}, {bar.order} order …", flush=True)
        report = run(bar)
        missed += misses(bar, report)
        yield from _rows(bar, report)
    yield ""
    yield "### Aims, not bars"
    yield ""
    yield "Known to be hard. The figures are recorded, but not judged."
    yield ""
    yield "| scenario | order | lane | aim | " + " | ".join(USUAL) + " |"
    yield "|---|---|---|---|" + "---|" * len(USUAL)
    for aim in AIMS:
        print(f"{aim.scenario} …", flush=True)
        yield from _rows(aim, run(aim))
    yield ""


def _rows(bar: Bar, report: SimulationReport) -> Iterator[str]:
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
    ends += f", {result.longest_queue} queued" if result.longest_queue else ""
    return f"{result.ratio:.3f} ({result.rejected_per_1000:.1f}{ends})"


def _beside_held_lines(missed: list[str]) -> Iterator[str]:
    print("a healthy lane beside a held one …", flush=True)
    yield "## A healthy lane beside a held one, compared with running alone"
    yield ""
    for seed, ratio in beside_held():
        yield f"- seed {seed}: {ratio:.4f} (bar: ≤ {BESIDE_HELD})"
        if ratio > BESIDE_HELD:
            missed.append(f"beside a held lane, seed {seed}: {ratio:.3f}")
    yield ""


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield from _lanes(missed)
    yield from _beside_held_lines(missed)
