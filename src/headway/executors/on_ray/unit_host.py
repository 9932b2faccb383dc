"""The actor on a node. It starts with the first message, runs what it is told, and reports what happens.

It ends itself, with all that it started, when it has heard nothing for a while: the machine that runs Headway is gone, or cannot be
reached, and has given its units to other nodes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any, Final

from headway import __version__
from headway.executors.on_ray.messages import (
    Ended,
    Event,
    HostReady,
    HostSetup,
    News,
    Orders,
    PoolSetup,
    PoolTask,
    Process,
    ProgramEnded,
    ProgramLine,
    ProgramTask,
    decode_orders,
    decode_setup,
)
from headway.executors.worker_protocol import encode_message

#: How long the news that a unit began may wait for more news: short units end within that time.
LINGER_S: Final = 0.02
#: How often it looks whether it is still wanted.
LOOK_S: Final = 0.5
#: The most bytes of lines in one answer.
MOST_LINES: Final = 1024 * 1024
#: How long everything may take to end.
END_S: Final = 5.0
#: News that is told at once.
_URGENT: Final = (Ended, ProgramEnded, ProgramLine)


class UnitHost:
    """A host. Ray calls its methods on one event loop."""

    def __init__(self) -> None:
        self._work: Any = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        #: Numbers that were cancelled before they came.
        self._cancelled: set[int] = set()
        self._unsent: list[Event] = []
        self._waiting: tuple[int, asyncio.Future[None]] | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._part = 0
        self._heard_at = time.monotonic()
        self._patience_s = 0.0
        self._watch: asyncio.Task[None] | None = None

    async def set_up(self, message: bytes) -> bytes:
        """The first call."""
        node, address = _place()

        def ready(why: str = "", *, is_setup: bool = False) -> bytes:
            return encode_message(HostReady(node, address, os.getpid(), why, is_setup))

        try:
            setup = decode_setup(message)
        except Exception:  # Another version has other messages.
            return ready(f"Headway {__version__} is installed there", is_setup=True)
        if setup.version != __version__:
            return ready(f"Headway {__version__} is installed there", is_setup=True)
        try:
            os.environ.update(setup.environ)
            self._work = self._make_work(setup)
            why = await self._work.prepare()
        except Exception as error:
            return ready(f"{type(error).__name__}: {error}")
        return ready(why)

    def _make_work(self, setup: HostSetup) -> Any:
        from headway.executors.on_ray.host_tasks import PoolWork, ProgramWork
        from headway.executors.on_ray.paths import PathMap

        paths = PathMap(setup.root if setup.travels else "", os.getcwd())
        if not setup.travels and os.path.isdir(setup.root):
            os.chdir(setup.root)
        if isinstance(setup.work, PoolSetup):
            return PoolWork(paths.setup(setup.work, setup), setup.units, self._tell)
        return ProgramWork(setup.work, paths, self._tell)

    async def exchange(self, message: bytes) -> bytes:
        """Take orders, and answer with news as soon as there are any."""
        orders = decode_orders(message)
        loop = asyncio.get_running_loop()
        self._heard_at, self._patience_s = time.monotonic(), orders.patience_s
        if self._watch is None:
            self._watch = loop.create_task(self._watch_owner())
        if self._waiting is not None and self._waiting[0] < orders.number:
            self._answer_now()
        self._take(orders)
        told, _ = self._sorted(orders)
        if orders.wait_s and not any(isinstance(event, _URGENT) for event in told):
            if told:
                self._answer_soon(LINGER_S)
            wait = loop.create_future()
            self._waiting = (orders.number, wait)
            await asyncio.wait((wait,), timeout=orders.wait_s)
            self._waiting = None if self._waits_in(wait) else self._waiting
        self._heard_at = time.monotonic()
        return encode_message(self._news(orders))

    def _waits_in(self, wait: asyncio.Future[None]) -> bool:
        return self._waiting is not None and self._waiting[1] is wait

    async def close(self) -> bytes:
        """Cancel what runs, end every process, and return the last news."""
        await self._end_all()
        self._answer_now()
        return encode_message(self._news(Orders(0, 0.0, 0.0)))

    # -- orders -----------------------------------------------------------------------------------------------------

    def _take(self, orders: Orders) -> None:
        loop = asyncio.get_running_loop()
        for task in orders.tasks:
            self._tasks[task.number] = loop.create_task(self._run(task))
        for number in orders.cancel:
            if (running := self._tasks.get(number)) is not None:
                loop.call_soon(running.cancel)  # Only once it has begun: otherwise it would have no end.
            else:
                self._cancelled.add(number)
        for number in orders.over:
            self._work.over(number)

    async def _run(self, task: PoolTask | ProgramTask) -> None:
        try:
            if task.number in self._cancelled:
                raise asyncio.CancelledError
            end = await self._work.run(task)
        except asyncio.CancelledError:
            end = _cancelled_end(task)
        except Exception as error:  # A bug here must not leave the unit without an end.
            end = _broken_end(task, error)
        self._tasks.pop(task.number, None)
        self._cancelled.discard(task.number)
        self._tell(end)

    # -- news -------------------------------------------------------------------------------------------------------

    def _tell(self, event: Event) -> None:
        self._unsent.append(event)
        if isinstance(event, _URGENT):
            self._answer_soon(0.0)
        elif self._linger is None:
            self._answer_soon(LINGER_S)

    def _answer_soon(self, after_s: float) -> None:
        """Let the waiting call return: at once after this turn of the loop, so that what happens together is told together."""
        if self._linger is not None:
            self._linger.cancel()
        self._linger = asyncio.get_running_loop().call_later(after_s, self._answer_now)

    def _answer_now(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting[1].done():
            waiting[1].set_result(None)

    def _sorted(self, orders: Orders) -> tuple[list[Event], list[Event]]:
        """What is told now, in its order, and what is kept: lines for which there is no room, and what follows them in their unit."""
        told: list[Event] = []
        kept: list[Event] = []
        held: set[int] = set()
        left = MOST_LINES if orders.room else 0
        for event in self._unsent:
            number = 0 if isinstance(event, Process) else event.number
            if isinstance(event, ProgramLine) and left <= 0:
                held.add(number)
            if isinstance(event, ProgramLine):
                left -= len(event.line)
            (kept if number in held else told).append(event)
        return told, kept

    def _news(self, orders: Orders) -> News:
        self._part += 1
        told, self._unsent = self._sorted(orders)
        if size := sum(len(event.line) for event in told if isinstance(event, ProgramLine)):
            self._work.sent(size)
        return News(self._part, told)

    # -- the end ----------------------------------------------------------------------------------------------------

    async def _watch_owner(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if self._patience_s and time.monotonic() - self._heard_at > self._patience_s:
                try:
                    await asyncio.wait_for(self._end_all(), END_S)
                finally:
                    os._exit(1)  # The guardians kill what is left.

    async def _end_all(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=END_S)
        if self._work is not None:
            await self._work.close()


def _place() -> tuple[str, str]:
    """The node's id and address."""
    import ray

    util: Any = ray.util
    return ray.get_runtime_context().get_node_id(), str(util.get_node_ip_address())


def _cancelled_end(task: PoolTask | ProgramTask) -> Event:
    return Ended(task.number, None) if isinstance(task, PoolTask) else ProgramEnded(task.number, {}, None)


def _broken_end(task: PoolTask | ProgramTask, error: Exception) -> Event:
    from headway.core.model import Kind, Outcome
    from headway.executors.work_result import WorkResult

    text = f"the host on the node failed: {type(error).__name__}: {error}"
    sys.stderr.write(f"{text}\n")
    if isinstance(task, PoolTask):
        return Ended(task.number, WorkResult("crash", outcome=Outcome(Kind.CRASH, message=text)))
    return ProgramEnded(task.number, {}, (0, text, ""))
