"""Runs the job of a frame in a program: with a progress bar, and stopped by Ctrl-C like every run of a program."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

import msgspec

from headway.api.interrupts import Interrupts
from headway.api.progress_bar import watching
from headway.core.snapshot import Snapshot
from headway.engine.engine import Engine
from headway.engine.observer import Observer, View
from headway.engine.run_result import RunResult
from headway.engine.run_spec import RunSpec
from headway.runtime.loops import Background, in_a_loop, run_here
from headway.stores.records import Job, JobEvent, UnknownOutcome
from headway.stores.store import Store


class FrameRun(Observer):
    """One run. It observes its engine for the progress bar."""

    def __init__(self, open_store: Callable[[], Store], plan: RunSpec, progress: bool | None) -> None:
        self.loop = asyncio.get_running_loop()
        self._plan, self._progress = plan, progress
        self._engine = Engine(open_store, plan, [self])
        self._view: View | None = None
        self._watch = ExitStack()
        self._interruptions = 0

    async def result(self, interrupts: Interrupts) -> RunResult:
        """Run to the end."""
        for check in self._plan.checks:
            await check()
        with self._watch:
            ending = await self._engine.run()
        await interrupts.others()
        return ending

    def interrupt(self, *, cancel: bool = False) -> None:
        """Start nothing more; `cancel` also ends what is in flight."""
        while self._interruptions < (2 if cancel else 1):
            self._interruptions += 1
            self._engine.interrupt()

    # -- for the bar and for Ctrl-C -----------------------------------------------------------------------------

    @property
    def calls(self) -> FrameRun:
        """What has the lanes: the run itself."""
        return self

    @property
    def lanes(self) -> Snapshot:
        """The lanes as of half a second ago, with the names that people know."""
        assert self._view is not None
        view = self._view
        named = [msgspec.structs.replace(lane, key=view.names[lane.key]) for lane in view.snapshot.lanes]
        return msgspec.structs.replace(view.snapshot, lanes=tuple(named))

    @property
    def ends(self) -> int:
        """How many rows have ended."""
        return 0 if self._view is None else self._view.ended

    @property
    def failures(self) -> int:
        """How many of them have no answer."""
        if self._view is None:
            return 0
        return self.ends - self._view.counts["succeeded"] - self._view.counts["cached"]

    @property
    def in_flight(self) -> int:
        """How many requests are under way."""
        return 0 if self._view is None else self._view.snapshot.in_flight

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self.in_flight > 0

    # -- what the engine tells ----------------------------------------------------------------------------------

    def began(self, job: Job, unknown: list[UnknownOutcome]) -> None:
        """Do nothing: the bar begins with the first view."""

    def noted(self, event: JobEvent) -> None:
        """Do nothing: waits are shown by the bar."""

    def ended(self, indexes: list[int]) -> None:
        """Do nothing: the next view counts them."""

    def moved(self, view: View) -> None:
        """Keep the view; the first one begins the bar."""
        is_first, self._view = self._view is None, view
        if is_first and (watch := watching(self, range(view.total), self._progress)) is not None:
            self._watch.enter_context(watch)


def run_to_end(open_store: Callable[[], Store], plan: RunSpec, progress: bool | None) -> RunResult:
    """Run a job, in a script or in a notebook. Raises KeyboardInterrupt after Ctrl-C."""
    if in_a_loop():
        with Background() as background:
            run = background.make(lambda: FrameRun(open_store, plan, progress))
            with Interrupts(run) as interrupts:
                return background.wait(run.result(interrupts), interrupts)

    async def here() -> RunResult:
        run = FrameRun(open_store, plan, progress)
        with Interrupts(run) as interrupts:
            return await run.result(interrupts)

    return run_here(here)
