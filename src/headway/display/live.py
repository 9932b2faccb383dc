"""The live view on a terminal: one bar for the job, one line a lane, and what happened scrolling by above them.

Owns nothing but the lines it draws. It is drawn twice a second from the engine's own snapshots, follows the width of the
terminal, and is gone without a trace of control codes when it is closed, however the run ended.
"""

from __future__ import annotations

import time
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headway.core.snapshot import LaneView
from headway.display.plain import began_lines, noted_line
from headway.display.words import clock, duration, money, short
from headway.engine.observer import View
from headway.stores.records import Event, Job, Unknown

#: Lanes that have a line of their own; the rest share one.
MOST_LANES: Final = 12
#: Below this many columns the less important ones go.
NARROW: Final = 90


class LiveDisplay:
    """Draws on a console that is a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)  # fmt: skip
        self._began = False

    def say(self, text: str) -> None:
        """One line above the view."""
        self._console.print(Text(f"{time.strftime('%H:%M:%S')}  {text}"), soft_wrap=True)

    def began(self, job: Job, unknown: list[Unknown]) -> None:
        for line in began_lines(job, unknown):
            self.say(line)
        self._live.start()
        self._began = True

    def noted(self, event: Event) -> None:
        self.say(noted_line(event))

    def ended(self, indexes: list[int]) -> None:
        """The next frame counts them."""

    def moved(self, view: View) -> None:
        if self._began:
            self._live.update(frame(view, self._console.width, self._console.height), refresh=True)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._began:
            self._began = False
            self._live.stop()


def frame(view: View, width: int, height: int) -> RenderableType:
    """One picture of a run."""
    room = max(1, min(MOST_LANES, height - 5))
    return Group(_bar(view, width), _lanes(view, width, room))


def _bar(view: View, width: int) -> RenderableType:
    ended, total = view.ended, view.total
    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True)
    row.add_column(width=max(10, min(40, width // 3)))
    row.add_column(no_wrap=True, overflow="ellipsis")
    row.add_row(
        Text(view.job, style="bold"),
        ProgressBar(total=max(1, total), completed=ended),
        Text(f"{ended:,}/{total:,}  " + "  ".join(_job_parts(view))),
    )
    return row


def _job_parts(view: View) -> list[str]:
    failed = view.ended - view.counts["succeeded"] - view.counts["cached"]
    parts = [duration(view.elapsed_s)]
    if view.paused:
        parts.append("paused")
    elif view.snapshot.eta_s is not None and view.ended < view.total:
        parts.append(f"{duration(view.snapshot.eta_s)} left")
    if failed:
        parts.append(f"{failed:,} failed")
    if view.cost_usd:
        parts.append(money(view.cost_usd))
    return parts


def _lanes(view: View, width: int, room: int) -> RenderableType:
    table = Table(box=None, padding=(0, 1), show_edge=False, header_style="dim")
    table.add_column("lane", no_wrap=True, overflow="ellipsis", max_width=max(12, width // 4))
    for name in ("in flight", "left", "rate/s", "429s"):
        table.add_column(name, justify="right", no_wrap=True)
    if width >= NARROW:
        table.add_column("limit", no_wrap=True, overflow="ellipsis")
    table.add_column("waits for", no_wrap=True, overflow="ellipsis")
    lanes = sorted(view.snapshot.lanes, key=lambda lane: (not _busy(lane), view.names[lane.key]))
    shown = lanes if len(lanes) <= room else lanes[: room - 1]
    for lane in shown:
        table.add_row(*_cells(lane, view, width), style="" if _busy(lane) else "dim")
    rest = lanes[len(shown) :]
    if rest:
        table.add_row(*_folded(rest, width), style="dim")
    return table


def _busy(lane: LaneView) -> bool:
    return bool(lane.in_flight or lane.remaining)


def _cells(lane: LaneView, view: View, width: int) -> list[str]:
    cells = [
        view.names[lane.key],
        f"{lane.in_flight:,}",
        f"{lane.remaining:,}",
        f"{lane.rate_per_s:.1f}",
        f"{lane.refused:,}",
    ]
    if width >= NARROW:
        cells.append(f"{lane.used_of_binding:.0%} of {lane.binding}" if lane.binding else "")
    return [*cells, _waits(lane, view)]


def _waits(lane: LaneView, view: View) -> str:
    if lane.wait is None or not _busy(lane):
        return ""
    if lane.wait.until is None:
        return short(lane.wait.reason, 80)
    left_s = lane.wait.until - view.snapshot.at
    if left_s < 1.0:
        return short(lane.wait.reason, 80)
    return f"{duration(left_s)} (until {clock(lane.wait.until + view.utc_offset_s)}): {short(lane.wait.reason, 80)}"


def _folded(lanes: list[LaneView], width: int) -> list[str]:
    cells = [
        f"… {len(lanes)} more lanes",
        f"{sum(lane.in_flight for lane in lanes):,}",
        f"{sum(lane.remaining for lane in lanes):,}",
        f"{sum(lane.rate_per_s for lane in lanes):.1f}",
        f"{sum(lane.refused for lane in lanes):,}",
    ]
    return [*cells, *([""] if width >= NARROW else []), ""]
