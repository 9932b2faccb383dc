"""Heat maps of the sweep: one field for each size, rate and depth; the worst of the latencies in each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.sweep.cells import DEPTHS_S, RATES_RPM, SIZES, TELLS, Cell, Measured

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
_TITLES: Final = {
    "headers": "the limit is in the headers of every answer",
    "text": "the limit is in the text of a refusal",
    "blind": "nothing tells the limit",
}


class HeatMap(msgspec.Struct, frozen=True):
    """A picture: its file, its figure, how that is written, and the range of its colours."""

    file: str
    label: str
    figure: Callable[[Measured], float]
    written: Callable[[float], str]
    lightest: float
    darkest: float


RATIOS: Final = HeatMap(
    "sweep.svg", "makespan ÷ oracle", lambda one: one.ratio, lambda value: _short(value, 2), 1.0, 3.0
)
REFUSALS: Final = HeatMap(
    "sweep-429s.svg",
    "429s per 1000 units",
    lambda one: one.refused_per_1000,
    lambda value: _short(value, 0),
    0.0,
    100.0,
)


def _short(value: float, digits: int) -> str:
    """As many digits as a field has room for."""
    return f"{value:.{digits}f}" if value < 10.0 else f"{value:.{min(1, digits)}f}"


def draw_all(results: Sequence[Measured], folder: Path = IMAGES) -> None:
    """Both pictures."""
    for one in (RATIOS, REFUSALS):
        draw(results, one, folder / one.file)


def draw(results: Sequence[Measured], one: HeatMap, path: Path) -> None:
    """One table for each way to tell a limit: sizes down, rates and depths across."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "headway"
    mpl.rcParams["svg.fonttype"] = "none"  # Text as text: a third of the size.
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(TELLS), 1, figsize=(12.0, 2.7 * len(TELLS)), layout="constrained")
    columns = [(rpm, depth_s) for rpm in RATES_RPM for depth_s in DEPTHS_S]
    image: Any = None
    for ax, tells in zip(axes, TELLS, strict=True):
        table = [[_worst(results, one, units, tells, *column) for column in columns] for units in SIZES]
        image = ax.imshow(table, cmap="YlOrRd", vmin=one.lightest, vmax=one.darkest, aspect="auto")
        for row, place in product(range(len(SIZES)), range(len(columns))):
            value = table[row][place]
            if value == value:  # not NaN
                colour = "white" if value > 0.75 * one.darkest else "black"
                ax.text(place, row, one.written(value), ha="center", va="center", fontsize=7, color=colour)
        _label(ax, tells, columns)
        _frame(ax, columns)
    axes[-1].set_xlabel("depth of the bucket in seconds")
    figure.colorbar(image, ax=axes, label=f"{one.label}, the worst of three latencies", shrink=0.6)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _label(ax: Any, tells: str, columns: Sequence[tuple[float, float]]) -> None:
    ax.set_yticks(range(len(SIZES)), [f"{units:,}" for units in SIZES])
    ax.set_xticks(range(len(columns)), [f"{depth_s:g}" for _, depth_s in columns], fontsize=7)
    for place in range(len(DEPTHS_S), len(columns), len(DEPTHS_S)):
        ax.axvline(place - 0.5, color="white", linewidth=3)
    for group, rpm in enumerate(RATES_RPM):
        middle = (group + 0.5) * len(DEPTHS_S) - 0.5
        ax.text(middle, -0.65, f"{rpm:,} requests a minute", ha="center", va="bottom", fontsize=8)
    ax.set_title(_TITLES[tells], fontsize=10, loc="left", pad=18)
    ax.set_ylabel("units in the job")


def _frame(ax: Any, columns: Sequence[tuple[float, float]]) -> None:
    """Frame the fields where the full bucket holds the whole job."""
    from matplotlib.patches import Rectangle

    for row, (place, (rpm, depth_s)) in product(range(len(SIZES)), enumerate(columns)):
        if Cell(SIZES[row], depth_s, 1.0, "", rpm).fits:
            ax.add_patch(
                Rectangle(
                    (place - 0.44, row - 0.42), 0.88, 0.84, fill=False, edgecolor="royalblue", linewidth=1.2
                )
            )


def _worst(
    results: Sequence[Measured], one: HeatMap, units: int, tells: str, rpm: float, depth_s: float
) -> float:
    wanted = (units, tells, rpm, depth_s)
    found = [
        one.figure(result)
        for result in results
        if (result.cell.units, result.cell.tells, result.cell.rpm, result.cell.depth_s) == wanted
    ]
    return max(found, default=float("nan"))
