"""The table of a forecast, with a row per lane, and notes on what its figures are based on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rich import box
from rich.table import Table

from headway.display.formatting import duration, money
from headway.forecast.figures import Forecast, LaneForecast, Range

#: On a terminal narrower than WIDE, ranges are below their estimates; narrower than NARROW, tokens are left out.
WIDE: Final = 140
NARROW: Final = 100
#: Below this, there is no table.
TABLE: Final = 64


def table(forecast: Forecast, width: int = WIDE) -> Table:
    """A row per lane, and a total if there are several."""
    rows = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_footer=len(forecast.lanes) > 1)
    cells = [_cells(lane, width) for lane in forecast.lanes]
    total = _total(forecast, width)
    programs = all(lane.program for lane in forecast.lanes)
    shown = [name for name in total if not name.startswith("tokens") or (width >= NARROW and not programs)]
    for name in shown:
        words = name in ("lane", "limited by")
        rows.add_column(
            "units" if programs and name == "requests" else name, total[name], justify="left" if words else "right", no_wrap=not words, overflow="fold",
            min_width=12 if words else None,
        )  # fmt: skip
    for row in cells:
        rows.add_row(*(row[name] for name in shown))
    return rows


def narrow_lines(forecast: Forecast) -> list[str]:
    """The same for a terminal that is too narrow for a table: the name of a lane, and its figures below."""
    lines = []
    lanes = [_cells(lane, WIDE) for lane in forecast.lanes]
    for cells in (*lanes, *([_total(forecast, WIDE)] if len(lanes) > 1 else [])):
        lines.append(cells["lane"])
        names = {"requests": "units"} if all(lane.program for lane in forecast.lanes) else {}
        lines += [
            f"  {names.get(name, name)}: {text}" for name, text in cells.items() if name != "lane" and text
        ]
    return lines


def notes(forecast: Forecast) -> list[str]:
    """Notes below the table."""
    lines = list(forecast.notes)
    if forecast.unpriced and forecast.cost_usd is not None:
        lines.append(
            f"the total is at least {dollars(forecast.cost_usd.estimate)}: the cost of {', '.join(forecast.unpriced)} is not known"
        )
    if forecast.simulated < forecast.requests:
        lines.append(
            f"{forecast.simulated:,} of {forecast.requests:,} requests were simulated; the rest is assumed to take as long"
        )
    return lines


def _cells(lane: LaneForecast, width: int) -> dict[str, str]:
    return {
        "lane": lane.name,
        "requests": f"{lane.requests:,}",
        "tokens in": "" if lane.program else _tokens(lane.input_tokens, width),
        "tokens out": "" if lane.program else _tokens(lane.output_tokens, width),
        "cost": "?" if lane.cost_usd is None else range_text(lane.cost_usd, dollars, width),
        "time": range_text(lane.time_s, duration, width) if lane.time_known else "?",
        "limited by": lane.binding,
    }


def _total(forecast: Forecast, width: int) -> dict[str, str]:
    programs = all(lane.program for lane in forecast.lanes)
    return {
        "lane": "total",
        "requests": f"{forecast.requests:,}",
        "tokens in": "" if programs else _tokens(forecast.input_tokens, width),
        "tokens out": "" if programs else _tokens(forecast.output_tokens, width),
        "cost": _total_cost(forecast, width),
        "time": range_text(forecast.time_s, duration, width) if forecast.time_known else "?",
        "limited by": "",
    }


def _total_cost(forecast: Forecast, width: int) -> str:
    """The total cost. If the price of a model is unknown, it is a lower bound."""
    if forecast.cost_usd is None:
        return "?"
    known = range_text(forecast.cost_usd, dollars, width)
    return f"at least {known}" if forecast.unpriced else known


def range_text(of: Range, words: Callable[[float], str], width: int) -> str:
    """ "12m 10s (11m 50s–12m 40s)", the range below on a narrow terminal."""
    estimate, low, high = (words(value) for value in (of.estimate, of.low, of.high))
    if low == high:
        return estimate
    return f"{estimate}{' ' if width >= WIDE else chr(10)}({low}–{high})"


def _tokens(of: Range, width: int) -> str:
    return tokens(of.estimate) if width < NARROW else range_text(of, tokens, width)


def dollars(usd: float) -> str:
    """Dollars, with three significant digits below $1."""
    if usd >= 1.0:
        return money(usd)
    return f"${usd:.3g}" if usd >= 0.0001 or not usd else "<$0.0001"


def tokens(count: float) -> str:
    """A token count with three significant digits: 940, 12.3k, 4.56M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= 0.9995 * size:
            return f"{count / size:.3g}{unit}" if count < 999.5 * size else f"{count / size:,.0f}{unit}"
    return f"{count:.0f}"
