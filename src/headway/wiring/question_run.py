"""Runs a question as a job of its own: recorded like any job, without an output file, and cancelled by the first Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from headway.batch.intake import RowIntake
from headway.config import Config
from headway.engine.engine import Engine
from headway.engine.observer import Observer
from headway.engine.run_result import RunResult
from headway.engine.run_spec import AttemptListener
from headway.jobs.base import IngestOptions, OutputOptions
from headway.questions.job_kinds import ASK
from headway.questions.question import Question
from headway.runtime.loops import usual_loop
from headway.runtime.signals import stop_signals
from headway.stores.records import Job, NewJob
from headway.stores.store import Store
from headway.wiring.run_execution import EXIT_CODES
from headway.wiring.run_plan import RunFlags, check_route, plan_of
from headway.wiring.store_access import job_folder, job_lock, open_store, same_store


class AnswerReader(Observer, AttemptListener, Protocol):
    """Shows the answers of a question while they arrive. `cancel` ends the question when the reader of its answers has gone."""

    cancel: Callable[[], None]


@contextmanager
def recorded(config: Config, question: Question, warn: Callable[[str], None]) -> Iterator[tuple[Store, Job]]:
    """The job of a question, with its lock. A question that is never sent is not recorded."""
    with open_store(config) as store:
        name = f"{ASK}-{question.digest[:10]}"
        form = (
            {}
            if question.request_options.schema is None
            else {"schema": msgspec.json.decode(question.request_options.schema)}
        )
        new = NewJob(name, ASK, question.name, question.digest, "", time.time(), form)
        check = check_route(config, os.environ)
        with job_lock(config, name, store):
            try:
                with store.one_commit():
                    added = store.add_job(new)
                    RowIntake(store, config, question, added, IngestOptions(warn=warn), check).run()
                job = store.job(name)
                assert job is not None
                yield store, job
            except BaseException:
                left = store.job(name)
                if left is not None and left.started_utc is None:
                    store.forget(left.id)
                raise
            finally:
                _remove_folder(config, name)


def _remove_folder(config: Config, name: str) -> None:
    """Remove the folder of a question: it has only the lock, and a question is never run again."""
    shutil.rmtree(job_folder(config, name), ignore_errors=True)


def run_question(config: Config, store: Store, job: Job, reader: AnswerReader) -> RunResult:
    """Send the question and wait for its answers."""
    flags = RunFlags(OutputOptions(Path()), taken_utc=time.time(), listener=reader)
    plan = msgspec.structs.replace(plan_of(config, store, job, flags, os.environ), out="")
    engine = Engine(lambda: same_store(config, store), plan, [reader])

    async def main() -> RunResult:
        for check in plan.checks:
            await check()
        reader.cancel = partial(_cancel, engine)
        _cancel_on_signals(engine)
        return await engine.run()

    with asyncio.Runner(loop_factory=usual_loop) as runner:
        return runner.run(main())


def _cancel(engine: Engine) -> None:
    """Cancel what is in flight, at once."""
    engine.interrupt()
    engine.interrupt()


def _cancel_on_signals(engine: Engine) -> None:
    """The first signal cancels the question, the second one exits. A closed terminal sends SIGHUP twice."""
    signals = 0

    def interrupted(number: int) -> None:
        nonlocal signals
        if number == signal.SIGHUP and signals:
            return
        signals += 1
        if signals > 1:
            os._exit(EXIT_CODES["interrupted"])
        _cancel(engine)

    loop = asyncio.get_running_loop()
    for number in stop_signals():
        loop.add_signal_handler(number, interrupted, number)
