"""Decides what is told, and when. An observer: it looks at the views of the run, and at the events of its lanes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec

from headway.core.reasons import WaitCode
from headway.core.snapshot import LaneView
from headway.engine.observer import Observer, View
from headway.notifications.message import Notification
from headway.reports.run_progress import ProgressTotals, progress_of
from headway.stores.records import Job, JobEvent, UnknownOutcome

#: The part of the budget that is told of.
MOST_OF_BUDGET: Final = 0.8
_STOPPED: Final = "stopped"


class NotificationWatcher(Observer):
    """`send` is called once for every hold that lasts longer than `hold_s` in all, every lane that stops, and the budget."""

    def __init__(self, send: Callable[[Notification], None], hold_s: float) -> None:
        self._send, self._hold_s = send, hold_s
        self._job = ""
        self._last: View | None = None
        #: Lane → when its hold was first seen; and the lanes of which was told.
        self._held: dict[str, float] = {}
        self._told: set[str] = set()
        #: The budgets of which was told; "" is that of the run.
        self._budgets_told: set[str] = set()

    @property
    def totals(self) -> ProgressTotals | None:
        """The whole job, in the last view."""
        return None if self._last is None else progress_of(self._last, parts=()).totals

    def began(self, job: Job, unknown: list[UnknownOutcome]) -> None:
        self._job = job.name

    def noted(self, event: JobEvent) -> None:
        if event.what == _STOPPED:
            text = f"{self._job}: lane {event.lane} stopped: {event.text}"
            self._tell(Notification(_STOPPED, self._job, text, event.at_utc, lane=event.lane))

    def ended(self, indexes: list[int]) -> None:
        """Do nothing: the end of the run is told of, not that of units."""

    def moved(self, view: View) -> None:
        self._last = view
        for lane in view.snapshot.lanes:
            self._look_at_hold(lane, view)
        self._look_at_budget(view, "", view.snapshot.spent_usd, view.snapshot.max_cost_usd)
        for one in view.snapshot.lane_budgets:
            self._look_at_budget(view, one.name, one.spent_usd, one.max_cost_usd)

    def _look_at_hold(self, lane: LaneView, view: View) -> None:
        wait = lane.wait
        if wait is None or wait.code is not WaitCode.HOLD or wait.until is None:
            self._held.pop(lane.key, None)
            self._told.discard(lane.key)
            return
        since = self._held.setdefault(lane.key, view.snapshot.at)
        if wait.until - since <= self._hold_s or lane.key in self._told:
            return
        self._told.add(lane.key)
        name, until_utc = view.names[lane.key], wait.until + view.utc_offset_s
        at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(until_utc))
        text = f"{view.job}: lane {name} is held until {at}: {wait.message or 'a limit of the provider'}"
        self._tell(Notification("held", view.job, text, view.updated_utc, lane=name, until_utc=until_utc))

    def _look_at_budget(self, view: View, name: str, spent: float, most: float) -> None:
        if not most or spent < MOST_OF_BUDGET * most:
            self._budgets_told.discard(name)  # It may have been raised.
        elif name not in self._budgets_told:
            self._budgets_told.add(name)
            whose = f"of the budget of {name}" if name else "of the budget"
            text = f"{view.job}: {100.0 * spent / most:.0f} % {whose} is spent: ${spent:.2f} of ${most:.2f}"
            self._tell(Notification("budget", view.job, text, view.updated_utc))

    def _tell(self, notification: Notification) -> None:
        self._send(msgspec.structs.replace(notification, totals=self.totals))


def end_of(
    job: str, state: str, exit_code: int, totals: ProgressTotals | None, error: str = ""
) -> Notification:
    """The notification of the end of a run. `error`: what ended it early."""
    text = f"{job}: {error or state}"
    if totals is not None:
        good = totals.succeeded + totals.cached
        cost = "" if not totals.cost_usd else f", ${totals.cost_usd:.2f}"
        text += f"; {good:,} of {totals.units:,} units succeeded{cost}"
    return Notification("ended", job, text, time.time(), state=state, exit_code=exit_code, totals=totals)
