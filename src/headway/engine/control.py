"""Commands from other terminals: `headway pause`, `resume`, `cancel`, `retry`, `budget`, `lanes --set` and `lanes --reopen`.

The engine reads them from the store. A command stays open there until the batch with its effect is committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from headway.core import events
from headway.core.model import LaneLimits
from headway.core.scheduler import Scheduler
from headway.engine.recorder import Recorder
from headway.stores.records import ControlRequest

#: Carries out a command that takes a while: gets its arguments, and a function that reports the result.
Later = Callable[[dict[str, Any], Callable[[str], None]], None]


class RunControl:
    """Carries out the commands for one run, each once.

    `apply` gives an event to the scheduler at once; `pause` releases what is about to start; `say` reports to observers.
    """

    def __init__(
        self,
        recorder: Recorder,
        scheduler: Scheduler,
        *,
        apply: Callable[[events.Event], None],
        pause: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self._recorder, self._scheduler = recorder, scheduler
        self._apply, self._pause, self._say = apply, pause, say
        self._done: set[int] = set()
        self._others: dict[str, Later] = {}
        #: Whether a command has cancelled the job.
        self.cancelled = False

    def carry_out(self, requests: list[ControlRequest]) -> None:
        """Carry out those of the open commands that are new."""
        for request in requests:
            if request.id not in self._done:
                self._done.add(request.id)
                text = self._result_of(request)
                if text is not None:
                    self._report(request.id, text)

    def add(self, what: str, carry_out: Later) -> None:
        """Carry out a further command with this function."""
        self._others[what] = carry_out

    def _report(self, request: int, text: str) -> None:
        self._say(text)
        self._recorder.batch.done_commands.append((request, time.time()))

    def _result_of(self, request: ControlRequest) -> str | None:
        """Carry out one command; one that cannot be understood changes nothing. Returns what to report; None: that follows."""
        try:
            if request.what in self._others:
                self._others[request.what](request.args, partial(self._report, request.id))
                return None
            return self._carry_out(request)
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            return f"'{request.what}' was not understood: {error}"

    def _carry_out(self, request: ControlRequest) -> str:
        if request.what == "pause":
            self._apply(events.Pause())
            self._pause()
            self._recorder.batch.state = ("paused", None)
            if flying := len(self._scheduler.out):
                return f"pause: {flying:,} in flight {'finishes' if flying == 1 else 'finish'}, no more start"
        elif request.what == "resume":
            self._apply(events.Resume())
            self._recorder.batch.state = ("running", None)
        elif request.what == "cancel":
            self.cancelled = True
            self._apply(events.Abort("cancel"))
        elif request.what == "limits":
            return self._set_limits(request.args)
        elif request.what == "budget":
            return self._set_budget(request.args["max_cost_usd"])
        elif request.what == "reopen":
            return self._reopen(request.args)
        return request.what

    def _set_limits(self, args: dict[str, Any]) -> str:
        keys = self._keys_of(args["lane"])
        for key in keys:
            limits = msgspec.structs.asdict(self._scheduler.lanes[key].limits.settings)
            self._apply(events.SetLimits(key, msgspec.convert({**limits, **args["limits"]}, LaneLimits)))
        new = ", ".join(f"{name} {value:,.10g}" for name, value in args["limits"].items())
        return f"{args['lane']}: {new}" if keys else f"there is no lane '{args['lane']}'"

    def _set_budget(self, max_cost_usd: float) -> str:
        cap = msgspec.convert(max_cost_usd, float)
        self._apply(events.SetBudget(max(0.0, cap)))
        return f"budget: ${cap:,.10g}" if cap > 0.0 else "budget: no cap"

    def _reopen(self, args: dict[str, Any]) -> str:
        keys = self._keys_of(args["lane"])
        for key in keys:
            self._apply(events.ReopenLane(key))
        if any(self._scheduler.lanes[key].breaker.open for key in keys):
            return f"{args['lane']} reopened: one request goes first, the others follow if it succeeds"
        return f"{args['lane']} reopened" if keys else f"there is no lane '{args['lane']}'"

    def _keys_of(self, name: str) -> list[str]:
        return [lane.key for lane in self._recorder.lanes.values() if name in (lane.name, lane.key)]
