"""Whether a run has a progress bar, and when the bar is redrawn. `display.bar` draws; it is loaded with the first frame.

A run without a bar costs one check at its start.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Sized
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from headway.api.call_errors import as_exception
from headway.api.wait_messages import WaitMessages
from headway.core.reasons import WaitCode
from headway.reason_text import wait_text
from headway.runtime import loops

if TYPE_CHECKING:
    from headway.core.snapshot import Snapshot
    from headway.display.bar import Bar, Frame

#: A shorter run has no bar.
PATIENCE_S: Final = 1.0
#: Seconds between two frames.
TICK_S: Final = 0.25
#: The rate is that of the last so many frames: ten seconds.
_FRAMES: Final = 40
_BUSY: Final = frozenset({WaitCode.CONCURRENCY, WaitCode.GLOBAL_CAP})


class HasLanes(Protocol):
    """What has lanes."""

    @property
    def lanes(self) -> Snapshot:
        """Their present state."""


class Watched(Protocol):
    """What a bar needs of a run."""

    @property
    def calls(self) -> HasLanes:
        """What has its lanes."""

    @property
    def ends(self) -> int:
        """How many items have ended."""

    @property
    def failures(self) -> int:
        """How many of them have no value."""


def watching(run: Watched, items: Any, choice: bool | None) -> ExitStack | None:
    """Show a run's progress: a bar if `choice` is True, or by default on a terminal or in a notebook.

    Elsewhere only long waits are reported, a line each.
    """
    if choice is False:
        return None
    watch, visible = ExitStack(), _is_visible()
    if not visible and loops.virtual_loop_factory is None:
        watch.callback(WaitMessages(run.calls).close)
    if visible or choice:
        total = length_of(items)
        watch.callback(ProgressWatch(run, total, 0.0 if choice else PATIENCE_S).close)
    return watch


def length_of(items: Any) -> int | None:
    """How many items there are; None if they have no length, or raise when it is read."""
    try:
        return len(items) if isinstance(items, Sized) else None
    except BaseException as error:
        as_exception(error)  # Raises it again if a signal handler raised it.
        return None


def _is_visible() -> bool:
    if loops.virtual_loop_factory is not None:  # No bar in virtual time.
        return False
    try:
        return in_a_notebook() or (sys.stderr is not None and sys.stderr.isatty())
    except ValueError:  # It is closed.
        return False


def in_a_notebook() -> bool:
    """Whether this is a Jupyter kernel."""
    return "ipykernel" in sys.modules and "IPython" in sys.modules


class ProgressWatch:
    """Draws the bar of a run until it is closed. An error of the terminal ends the bar, never the run."""

    def __init__(self, run: Watched, total: int | None, patience_s: float) -> None:
        self._run, self._total = run, total
        self._loop = asyncio.get_running_loop()
        self._began_at = self._loop.time()
        self._seen: deque[tuple[float, int]] = deque([(self._began_at, 0)], maxlen=_FRAMES)
        self._bar: Bar | None = None
        self._broken = False
        self._timer = self._loop.call_later(patience_s, self._tick)

    def _tick(self) -> None:
        self._draw(last=False)
        if not self._broken:
            self._timer = self._loop.call_later(TICK_S, self._tick)

    def _draw(self, *, last: bool) -> None:
        try:
            if self._bar is None:
                from headway.display.bar import bar_for

                self._bar = bar_for(notebook=in_a_notebook())
            self._bar.show(self._frame(last=last))
        except Exception:  # A closed pipe, a terminal that is gone.
            self._broken = True

    def _frame(self, *, last: bool) -> Frame:
        from headway.display.bar import Frame

        now, ends = self._loop.time(), self._run.ends
        view = self._run.calls.lanes
        then, before = (self._began_at, 0) if last else self._seen[0]
        self._seen.append((now, ends))
        return Frame(
            done=ends,
            total=self._total,
            failed=self._run.failures,
            in_flight=view.in_flight,
            rate_per_s=(ends - before) / max(now - then, 1e-9),
            elapsed_s=now - self._began_at,
            waits=() if last else lanes_waiting(view),
            holds=lanes_held(view) if last else (),
        )

    def close(self) -> None:
        """Draw the last frame, and restore the screen."""
        self._timer.cancel()
        if self._bar is None:
            return
        if not self._broken:
            self._draw(last=True)
        with suppress(Exception):
            self._bar.close()


def lanes_waiting(view: Snapshot) -> tuple[tuple[str, str, float | None], ...]:
    """What lanes with work left wait for: the lane, the reason, and how long if that is known.

    A lane with as many calls in flight as it may have is busy, and the bar shows how many that is.
    """
    return tuple(
        (lane.key, wait_text(lane.wait), None if lane.wait.until is None else lane.wait.until - view.at)
        for lane in view.lanes
        if lane.wait is not None and lane.wait.code not in _BUSY and (lane.remaining or lane.in_flight)
    )


def lanes_held(view: Snapshot) -> tuple[tuple[str, float, int, str], ...]:
    """The lanes that were held, for how long, how often, and why the last time."""
    return tuple((lane.key, lane.held_s, lane.holds, lane.held_for) for lane in view.lanes if lane.holds)
