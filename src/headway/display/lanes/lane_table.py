"""The lanes of a run as a table: what each does, how near it is to its limit, and what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from rich.text import Text

from headway.core.reasons import WaitCode
from headway.core.snapshot import LaneView
from headway.display.formatting import clock, duration, short
from headway.display.lane_text import windows_text
from headway.display.lanes.lane_order import DONE, HELD, STOPPED, chosen_lanes, is_busy, rank, rest_text
from headway.display.lanes.limit_use import LimitUseHistory, drawn, is_measured
from headway.display.lanes.line_grid import GridRow, grid_lines
from headway.engine.observer import View
from headway.reason_text import wait_text

#: On a narrower terminal, less important columns are left out.
NARROW: Final = 90
#: From these widths on, the last seconds have so many columns.
USE_COLUMNS: Final = ((130, 20), (100, 12), (72, 8))
OF_LIMIT: Final = "of limit"
#: Below this width only these figures are left.
SMALL: Final = 60
_SMALL_NUMBERS: Final = ("in flight", "rate/s")
#: Columns that are never cut.
NUMBERS: Final = ("in flight", "left", "rate/s", "429s", OF_LIMIT)
_STYLES: Final = {STOPPED: "red", HELD: "yellow"}
_REFUSED: Final = "red"
_USED: Final = "cyan"


class TableShape(msgspec.Struct, frozen=True):
    """What a terminal has room for, and which characters it has."""

    width: int
    rows: int
    blocks: bool = True
    #: Whether limits are named shortly: "requests/min".
    brief_limits: bool = False
    #: Whether the last seconds are known.
    has_history: bool = True

    @property
    def use_columns(self) -> int:
        """How many columns the last seconds have."""
        most = next((columns for width, columns in USE_COLUMNS if self.width >= width), 0)
        return most if self.has_history else 0

    @property
    def ellipsis(self) -> str:
        """What stands for text that was cut."""
        return "…" if self.blocks else "..."

    @property
    def names(self) -> list[str]:
        """The columns."""
        numbers = NUMBERS if self.use_columns else NUMBERS[:-1] if self.width >= SMALL else _SMALL_NUMBERS
        return ["lane", *numbers, *(["limit"] if self.width >= NARROW else []), "waiting for"]

    def row(
        self, cells: dict[str, str], style: str, cell_styles: dict[str, str | tuple[str, ...]]
    ) -> GridRow:
        """A row with the cells of its columns, out of those of all columns."""
        places = {name: place for place, name in enumerate(self.names)}
        styles = {places[name]: value for name, value in cell_styles.items() if name in places}
        return GridRow([cells[name] for name in places], style, styles)


def lane_lines(
    view: View, lanes: Sequence[LaneView], shape: TableShape, history: LimitUseHistory | None
) -> list[Text]:
    """A heading, and at most `shape.rows` rows."""
    return grid_lines(
        shape.names, lane_rows(view, lanes, shape, history), shape.width, NUMBERS, ellipsis=shape.ellipsis
    )


def lane_rows(
    view: View, lanes: Sequence[LaneView], shape: TableShape, history: LimitUseHistory | None
) -> list[GridRow]:
    """A row for each lane as far as there is room; the others share the last one."""
    own, others = chosen_lanes(lanes, view.names, shape.rows)
    rows = [_row(lane, view, shape, history) for lane in own]
    return [*rows, _rest(others, shape)] if others else rows


def _row(lane: LaneView, view: View, shape: TableShape, history: LimitUseHistory | None) -> GridRow:
    window = f"/{lane.window:,}" if lane.window is not None and is_busy(lane) else ""
    marks = [] if history is None else history.marks(lane.key, shape.use_columns)
    cells = {
        "lane": view.names[lane.key],
        "in flight": f"{lane.in_flight:,}{window}",
        "left": f"{lane.remaining:,}",
        "rate/s": f"{lane.rate_per_s:.1f}" if lane.rate_per_s or not lane.in_flight else "…",
        "429s": f"{lane.refused:,}",
        OF_LIMIT: drawn(marks, blocks=shape.blocks) or " " * shape.use_columns,
        "limit": _limit(lane, view).replace(" per minute", "/min" if shape.brief_limits else " per minute"),
        "waiting for": wait_cell(lane, view, brief=shape.width < NARROW),
    }
    use = tuple(_REFUSED if mark.refused else _USED for mark in marks)
    place = rank(lane)
    styles: dict[str, str | tuple[str, ...]] = {OF_LIMIT: use, "waiting for": _STYLES.get(place, "")}
    return shape.row(cells, "dim" if place == DONE else "", styles)


def _limit(lane: LaneView, view: View) -> str:
    """The windows of a subscription, or the limit that binds."""
    if windows := windows_text(lane.windows, view.updated_utc):
        return windows
    return f"{lane.used_of_binding:.0%} of {lane.binding}" if is_measured(lane) else ""


def wait_cell(lane: LaneView, view: View, *, brief: bool = False) -> str:
    """What a lane waits for, and how long; not `brief`: also until when."""
    if lane.wait is None or not is_busy(lane):
        return ""
    text = short(wait_text(lane.wait), 80)
    if lane.wait.until is None or lane.wait.code is WaitCode.STOPPED:
        return text
    left_s = lane.wait.until - view.snapshot.at
    if left_s < 1.0:
        return text
    if brief:
        return f"{duration(left_s)}: {text}"
    return f"{duration(left_s)} (until {clock(lane.wait.until + view.utc_offset_s)}): {text}"


def _rest(lanes: Sequence[LaneView], shape: TableShape) -> GridRow:
    figures = {
        "lane": f"… {len(lanes)} more lanes" if len(lanes) > 1 else "… 1 more lane",
        "in flight": f"{sum(lane.in_flight for lane in lanes):,}",
        "left": f"{sum(lane.remaining for lane in lanes):,}",
        "rate/s": f"{sum(lane.rate_per_s for lane in lanes):.1f}",
        "429s": f"{sum(lane.refused for lane in lanes):,}",
    }
    return GridRow([*(figures[name] for name in shape.names if name in figures), rest_text(lanes)], "dim")
