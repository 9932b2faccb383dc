"""`headway.WorkerPool`: a pool of workers for units that the program submits, with a record of each step.

The interface is the seed's: `submit_work_unit` returns False if every worker is busy, callbacks get the ends, `stop` lets what
runs finish. Its methods may be called from any thread. `pool_loop` does the work, with the lanes and records of everything else.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from os import PathLike
from typing import Any

from headway.api.interrupts import say
from headway.api.job_names import check_name, identity_of_pool
from headway.api.mapping.changed_items import UNITS, ChangedItems
from headway.api.mapping.map_options import detector_of, record_path
from headway.api.pool.pool_loop import Callback, PoolLoop, PoolSettings, log_fault
from headway.api.pool.pool_state import PoolState, PoolUnit
from headway.api.pool.work_units import Worker, view_of
from headway.config.argument_checks import (
    must_be_function,
    must_be_number,
    must_be_recordable,
    must_be_text,
    must_be_whole,
)
from headway.config.call_settings import Duration, Retry, retry_of, seconds
from headway.errors import UsageError
from headway.runtime.loops import Background
from headway.runtime.signals import wait_thread


class WorkerPool:
    """Runs `max_workers` units at once. With a `store` (a file) every step is recorded and finished units stay finished.

    `on_unit_complete(unit, result)` and `on_unit_failed(unit, result)` are called once for every unit that is submitted and
    ends. That includes units that an earlier run has finished: `on_unit_complete` is called again with the recorded result.

    A rate limit is found in what a worker raises or reports, in its output files, in log files that match `failure_logs`,
    and by `limit_exit_codes` of the programs that it ran. It holds the pool, and its unit is tried again.

    >>> import headway
    >>> class Shout:
    ...     def execute(self, prompt, payload, timeout):
    ...         return headway.WorkerResult(success=True, output=prompt.upper())
    >>> with headway.WorkerPool(Shout(), on_unit_complete=lambda unit, result: print(result.output)) as pool:
    ...     pool.submit_work_unit(headway.WorkUnit("greeting"), "hello")
    ...     pool.wait_for_completion()
    True
    HELLO
    True
    """

    def __init__(
        self,
        worker: Worker,
        job_id: str | None = None,
        store: str | PathLike[str] | None = None,
        max_workers: int = 4,
        timeout: Duration = "10m",
        on_unit_complete: Callback | None = None,
        on_unit_failed: Callback | None = None,
        *,
        retry: Retry | None = None,
        failure_logs: str | PathLike[str] | None = None,
        limit_exit_codes: Iterable[int] = (),
        renamed_from: str | None = None,
    ) -> None:
        if isinstance(worker, type):
            raise UsageError(f"worker is the class {worker.__name__}", hint=f"make one: {worker.__name__}(…)")
        if not callable(getattr(worker, "execute", None)):
            raise UsageError(
                f"worker is a {type(worker).__name__} without execute",
                hint="it needs a method execute(prompt, payload, timeout) that returns a WorkerResult",
            )
        must_be_whole(max_workers, "max_workers", 1, "use a whole number, 1 or more")
        must_be_text(job_id, "job_id", "use a string: the name of the job in the store")
        check_name(job_id, "job_id")
        must_be_text(renamed_from, "renamed_from", "use a string: what the worker's class was called")
        must_be_recordable(renamed_from or "", "renamed_from")
        for name, callback in (("on_unit_complete", on_unit_complete), ("on_unit_failed", on_unit_failed)):
            must_be_function(callback, name, f"use a function of two arguments: {name}(unit, result)")
        self._settings = PoolSettings(
            worker,
            identity_of_pool(worker, job_id or "", renamed_from or ""),
            record_path(store, "store"),
            max_workers,
            seconds(timeout, "timeout"),
            retry_of(retry, Retry(max_attempts=1)),
            detector_of(failure_logs, limit_exit_codes),
            on_unit_complete,
            on_unit_failed,
        )
        self._state = PoolState(max_workers)
        self._background = Background()
        self._loop: PoolLoop | None = None
        #: The thread that ends a pool which was stopped from inside, and what went wrong there.
        self._ender: threading.Thread | None = None
        self._end_fault: BaseException | None = None
        self._interrupted = False
        #: Made here, where the caller's line is known.
        self._changes = ChangedItems(UNITS)

    # -- from any thread ----------------------------------------------------------------------------------------

    def __enter__(self) -> WorkerPool:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the pool. The same job in the same store continues where it stopped."""
        if self._state.running:
            return
        if self._ender is not None:
            if self._is_inside():
                raise UsageError("the pool is stopping", hint="start it again once stop() has ended it")
            self._join_ender()
        self._interrupted, self._state.failure = False, None  # Of an earlier start.
        self._background = Background().__enter__()
        try:
            self._loop = self._background.make(lambda: PoolLoop(self._settings, self._state, self._changes))
        except BaseException:
            self._background.__exit__(None, None, None)
            raise
        self._state.running = True

    def submit_work_unit(self, unit: Any, prompt: str) -> bool:
        """Submit a unit; False if every worker is busy. A unit that waits for another attempt keeps no worker busy.

        A unit is a `WorkUnit`, a mapping or an object with an `id` (and a `payload`), or just its id. A unit that is on record
        as succeeded does not run again: its callback gets the recorded result.
        """
        view = view_of(unit)
        if self._settings.store is not None:
            must_be_recordable(view.id, "the id")
        if not self._state.admit(view.id):
            return False
        work, loop = PoolUnit(unit, view, prompt), self._loop
        assert loop is not None
        self._background.soon(lambda: loop.submit(work))
        return True

    def wait_for_available_slot(self, timeout: float | None = None) -> bool:
        """Wait until a unit can be submitted; False if that took too long.

        After True, the next unit is accepted, even if a unit that waited for another attempt gets the worker first. Called by
        `execute` or a callback, it is also False if everything that is under way waits as this call does.
        """
        free = self._wait("wait_for_available_slot", self._state.has_slot, timeout)
        return self._state.offer(free=free)

    def wait_for_completion(self, timeout: float | None = None) -> bool:
        """Wait until nothing is under way and every callback has returned; False if that took too long.

        Called by `execute` or a callback, it does not wait for callers that wait as this call does.
        """
        idle = self._wait("wait_for_completion", self._state.is_idle, timeout)
        if self._state.failure is not None:
            raise self._state.failure
        return idle

    def stop(self) -> None:
        """Accept nothing more, let what runs finish, and end. A first Ctrl-C prints that; the second cancels what runs.

        Called by `execute` or a callback, it returns at once, and the pool ends when the last of them has returned; a
        `stop()` from outside waits for that.
        """
        inside = self._is_inside()
        was_running = self._state.stop_running(self._start_ender if inside else None)
        if not was_running and self._ender is None:
            return
        if inside:
            return
        came = self._wait_out()
        if self._ender is None:
            self._end()
        else:
            self._join_ender()
        if came:
            raise KeyboardInterrupt

    def _start_ender(self) -> None:
        self._ender = threading.Thread(target=self._end_later, name="headway-stop")
        self._ender.start()

    def _end(self) -> None:
        assert self._loop is not None
        try:
            self._background.result(self._loop.close(interrupted=self._interrupted))
        finally:
            self._background.__exit__(None, None, None)
        self._changes.warn()

    def _end_later(self) -> None:
        try:
            self._wait_out()
            self._end()
        except BaseException as error:  # Raised by the next stop() or start(), if there is one.
            log_fault("a worker pool that was stopped from inside ended with an error", error)
            self._end_fault = error

    def _join_ender(self) -> None:
        ender, self._ender = self._ender, None
        if ender is not None:
            wait_thread(ender)
        fault, self._end_fault = self._end_fault, None
        if fault is not None:
            raise fault

    # -- from inside ----------------------------------------------------------------------------------------------

    def _is_inside(self) -> bool:
        return self._background.here or self._state.callers.here() is not None

    def _wait(self, name: str, ready: Callable[[], bool], timeout: float | None) -> bool:
        timeout_s = _wait_s(timeout)
        if self._background.here:
            raise UsageError(
                f"{name}() would block the event loop of its own pool",
                hint=f"await asyncio.to_thread(pool.{name})",
            )
        return self._state.wait(ready, timeout_s)

    def _wait_out(self) -> bool:
        """Wait until nothing is under way; returns whether a Ctrl-C came meanwhile. A KeyboardInterrupt that led here does not count."""
        outside = isinstance(sys.exception(), KeyboardInterrupt)
        times, acted = int(outside), 0
        while True:
            try:
                while acted < times:  # Inside the try: the next Ctrl-C may come before this one is handled.
                    acted += 1
                    self._interrupt(cancel=acted == 2)
                self._state.wait_until_idle()
                return times > 0 and not outside
            except KeyboardInterrupt:
                times += 1
                if times > 2:
                    raise

    def _interrupt(self, *, cancel: bool) -> None:
        self._interrupted = True
        if cancel and self._loop is not None:
            self._background.soon(self._loop.cancel)
        elif self._state.active:
            say(self._state.active, "unit")

    @property
    def active(self) -> int:
        """Units that are under way."""
        return self._state.active


def _wait_s(timeout: float | None) -> float | None:
    """A timeout in seconds, within what a lock accepts."""
    if timeout is None:
        return None
    must_be_number(timeout, "timeout", "use seconds, 0 or more; None waits without limit")
    return min(timeout, threading.TIMEOUT_MAX)
