"""Carries out a planned run with signal handlers, displays and the output file, or rewrites the output without a run."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from headway.config import Config
from headway.core.unit_states import Status
from headway.display.formatting import units
from headway.display.progress_file import ProgressFile
from headway.engine.engine import Engine
from headway.engine.observer import Display, Observer
from headway.engine.run_result import RunResult
from headway.engine.run_spec import RunSpec
from headway.errors import HeadwayError, JobTaken, StoreAway
from headway.jobs.base import JobOutput, OutputOptions
from headway.jobs.kinds import file_kind_of
from headway.runtime.garbage_collection import collect_rarely
from headway.runtime.signals import stop_signals
from headway.stores.records import Job
from headway.stores.run_error import clear_run_error, record_run_error
from headway.stores.store import Store
from headway.wiring.agent_work import collected_files
from headway.wiring.output_observer import OutputObserver
from headway.wiring.report_files import output_of_kind
from headway.wiring.run_plan import RunFlags, baseline, more_outputs, plan_of, safe_cells, text_only
from headway.wiring.run_stores import RunStores
from headway.wiring.store_access import job_folder, open_store, same_store

_STOPPING: Final = "stopping: no new units start, units in flight finish (press Ctrl-C again to cancel them)"
_CANCELLING: Final = "cancelling the units in flight (press Ctrl-C once more to exit at once)"

EXIT_CODES: Final = {
    "complete": 0,
    "failed": 1,
    "stopped": 1,
    "deadline": 3,
    "budget": 3,
    "parked": 4,
    "interrupted": 130,
    "cancelled": 130,
}


def _output_options(config: Config, job: Job, flags: RunFlags) -> OutputOptions:
    """Where and how results are written."""
    return msgspec.structs.replace(
        flags.output,
        safe_cells=safe_cells(job, flags),
        text_only=text_only(job, flags),
        more=more_outputs(job, flags),
        baseline=baseline(job, flags),
        collected=collected_files(config, job.name),
    )


def rewrite(config: Config, job: Job, flags: RunFlags) -> None:
    """Write the output of a job from the store, without a run."""
    kind, options = file_kind_of(job), _output_options(config, job, flags)
    if options.form == "none":
        return
    with open_store(config) as store:
        kind.claim_output(options, job.name, store=store)
    output = output_of_kind(kind, lambda: open_store(config), job, options)
    try:
        output.open()
        output.finish()
    finally:
        output.close()


def run(
    config: Config,
    store: Store,
    job: Job,
    flags: RunFlags,
    watching: Sequence[Display],
    observers: Sequence[Observer] = (),
) -> RunResult:
    """Plan and carry out a run of a job, with signal handlers. The caller holds the job's lock."""
    plan = plan_of(config, store, job, flags, os.environ)
    if flags.only_units:
        rest = "what follows" if plan.grow_hands_out else "no others"
        _say_on_all(watching, f"{units(len(flags.only_units))} to run again, and {rest}")
    elif failed := _failed_before(store, job, plan.stays_ended):  # They may cost again.
        it = "it is" if failed == 1 else "they are"
        they = f"only {it}" if flags.only_failed else it
        _say_on_all(watching, f"{units(failed)} failed before: {they} tried again; what succeeded stays")
    folder = job_folder(config, job.name)
    clear_run_error(folder)
    try:
        return _perform((config, store), plan, flags, watching, observers)
    except JobTaken:
        raise  # The job belongs to another process.
    except (HeadwayError, OSError) as error:
        if isinstance(error, StoreAway):
            store.abandon()  # Whoever was waiting has been told.
        record_run_error(folder, error.message if isinstance(error, HeadwayError) else str(error))
        raise


def _failed_before(store: Store, job: Job, stay: Collection[int]) -> int:
    """How many units failed before, without those that stay so."""
    stayed = store.states(job.id, stay).values() if stay else ()
    failed = (Status.FAILED, Status.TIMED_OUT)
    return sum(job.counts[status] for status in failed) - sum(status in failed for status in stayed)


def _perform(
    place: tuple[Config, Store],
    plan: RunSpec,
    flags: RunFlags,
    watching: Sequence[Display],
    observers: Sequence[Observer],
) -> RunResult:
    """Run the job to its end. The store of the `place` has the lease of the job."""
    (config, owner), job = place, plan.job
    kind, options = file_kind_of(job), _output_options(config, job, flags)

    def open_records() -> Store:
        return same_store(config, owner)

    if options.form != "none":
        with open_records() as store:
            kind.claim_output(options, job.name, store=store)
    stores = RunStores(open_records)

    def new_output() -> JobOutput:
        return output_of_kind(kind, stores.open_for_output, job, options)

    output = new_output()
    writing = OutputObserver(output, stores.go_on)
    lease, path = owner.lease, job_folder(config, job.name) / "progress.json"
    publish = _nobody if lease is None else lease.publish
    progress = ProgressFile(path, getattr(output, "progress", dict), publish)
    engine = Engine(stores.open, plan, [writing, progress, *watching, *observers])
    writing.when_closed(engine.interrupt)
    if options.form != "stream":  # Rows on a stream cannot be taken back.
        engine.when_reopened(lambda: writing.restart(new_output))

    async def main() -> RunResult:
        for check in plan.checks:
            await check()
        _handle_signals(engine, stores, lambda text: _say_on_all(watching, text))
        try:
            ending = await engine.run()
        except JobTaken:
            await writing.leave()
            raise
        except BaseException:
            stores.abandon()  # What is in the journal is recorded and written by the next run.
            with suppress(HeadwayError):  # The error that ended the run is more useful.
                await writing.finish()
            raise
        await writing.finish()
        progress.finish()
        return ending

    collect_rarely()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main())


def _nobody(progress: bytes) -> None:
    """With a file as the store, other processes of this machine read `progress.json`."""


def _say_on_all(watching: Sequence[Display], text: str) -> None:
    """Print one line on every display."""
    for display in watching:
        display.say(text)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, if that is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _handle_signals(engine: Engine, stores: RunStores, say: Callable[[str], None]) -> None:
    """Ctrl-C once, twice, three times; SIGTERM counts as Ctrl-C.

    SIGHUP counts only as the first: when a terminal is closed, both the kernel and the shell send one.
    """
    interruptions = 0

    def interrupted(number: int) -> None:
        nonlocal interruptions
        if number == signal.SIGHUP and interruptions:
            return
        interruptions += 1
        if interruptions > 2:
            os._exit(EXIT_CODES["interrupted"])
        (stores.abandon if engine.is_over else stores.leave)()
        engine.interrupt()
        with suppress(OSError):  # After SIGHUP the terminal is gone.
            say(_STOPPING if interruptions == 1 else _CANCELLING)

    loop = asyncio.get_running_loop()
    for number in stop_signals():
        loop.add_signal_handler(number, interrupted, number)
