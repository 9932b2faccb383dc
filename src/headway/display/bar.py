"""The progress bar of `headway.map`: with rich on a terminal, with IPython's display in a notebook.

It owns only its own lines. Output of other code appears above them. When the bar is closed, the terminal is as before,
with the last count on it.
"""

from __future__ import annotations

import html
import sys
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headway.display.formatting import duration, short
from headway.display.usage_text import hold_text
from headway.safe_text import one_line

#: At most this many lanes show what they wait for.
MOST_WAITS: Final = 3


class Frame(msgspec.Struct, frozen=True):
    """The figures of one picture. `total` is None if unknown. A wait is a lane, the reason, and the seconds left."""

    done: int
    total: int | None
    failed: int
    in_flight: int
    rate_per_s: float
    elapsed_s: float
    waits: tuple[tuple[str, str, float | None], ...] = ()
    #: At the end: a lane that was held, how long, how often, and the last reason.
    holds: tuple[tuple[str, float, int, str], ...] = ()


class Bar(Protocol):
    """Shows frames."""

    def show(self, frame: Frame) -> None:
        """Replace the previous frame."""

    def close(self) -> None:
        """Stop; the last frame stays."""


def bar_for(*, notebook: bool) -> Bar:
    """A bar for a notebook or for the terminal."""
    if notebook:
        from IPython.display import display  # type: ignore[import-not-found, unused-ignore]

        return NotebookBar(display)
    return TerminalBar(Console(stderr=True))


class TerminalBar:
    """A bar on a console. If that is not a terminal, only the last frame is written."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # Standard output that goes to a file is not redirected.
        beside = sys.stdout is not None and sys.stdout.isatty()
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=beside, redirect_stderr=True)
        self._live.start()

    def show(self, frame: Frame) -> None:
        """Draw."""
        self._live.update(picture(frame, self._console.width), refresh=True)

    def close(self) -> None:
        """Restore the cursor."""
        self._live.stop()


class NotebookBar:
    """A bar below the cell, by `display(…, display_id=True)`, which needs no widgets."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None

    def show(self, frame: Frame) -> None:
        """Draw."""
        shown = {"text/plain": figures(frame), "text/html": _html(frame)}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def close(self) -> None:
        """Do nothing: the cell keeps the last frame."""


def figures(frame: Frame) -> str:
    """The figures: "120/500  2 failed  16 in flight  41.7/s  2.9 s"."""
    parts = [f"{frame.done:,}" if frame.total is None else f"{frame.done:,}/{frame.total:,}"]
    if frame.failed:
        parts.append(f"{frame.failed:,} failed")
    if frame.in_flight:
        parts.append(f"{frame.in_flight:,} in flight")
    parts.append(f"{frame.rate_per_s:,.1f}/s")
    parts.append(duration(frame.elapsed_s))
    return "  ".join(parts)


def wait_lines(frame: Frame) -> list[str]:
    """A line for each lane that waits, and at the end for each that was held."""
    waiting = [
        f"{lane} waits{_time_left(left_s)}: {short(reason, 80)}" for lane, reason, left_s in frame.waits
    ]
    over = [f"{lane} was {hold_text(held_s, holds, reason)}" for lane, held_s, holds, reason in frame.holds]
    return [one_line(line) for line in (*_first_few(waiting, "wait"), *_first_few(over, "were held"))]


def _first_few(lines: list[str], what: str) -> list[str]:
    if len(lines) <= MOST_WAITS:
        return lines
    return [*lines[: MOST_WAITS - 1], f"… {len(lines) - MOST_WAITS + 1} more lanes {what}"]


def _time_left(left_s: float | None) -> str:
    return "" if left_s is None or left_s < 1.0 else f" {duration(left_s)}"


def picture(frame: Frame, width: int) -> RenderableType:
    """The bar if the total is known, the figures, and what lanes wait for."""
    row = Table.grid(padding=(0, 1))
    cells: list[RenderableType] = []
    if frame.total is not None:
        row.add_column(width=max(8, min(40, width // 3)))
        cells.append(ProgressBar(total=max(1, frame.total), completed=frame.done))
    row.add_column(no_wrap=True, overflow="ellipsis")
    row.add_row(*cells, Text(figures(frame)))
    below = [Text(text, style="dim", no_wrap=True, overflow="ellipsis") for text in wait_lines(frame)]
    return Group(row, *below)


def _html(frame: Frame) -> str:
    bar = (
        ""
        if frame.total is None
        else f"<progress max='{max(1, frame.total)}' value='{frame.done}'></progress> "
    )
    lines = [html.escape(text) for text in (figures(frame), *wait_lines(frame))]
    return f"<div>{bar}{lines[0]}</div>" + "".join(
        f"<div style='opacity:.6'>{text}</div>" for text in lines[1:]
    )
