"""A plot over time as SVG inside a page. PURE: values in, markup out; the page's styles give it its colours, light and dark.

Nothing foreign is in it but names, which are escaped. There are no `style` attributes: the page forbids them.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from math import floor, log10
from typing import Final, Literal

import msgspec

from headway.display.formatting import duration
from headway.safe_text import one_line

Values = Sequence[float | None]

#: The size of the picture in its own units; it is scaled to the width that it has.
WIDTH: Final = 440
HEIGHT: Final = 168
LEFT: Final = 50
RIGHT: Final = 8
TOP: Final = 8
BOTTOM: Final = 24
#: A limit that is so many times higher than everything else is named, and not drawn.
OFF_PLOT: Final = 4.0
#: The ends that an axis can have, times a power of ten.
STEPS: Final = (1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
#: The least number of pixels of a mark.
_LEAST: Final = 1.5


class PlotLine(msgspec.Struct, frozen=True):
    """One curve: its name, its values, its look (`styles/run.css` has a colour for each), and whether it is a limit."""

    name: str
    values: Values
    look: Literal["used", "limit", "refused", "done", "cost"]
    shape: Literal["line", "area", "steps", "bars"] = "line"


class TimePlot(msgspec.Struct, frozen=True):
    """A plot: its title, what its values count, the end of each column (UTC), its lines, and spans that are marked (holds)."""

    title: str
    unit: str
    t: Sequence[float]
    lines: Sequence[PlotLine]
    spans: Sequence[tuple[float, float]] = ()
    money: bool = False


class _PlotFrame(msgspec.Struct, frozen=True):
    """Maps instants and values to places in the picture."""

    first: float
    last: float
    top: float

    def x(self, at: float) -> float:
        share = (at - self.first) / (self.last - self.first) if self.last > self.first else 1.0
        return LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - min(1.0, value / self.top) * (HEIGHT - TOP - BOTTOM)


def plot_html(plot: TimePlot) -> str:
    """The plot with its title and its legend; "" if it has nothing to show."""
    if len(plot.t) < 2 or not any(_known(line) for line in plot.lines):
        return ""
    lines, off = _drawn_lines(plot)
    step = plot.t[1] - plot.t[0]
    top = _nice(max((max(_known(line), default=0.0) for line in lines), default=0.0))
    frame = _PlotFrame(plot.t[0] - step, plot.t[-1], top)
    name = f"{plot.title}: {', '.join(line.name for line in plot.lines)}"
    parts = [
        *_axes(plot, frame),
        *(_span(one, frame) for one in plot.spans),
        *(_line(one, plot, frame) for one in lines),
    ]
    picture = f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{_text(name)}">{"".join(parts)}</svg>'
    return (
        f"<figure><figcaption><b>{_text(plot.title)}</b> {_legend(plot, off)}</figcaption>{picture}</figure>"
    )


def _drawn_lines(plot: TimePlot) -> tuple[list[PlotLine], set[str]]:
    """The lines that are drawn, and the names of limits that are far above the others."""
    most = max((max(_known(line), default=0.0) for line in plot.lines if line.look != "limit"), default=0.0)
    off = {
        line.name
        for line in plot.lines
        if line.look == "limit" and most > 0.0 and min(_known(line), default=0.0) > OFF_PLOT * most
    }
    return [line for line in plot.lines if line.name not in off and _known(line)], off


def _known(line: PlotLine) -> list[float]:
    return [value for value in line.values if value is not None]


def _nice(most: float) -> float:
    """The end of the axis: a round number."""
    if most <= 0.0:
        return 1.0
    power = 10.0 ** floor(log10(most))
    return next(step * power for step in STEPS if step * power >= most * 0.999)


def _axes(plot: TimePlot, frame: _PlotFrame) -> Iterator[str]:
    for share in (0.0, 0.5, 1.0):
        y = frame.y(share * frame.top)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_amount(share * frame.top, money=plot.money)}</text>'
    span = frame.last - frame.first
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        x = LEFT + share * (WIDTH - LEFT - RIGHT)
        at = "0" if not share else duration(share * span)
        yield f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{at}</text>'


def _amount(value: float, *, money: bool) -> str:
    """ "0", "2.5k", "1.2M", "$0.05"."""
    if money:
        return f"${value:,.2f}" if value >= 0.1 or not value else f"${value:.2g}"
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.4g}{letter}"
    return f"{value:.3g}"


def _span(span: tuple[float, float], frame: _PlotFrame) -> str:
    x1, x2 = frame.x(span[0]), frame.x(span[1])
    return f'<rect class="hold" x="{x1:.1f}" y="{TOP}" width="{max(_LEAST, x2 - x1):.1f}" height="{HEIGHT - TOP - BOTTOM}"/>'


def _line(line: PlotLine, plot: TimePlot, frame: _PlotFrame) -> str:
    if line.shape == "bars":
        return "".join(_bars(line, plot, frame))
    path, area = [], []
    for run in _runs(line, plot):
        points = [(frame.x(at), frame.y(value)) for at, value in run]
        if len(points) == 1:  # A column alone would be no line.
            points = [(points[0][0] - _LEAST, points[0][1]), points[0]]
        draw = _stepped(points) if line.shape == "steps" else points
        path.append("M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in draw))
        foot = HEIGHT - BOTTOM
        area.append(f"{path[-1]}L{draw[-1][0]:.1f},{foot}L{draw[0][0]:.1f},{foot}Z")
    filled = f'<path class="area {line.look}" d="{"".join(area)}"/>' if line.shape == "area" else ""
    return f'{filled}<path class="line {line.look}" d="{"".join(path)}"/>'


def _stepped(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    steps = [points[0]]
    for x, y in points[1:]:
        steps += [(x, steps[-1][1]), (x, y)]
    return steps


def _bars(line: PlotLine, plot: TimePlot, frame: _PlotFrame) -> Iterator[str]:
    """A mark at the foot of each column that has any."""
    for at, value in zip(plot.t, line.values, strict=True):
        if value:
            x, y = frame.x(at), frame.y(value)
            height = max(_LEAST * 2, HEIGHT - BOTTOM - y)
            yield f'<rect class="bar {line.look}" x="{x - _LEAST:.1f}" y="{HEIGHT - BOTTOM - height:.1f}" width="{_LEAST * 1.3:.1f}" height="{height:.1f}"/>'


def _runs(line: PlotLine, plot: TimePlot) -> Iterator[list[tuple[float, float]]]:
    """The stretches of a line without holes."""
    run: list[tuple[float, float]] = []
    for at, value in zip(plot.t, line.values, strict=True):
        if value is None:
            if run:
                yield run
            run = []
        else:
            run.append((at, value))
    if run:
        yield run


def _legend(plot: TimePlot, off: set[str]) -> str:
    keys = []
    for line in plot.lines:
        if values := _known(line):
            above = f" {_amount(values[-1], money=plot.money)} (above the plot)" if line.name in off else ""
            keys.append(f'<span class="key {line.look}">{_text(line.name)}{above}</span>')
    if plot.spans:
        keys.append('<span class="key hold">held</span>')
    return f'<span class="soft small">{_text(plot.unit)}</span> {" ".join(keys)}'


def _text(text: str) -> str:
    return html.escape(one_line(text))
