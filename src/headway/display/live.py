"""The live view on a terminal: a bar for the job, a line per node of a flow, per lane and per agent; events scroll by above them.

It owns only the lines that it draws. It is drawn twice a second from the engine's snapshots and follows the size of the
terminal. When it is closed, it leaves no lines and no control codes, however the run ended.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import ControlType, Segment
from rich.table import Table
from rich.text import Text

from headway.display.agents.agent_rows import agent_table
from headway.display.flows.node_rows import node_table
from headway.display.formatting import duration, money
from headway.display.lanes.lane_order import is_busy
from headway.display.lanes.lane_table import TableShape, lane_lines, wait_cell
from headway.display.lanes.limit_use import LimitUseHistory, has_blocks
from headway.display.plain import began_lines, noted_line
from headway.engine.observer import AgentActivity, Display, View
from headway.reports.flows.node_progress import has_eta, units_known
from headway.reports.run_progress import note_agent
from headway.safe_text import one_line, without_breaks
from headway.stores.records import Job, JobEvent, UnknownOutcome

#: At most this many lanes have a line of their own; on a high terminal, as many as half of its lines.
MOST_LANES: Final = 12
#: The same beside the nodes of a flow.
MOST_FLOW_LANES: Final = 5


class LiveDisplay(Display):
    """Draws on a console that is a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)  # fmt: skip
        self._began = False
        self._agents: dict[int, AgentActivity] = {}
        self._history = LimitUseHistory()
        #: The lengths of the lines on the screen.
        self._drawn: list[int] = []

    def say(self, text: str) -> None:
        """One line above the view."""
        self._mind_width()
        self._console.print(Text(without_breaks(f"{time.strftime('%H:%M:%S')}  {text}")), soft_wrap=True)

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
        if not self._began:
            return
        self._mind_width()
        self._history.note(view)
        console = self._console
        picture = frame(view, console.width, console.height, self._agents.values(), self._history, blocks=has_blocks(console))  # fmt: skip
        lines = console.render_lines(picture, pad=False)[: console.height]
        self._live.update(_DrawnLines(lines), refresh=True)
        self._drawn = [Segment.get_line_length(line) for line in lines]

    def activity(self, activity: AgentActivity) -> None:
        """Remember what an agent does: the next frame shows it."""
        note_agent(self._agents, activity)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._began:
            self._mind_width()
            self._began, self._drawn = False, []
            self._live.stop()

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
            self._drawn = [min(length, width) for length in self._drawn]


class _DrawnLines:
    """A picture that is rendered already. rich draws it again below every line that is printed."""

    def __init__(self, lines: list[list[Segment]]) -> None:
        self._lines = lines

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        for number, line in enumerate(self._lines):
            if number:
                yield Segment.line()
            yield from Segment.adjust_line_length(line, options.max_width, pad=False)


def frame(
    view: View,
    width: int,
    height: int,
    agents: Collection[AgentActivity] = (),
    history: LimitUseHistory | None = None,
    *,
    blocks: bool = True,
) -> RenderableType:
    """One picture of a run. Agents get what the lanes leave of the height, and at least two rows. In a flow, nodes get half of it
    or more, and only busy lanes are shown.
    """
    kept = min(3, len(agents) + 1) if agents else 0
    lanes = [lane for lane in view.snapshot.lanes if not view.parts or is_busy(lane)]
    most = MOST_FLOW_LANES if view.parts else max(MOST_LANES, height // 2)
    room = max(1, min(most, height - (8 if view.parts else 5) - kept))
    shown = min(room, len(lanes))
    tables: list[RenderableType] = []
    left = height - 5 - shown
    if view.parts:
        rows = max(1, height - 6 - kept - shown)
        left = height - 7 - shown - min(rows, len(view.parts))
        tables += [table for table in (node_table(view, width, rows, wait_cell),) if table is not None]
    if lanes:
        tables += lane_lines(
            view, lanes, TableShape(width, room, blocks, has_history=history is not None), history
        )
    table = agent_table(agents, view.updated_utc, width, max(min(2, height - 6), left - 1))
    return Group(_bar(view, width, blocks=blocks), *tables, *([table] if table is not None else []))


def _bar(view: View, width: int, *, blocks: bool) -> RenderableType:
    ended, total = view.ended, units_known(view)
    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True)
    row.add_column(width=max(10, min(40, width // 3)))
    row.add_column(no_wrap=True, overflow="ellipsis")
    parts = "  ".join(_job_parts(view))
    row.add_row(
        Text(one_line(view.job), style="bold"),
        ProgressBar(total=max(1, total), completed=ended),
        Text(f"{ended:,}/{total:,}  " + (parts if blocks else parts.replace("…", "..."))),
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
