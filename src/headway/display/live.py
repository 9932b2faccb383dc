"""The live view on a terminal: a bar for the job, a line per node of a flow, per lane and per agent; events scroll by above them.

It owns only the lines that it draws. It is drawn twice a second from the engine's snapshots and follows the width of the
terminal. When it is closed, it leaves no lines and no control codes, however the run ended.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.control import Control
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import ControlType, Segment
from rich.table import Table
from rich.text import Text

from headway.core.lanes.learning.rate_finder import LEARNED
from headway.core.snapshot import LaneView
from headway.display.agents.agent_rows import agent_table
from headway.display.columns import column_widths
from headway.display.flows.node_rows import node_table
from headway.display.formatting import clock, duration, money, short
from headway.display.lane_text import windows_text
from headway.display.plain import began_lines, noted_line
from headway.engine.observer import AgentActivity, Display, View
from headway.reason_text import wait_text
from headway.reports.flows.node_progress import has_eta, units_known
from headway.reports.run_progress import note_agent
from headway.safe_text import one_line, without_breaks
from headway.stores.records import Job, JobEvent, UnknownOutcome

#: At most this many lanes have a line of their own; the others share one.
MOST_LANES: Final = 12
#: The same beside the nodes of a flow.
MOST_FLOW_LANES: Final = 5
#: On a narrower terminal, less important columns are left out.
NARROW: Final = 90
#: Columns of figures.
NUMBERS: Final = ("in flight", "left", "rate/s", "429s")


class LiveDisplay(Display):
    """Draws on a console that is a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)  # fmt: skip
        self._began = False
        self._agents: dict[int, AgentActivity] = {}
        #: The last picture, and the lengths of its lines on the screen.
        self._picture: RenderableType = ""
        self._drawn: list[int] = []

    def say(self, text: str) -> None:
        """One line above the view."""
        self._mind_width()
        self._console.print(Text(without_breaks(f"{time.strftime('%H:%M:%S')}  {text}")), soft_wrap=True)
        if self._began:
            self._measure()  # The view was drawn again below the line.

    def began(self, job: Job, unknown: list[UnknownOutcome]) -> None:
        for line in began_lines(job, unknown):
            self.say(line)
        self._live.start()
        self._began = True

    def noted(self, event: JobEvent) -> None:
        self.say(noted_line(event))

    def ended(self, indexes: list[int]) -> None:
        """Do nothing: the next frame counts units."""

    def moved(self, view: View) -> None:
        if self._began:
            self._mind_width()
            picture = frame(view, self._console.width, self._console.height, self._agents.values())
            self._live.update(picture, refresh=True)
            self._picture = picture
            self._measure()

    def activity(self, activity: AgentActivity) -> None:
        """Remember what an agent does: the next frame shows it."""
        note_agent(self._agents, activity)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._began:
            self._mind_width()
            self._began, self._drawn = False, []
            self._live.stop()

    def _measure(self) -> None:
        """Remember the lengths of the lines on the screen."""
        lines = self._console.render_lines(self._picture, pad=False)
        self._drawn = [Segment.get_line_length(line) for line in lines[: self._console.height]]

    def _mind_width(self) -> None:
        """Erase the extra lines of a terminal that became narrower. It has wrapped our lines, and rich moves up only over
        the number of lines that it drew.
        """
        width = max(1, self._console.width)
        rows = sum(max(1, -(-length // width)) for length in self._drawn)
        more = rows - len(self._drawn)
        if more > 0:
            up = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2))
            self._console.control(Control((ControlType.ERASE_IN_LINE, 2), *(up * more)))


def frame(view: View, width: int, height: int, agents: Collection[AgentActivity] = ()) -> RenderableType:
    """One picture of a run. Agents get what the lanes leave of the height, and at least two rows. In a flow, nodes get half of it
    or more, and only busy lanes are shown.
    """
    kept = min(3, len(agents) + 1) if agents else 0
    if not view.parts:
        room = max(1, min(MOST_LANES, height - 5 - kept))
        tables = [_lanes(view, width, room)]
        left = height - 5 - min(room, len(view.snapshot.lanes))
    else:
        lanes = sum(map(_busy, view.snapshot.lanes))
        room = max(1, min(MOST_FLOW_LANES, height - 8 - kept))
        rows = max(1, height - 6 - kept - min(room, lanes))
        nodes = node_table(view, width, rows, _waits)
        tables = [*([nodes] if nodes is not None else []), *([_lanes(view, width, room)] if lanes else [])]
        left = height - 7 - min(room, lanes) - min(rows, len(view.parts))
    table = agent_table(agents, view.updated_utc, width, max(min(2, height - 6), left - 1))
    return Group(_bar(view, width), *tables, *([table] if table is not None else []))


def _bar(view: View, width: int) -> RenderableType:
    ended, total = view.ended, units_known(view)
    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True)
    row.add_column(width=max(10, min(40, width // 3)))
    row.add_column(no_wrap=True, overflow="ellipsis")
    row.add_row(
        Text(one_line(view.job), style="bold"),
        ProgressBar(total=max(1, total), completed=ended),
        Text(f"{ended:,}/{total:,}  " + "  ".join(_job_parts(view))),
    )
    return row


def _job_parts(view: View) -> list[str]:
    cancelled = view.counts.get("cancelled", 0)
    failed = view.ended - view.counts["succeeded"] - view.counts["cached"] - cancelled
    parts = [duration(view.elapsed_s)]
    if view.paused:
        parts.append("paused")
    elif has_eta(view):
        eta_s = view.snapshot.eta_s
        parts.append("… left" if eta_s is None else f"{duration(eta_s)} left")
    if failed:
        parts.append(f"{failed:,} failed")
    if cancelled:
        parts.append(f"{cancelled:,} cancelled")
    if view.cost_usd:
        parts.append(money(view.cost_usd))
    return parts


def _lanes(view: View, width: int, room: int) -> RenderableType:
    of_run = [lane for lane in view.snapshot.lanes if not view.parts or _busy(lane)]
    lanes = sorted(of_run, key=lambda lane: (not _busy(lane), view.names[lane.key]))
    shown = lanes if len(lanes) <= room else lanes[: room - 1]
    rows = [(_cells(lane, view, width), "" if _busy(lane) else "dim") for lane in shown]
    if rest := lanes[len(shown) :]:
        rows.append((_folded(rest, width), "dim"))
    names = ["lane", *NUMBERS, *(["limit"] if width >= NARROW else []), "waiting for"]
    table = Table(box=None, padding=(0, 1), show_edge=False, header_style="dim")
    widths = column_widths(names, [cells for cells, _ in rows], width, NUMBERS)
    for name, most in zip(names, widths, strict=True):
        table.add_column(
            name,
            justify="right" if name in NUMBERS else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=most,
        )
    for cells, style in rows:
        table.add_row(*(Text(cell) for cell in cells), style=style)
    return table


def _busy(lane: LaneView) -> bool:
    return bool(lane.in_flight or lane.remaining)


def _cells(lane: LaneView, view: View, width: int) -> list[str]:
    cells = [
        view.names[lane.key],
        f"{lane.in_flight:,}",
        f"{lane.remaining:,}",
        f"{lane.rate_per_s:.1f}" if lane.rate_per_s or not lane.in_flight else "…",
        f"{lane.refused:,}",
    ]
    if width >= NARROW:
        cells.append(_limit(lane, view))
    return [one_line(cell) for cell in (*cells, _waits(lane, view))]


def _limit(lane: LaneView, view: View) -> str:
    """The windows of a subscription, or the limit that binds."""
    if windows := windows_text(lane.windows, view.updated_utc):
        return windows
    return f"{lane.used_of_binding:.0%} of {lane.binding}" if _is_measured(lane) else ""


def _is_measured(lane: LaneView) -> bool:
    """Whether it has a limit to show. A pace is not learned before the provider has answered."""
    return bool(lane.binding) and (lane.binding != LEARNED or bool(lane.succeeded or lane.refused))


def _waits(lane: LaneView, view: View) -> str:
    if lane.wait is None or not _busy(lane):
        return ""
    if lane.wait.until is None:
        return short(wait_text(lane.wait), 80)
    left_s = lane.wait.until - view.snapshot.at
    if left_s < 1.0:
        return short(wait_text(lane.wait), 80)
    return f"{duration(left_s)} (until {clock(lane.wait.until + view.utc_offset_s)}): {short(wait_text(lane.wait), 80)}"


def _folded(lanes: list[LaneView], width: int) -> list[str]:
    cells = [
        f"… {len(lanes)} more lanes",
        f"{sum(lane.in_flight for lane in lanes):,}",
        f"{sum(lane.remaining for lane in lanes):,}",
        f"{sum(lane.rate_per_s for lane in lanes):.1f}",
        f"{sum(lane.refused for lane in lanes):,}",
    ]
    return [*cells, *([""] if width >= NARROW else []), ""]
