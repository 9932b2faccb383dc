"""Writes a job's output file while the job runs, in a thread, one step at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headway.engine.observer import Observer, View
from headway.errors import OutputClosed
from headway.jobs.base import JobOutput
from headway.stores.records import Job, JobEvent, UnknownOutcome


class OutputObserver(Observer):
    """Feeds a `JobOutput` with what the engine reports. A failure stops the writing, not the run."""

    def __init__(self, output: JobOutput, has_begun: Callable[[], None] = lambda: None) -> None:
        self._output, self._has_begun = output, has_begun
        self._step: asyncio.Future[None] | None = None
        self.failure: Exception | None = None
        self._stop: Callable[[], None] | None = None
        #: Outputs that were replaced and are still open.
        self._replaced: list[JobOutput] = []

    def when_closed(self, stop: Callable[[], None]) -> None:
        """Call `stop` once if the reader of the results has gone: the rest is not wanted."""
        self._stop = stop

    def restart(self, new_output: Callable[[], JobOutput]) -> Callable[[], None]:
        """Units that had ended run again: another output keeps only what is still right. It is made and looks here, in any thread; what is
        returned puts it in its place, on the loop and before the units start.
        """
        made: list[JobOutput] = []

        def make() -> None:
            made.append(new_output())
            made[0].look()

        self._guarded(make)
        return lambda: self._continue_with(made)

    def _continue_with(self, outputs: list[JobOutput]) -> None:
        for output in outputs:
            self._replaced.append(self._output)
            self._output = output

    def _replace(self) -> None:
        while self._replaced:
            self._replaced.pop(0).close()
        self._output.open()

    def began(self, job: Job, unknown: list[UnknownOutcome]) -> None:
        self._guarded(self._output.look)
        self._has_begun()
        self._later(self._output.open)

    def noted(self, event: JobEvent) -> None:
        """Events are not written to the output."""

    def ended(self, indexes: list[int]) -> None:
        self._output.ended(indexes)

    def moved(self, view: View) -> None:
        if isinstance(self.failure, OutputClosed) and self._stop is not None:
            self._stop()
            self._stop = None
        if self._step is None or self._step.done():
            self._later(self._replace if self._replaced else self._output.advance)

    def _later(self, act: Callable[[], None]) -> None:
        if self.failure is None:
            self._step = asyncio.get_running_loop().run_in_executor(None, self._guarded, act)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # Any kind: a run without its output must not end as a success.
            self.failure = self.failure or error

    async def leave(self) -> None:
        """Write nothing more: another process writes the output now."""
        if self._step is not None:
            await self._step
        self._output.close()

    async def finish(self) -> None:
        """The last step. Raises the first failure, after everything is safe in the store."""
        if self._step is not None:  # None: the run never began.
            await self._step
            if self.failure is None and self._replaced:
                await asyncio.to_thread(self._guarded, self._replace)
            if self.failure is None:
                await asyncio.to_thread(self._guarded, self._output.finish)
        for output in (*self._replaced, self._output):
            output.close()
        if self.failure is not None:
            raise self.failure
