"""`isolation="process"`: calls in worker processes. A callable that kills its process fails one attempt of one item."""

from __future__ import annotations

import multiprocessing  # noqa: F401 - makes what lives in the script known as __mp_main__, as workers call it
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from headway.api.call_errors import as_exception
from headway.api.pickling import Packer
from headway.core.model import Kind, Outcome
from headway.engine.calls import SubmittedCall
from headway.errors import UsageError
from headway.executors.attempt_details import details_of, encode_details
from headway.executors.entry_point import GUARD, EntryPoint, entry_name
from headway.executors.limit_evidence import LimitDetector
from headway.executors.process_pool import ProcessPool
from headway.executors.python_adapter import MakePool
from headway.executors.work_result import WorkResult
from headway.executors.worker_entry import RetryOn, serve_calls
from headway.providers.attempt_log import WorkerWatcher
from headway.providers.error_messages import describe_exception
from headway.providers.scrubber import Scrubber


class ProcessCalls:
    """Runs a callable in worker processes. With `scrub`, the output of calls is recorded, without secrets."""

    def __init__(
        self,
        call: Callable[[Any], Any],
        workers: int,
        retry_on: RetryOn,
        *,
        give_up: Callable[[Exception], None],
        scrub: Scrubber | None,
        recycle_after: int,
        memory_ceiling: int,
        memory_limit: int,
        detector: LimitDetector,
        env: tuple[str, ...] | None,
        make_pool: MakePool | None = None,
    ) -> None:
        self._packer = Packer()
        given = self._packer.pack((call, retry_on), "callable")
        self._give_up, self._scrub = give_up, scrub
        work = EntryPoint(entry_name(serve_calls), given, main=True)
        make = make_pool or (lambda entry, **settings: ProcessPool(entry, workers, **settings))
        self._pool = make(
            work,
            recycle_after=recycle_after,
            memory_ceiling=memory_ceiling,
            memory_limit=memory_limit,
            detector=detector,
            env=env,
        )

    @property
    def hosts(self) -> Any:
        """What says how many calls can run on a cluster (`engine.sharing.cluster_places`); None: they run on this machine."""
        return getattr(self._pool, "hosts", None)

    def watch(self, watcher: WorkerWatcher) -> None:
        """Tell `watcher` of every process and its end."""
        self._pool.watch(watcher)

    async def attempt(
        self, item: Any, flight: SubmittedCall, timeout_s: float, began: Callable[[int], None] | None = None
    ) -> Outcome:
        """Make one attempt; the flight gets its value or error. `began` is called with the process that runs it."""
        try:
            payload = self._packer.pack(item)
        except UsageError as error:
            flight.error = error
            return Outcome(Kind.INVALID, message=error.message)
        ran = await self._pool.run(payload, timeout_s, fresh=flight.alone, began=began)
        flight.usage, flight.rate_limit = ran.outcome.usage, ran.rate_limit
        if self._scrub is not None:
            flight.details = await encode_details(details_of(ran, self._scrub), self._scrub)
        if ran.end == "value":
            return self._value(ran, flight)
        if ran.outcome.kind is Kind.AUTH and not self._pool.proven:
            self._give_up(
                UsageError(
                    f"the callable cannot be run in a worker process: {ran.outcome.message}",
                    hint=_hint(ran.outcome.message),
                )
            )
        flight.error = _error(ran)
        return ran.outcome

    def _value(self, ran: WorkResult, flight: SubmittedCall) -> Outcome:
        try:
            flight.value = pickle.loads(ran.value)
        except Exception as error:
            flight.error = error
            text = f"its result cannot be recreated here: {describe_exception(error)}"
            return Outcome(Kind.INVALID, ran.outcome.usage, message=text)
        return ran.outcome

    async def close(self) -> None:
        """End every process."""
        await self._pool.close()


def _hint(why: str) -> str | None:
    """A hint for workers that cannot start."""
    if GUARD in why or "Ray" in why:
        return None  # The message says what to do.
    if "AttributeError" in why and "'__mp_main__'" in why:
        return 'a worker imports the script without what is below if __name__ == "__main__": define it above that'
    return 'fix what its module imports, or use isolation="thread"'


def _error(ran: WorkResult) -> BaseException | None:
    """The exception from the worker, with its traceback there; None if the worker died."""
    if ran.end == "timeout":
        return TimeoutError(ran.outcome.message)
    if not ran.error:
        return None
    try:
        error = pickle.loads(ran.error)
    except Exception:
        return None
    if not isinstance(error, BaseException):
        return None
    error = as_exception(error)
    with suppress(Exception):  # The exception's class may refuse notes.
        error.add_note(f"In a worker process:\n{ran.trace}")
    return error
