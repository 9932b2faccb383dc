"""The plots of a job: the units that ended and the cost, and for each lane its rate against its limit and what was in flight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headway.display.html.run.svg_plot import PlotLine, TimePlot, plot_html
from headway.reports.lane_history import LaneCurves, LaneHistory

#: Lanes whose plots are shown at once; those of the others are folded.
SHOWN: Final = 6
_TOKENS: Final = {"tokens": "tokens", "input_tokens": "input tokens", "output_tokens": "output tokens"}


def job_plots(history: LaneHistory) -> list[str]:
    """The whole job."""
    ended = TimePlot("Units", "that have ended", history.t, [PlotLine("ended", history.done, "done", "area")])
    cost = TimePlot(
        "Cost", "so far", history.t, [PlotLine("known cost", history.cost_usd, "cost", "area")], money=True
    )
    has_cost = any(history.cost_usd)
    return [plot for plot in (plot_html(ended), plot_html(cost) if has_cost else "") if plot]


def busiest_first(history: LaneHistory) -> list[str]:
    """The names of the lanes, those that started most first."""
    starts = {
        name: sum(one or 0.0 for one in curves.starts_per_min) for name, curves in history.lanes.items()
    }
    return sorted(starts, key=lambda name: (-starts[name], name))


def lane_plots(history: LaneHistory, lane: str) -> list[str]:
    """One lane."""
    curves = history.lanes[lane]
    spans = [(hold.from_utc, hold.until_utc) for hold in history.holds if hold.lane == lane]
    return [plot for plot in map(plot_html, _plots_of(curves, history, spans)) if plot]


def _plots_of(
    curves: LaneCurves, history: LaneHistory, spans: list[tuple[float, float]]
) -> Iterator[TimePlot]:
    t = history.t
    refused = PlotLine("429s", curves.refused, "refused", "bars")
    rate = PlotLine("started", curves.starts_per_min, "used", "area")
    limit = PlotLine("limit", curves.limit_per_min, "limit", "steps")
    marks = [refused] if any(curves.refused) else []
    yield TimePlot("Requests", "a minute", t, [rate, limit, *marks], spans)
    if any(curves.tokens_per_min):
        name = _TOKENS[curves.token_dimension].capitalize()
        used = PlotLine("charged", curves.tokens_per_min, "used", "area")
        most = PlotLine("limit", curves.token_limit_per_min, "limit", "steps")
        yield TimePlot(name, "a minute", t, [used, most], spans)
    flight = PlotLine("in flight", curves.in_flight, "used", "area")
    window = PlotLine("window", curves.window, "limit", "steps")
    yield TimePlot("In flight", "at once", t, [flight, window], spans)
