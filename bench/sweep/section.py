"""The section `sweep`: tables, the worst cells with what their traces show, and the heat maps in docs/images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import Final

from bench.sweep import heat_map
from bench.sweep.cells import (
    DEPTHS_S,
    LATENCIES_S,
    RATES_RPM,
    SIZES,
    TELLS,
    Measured,
    cells,
    measure_all,
    of_kind,
)

WORST_SHOWN: Final = 3


def section(missed: list[str]) -> Iterator[str]:
    """Measure every cell and draw the heat maps."""
    results = measure_all(cells())
    missed += misses(results)
    heat_map.draw_all(results)
    yield from lines(results)


def lines(results: Sequence[Measured]) -> Iterator[str]:
    """The section of RESULTS.md."""
    yield f"## A sweep over {len(results):,} jobs: makespan ÷ oracle, and 429s"
    yield ""
    yield f"Sizes {_listed(SIZES)}; depths {_listed(DEPTHS_S)} s; answers after {_listed(LATENCIES_S)} s; rates {_listed(RATES_RPM)}"
    yield "requests a minute; every combination once, in virtual time. Each cell: the median, then the worst, over all depths, latencies and"
    yield "rates. [The pictures](../docs/explanations/lanes.md#the-sweep), and why the worst are the worst."
    yield ""
    yield "| units | " + " | ".join(f"{tells}: ÷ oracle | {tells}: 429s per 1000" for tells in TELLS) + " |"
    yield "|---|" + "---|---|" * len(TELLS)
    for units in SIZES:
        yield (
            f"| {units:,} | " + " | ".join(_summary(of_kind(results, tells, units)) for tells in TELLS) + " |"
        )
    yield "| all | " + " | ".join(_summary(of_kind(results, tells)) for tells in TELLS) + " |"
    yield ""
    yield f"The {WORST_SHOWN} worst makespans for each way to tell a limit:"
    yield ""
    for tells in TELLS:
        for one in worst(of_kind(results, tells), lambda one: one.ratio):
            yield f"- {one.cell.name}: {one.ratio:.2f}. {why(one)}"
    yield ""
    yield f"The {WORST_SHOWN} with the most 429s for each:"
    yield ""
    for tells in TELLS:
        for one in worst(of_kind(results, tells), lambda one: one.refused_per_1000):
            yield f"- {one.cell.name}: {one.refused_per_1000:,.0f} per 1000. {why(one)}"
    yield ""


def why(one: Measured) -> str:
    """What the trace of a cell shows."""
    if one.cell.fits:
        best = f"The full bucket holds the whole job, so the oracle sends it at once and needs {one.oracle_s:.1f} s."
    else:
        best = f"The oracle needs {one.oracle_s:,.1f} s."
    refused = f"met {one.refused:,} refusals" if one.refused else "met no refusal"
    return (
        f"{best} Headway needs {one.took_s:,.1f} s: it {refused}, half of the units were admitted after {one.half_s:,.1f} s, and the "
        f"longest time without an admission was {one.gap_s:,.1f} s."
    )


def _summary(group: Sequence[Measured]) -> str:
    if not group:
        return "– | –"
    ratios = [one.ratio for one in group]
    refused = [one.refused_per_1000 for one in group]
    return f"{median(ratios):.2f}, {max(ratios):.2f} | {median(refused):,.0f}, {max(refused):,.0f}"


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{value:,g}" if value < 1_000 else f"{value:,.0f}" for value in values)


def worst(results: Iterable[Measured], figure: Callable[[Measured], float]) -> list[Measured]:
    """The cells with the highest figure."""
    return sorted(results, key=lambda one: -figure(one))[:WORST_SHOWN]


def misses(results: Sequence[Measured]) -> list[str]:
    """Jobs that did not end. The sweep has no other bar: the rows of DESIGN §8 are measured by `short` and `lanes`."""
    return [f"{one.cell.name}: {one.unfinished} units did not end" for one in results if one.unfinished]
