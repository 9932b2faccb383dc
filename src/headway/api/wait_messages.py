"""Lines on stderr for runs without a bar: what a lane waits for, and until when, if the wait is long.

Each wait is reported once. A lane whose own pace is that slow is reported once in a run, because every gap is a wait.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Final

from headway.core.reasons import WaitCode
from headway.providers.error_messages import short_message
from headway.reason_text import wait_text
from headway.safe_text import visible

if TYPE_CHECKING:
    from headway.api.progress_bar import HasLanes
    from headway.core.reasons import Wait
    from headway.core.snapshot import LaneView

#: Longer waits are reported; how often lanes are checked.
LONG_S: Final = 10.0
LOOK_S: Final = 1.0
#: Waits with a cause outside of the lane: each is reported. All others are the lane's own pace.
_NEWS: Final = frozenset(
    {WaitCode.HOLD, WaitCode.RETRY_AFTER, WaitCode.BREAKER, WaitCode.PROBE, WaitCode.BACKOFF}
)


class WaitMessages:
    """Checks the lanes of a run until it is closed."""

    def __init__(self, calls: HasLanes) -> None:
        self._calls = calls
        self._loop = asyncio.get_running_loop()
        #: By lane: until when the reported wait lasts.
        self._reported: dict[str, float] = {}
        self._timer = self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        view = self._calls.lanes
        try:
            for lane in view.lanes:
                if lane.wait is not None and (lane.remaining or lane.in_flight):
                    self._judge(lane, lane.wait, view.at)
        except (OSError, ValueError, AttributeError):
            return  # stderr is None or closed: the run goes on without messages.
        self._timer = self._loop.call_later(LOOK_S, self._look)

    def _judge(self, lane: LaneView, wait: Wait, now: float) -> None:
        if wait.until is None or wait.until - now <= LONG_S or self._reported.get(lane.key, 0.0) > now:
            return
        self._reported[lane.key] = wait.until if wait.code in _NEWS else float("inf")
        from headway.display.formatting import clock, duration

        left_s = wait.until - now
        until = clock(time.time() + left_s)
        sys.stderr.write(
            f"headway: {visible(lane.key)} waits {duration(left_s)}, until {until}: {short_message(wait_text(wait))}\n"
        )
        sys.stderr.flush()

    def close(self) -> None:
        """Stop checking."""
        self._timer.cancel()
