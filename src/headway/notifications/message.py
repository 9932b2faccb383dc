"""One notification. docs/how-to/metrics.md describes its JSON; a test compares the two."""

from __future__ import annotations

from typing import Literal

import msgspec

from headway.reports.run_progress import ProgressTotals

#: What happened: the run has ended, a lane is held for a long time, a lane has stopped, most of the budget is spent.
NotifiedEvent = Literal["ended", "held", "stopped", "budget"]
VERSION = 1


class Notification(msgspec.Struct, frozen=True):
    """What is sent. `text` is one sentence for people."""

    event: NotifiedEvent
    job: str
    text: str
    at_utc: float
    version: int = VERSION
    #: Of a hold and a stop: the lane, and when the hold ends.
    lane: str | None = None
    until_utc: float | None = None
    #: Of an end: the state of the job, and the exit code of the command.
    state: str | None = None
    exit_code: int | None = None
    #: The whole job, as far as it is known.
    totals: ProgressTotals | None = None
