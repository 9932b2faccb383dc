"""One host as seen from here: sends it units, takes its news in order, and notices when it is gone.

At least one call is always at the host, so a death is reported by Ray within a moment if the machine lives, and by silence if it does
not. At most two are: units that are submitted meanwhile go together with the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from contextlib import suppress
from typing import Any, Final

from headway.executors.commands.output_lines import LineReader
from headway.executors.on_ray.messages import (
    Began,
    Ended,
    Event,
    HostReady,
    HostSetup,
    News,
    Orders,
    PoolTask,
    Process,
    ProgramEnded,
    ProgramLine,
    ProgramTask,
    decode_news,
    decode_ready,
)
from headway.executors.worker_protocol import encode_message
from headway.providers.error_messages import describe_exception

#: How long a host may wait with an answer when there is no news. Of many hosts each waits longer: their answers take our time.
WAIT_S: Final = 1.0
ANSWERS_A_SECOND: Final = 100.0
#: A host that is silent for so much longer is given up; it ends itself a little earlier. A loaded machine may be silent for seconds.
PATIENCE_S: Final = 6.0
_EARLIER_S: Final = 1.0
#: How long calls may take to return when their host has closed.
_LEAVE_S: Final = 1.0
#: Calls that are under way at once.
_CALLS: Final = 2
#: How long a cancelled unit may take to end, and a host to close.
END_S: Final = 8.0
#: The most lines that wait to be read here; then hosts send none.
MOST_LINES: Final = 2_000


class HostUnit:
    """A unit on a host. `end` is set to its last event; to None if the host is gone."""

    __slots__ = ("began", "end", "on_began", "pid", "reader", "told_over")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_began: Callable[[int], None] | None,
        reader: LineReader | None = None,
    ) -> None:
        self.end: asyncio.Future[Ended | ProgramEnded | None] = loop.create_future()
        self.on_began, self.reader = on_began, reader
        self.began = self.told_over = False
        self.pid = 0


class HostLink:
    """A host. `gone` is called once, when no unit can be sent to it any more; `process` with what happens to its processes."""

    def __init__(
        self,
        actor: Any,
        gone: Callable[[HostLink], None],
        process: Callable[[HostLink, Process], None],
        siblings: Sized = (),
    ) -> None:
        self.actor, self._siblings = actor, siblings
        self._gone, self._process = gone, process
        self._loop = asyncio.get_running_loop()
        self._units: dict[int, HostUnit] = {}
        self._tasks: list[PoolTask | ProgramTask] = []
        self._cancels: list[int] = []
        self._overs: list[int] = []
        self._number = 0
        self._due = 1
        self._early: dict[int, list[Event]] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._flush: asyncio.Handle | None = None
        self._lines: asyncio.Queue[ProgramLine | ProgramEnded] = asyncio.Queue()
        self._reader: asyncio.Task[None] | None = None
        self.ready = HostReady("", "", 0)
        #: Why it is gone; "" while it lives.
        self.lost = ""
        self._closing = False
        #: Units that it has now, and whether one of them is alone there.
        self.taken = 0
        self.used_at = self._loop.time()

    async def set_up(self, setup: HostSetup) -> HostReady:
        """Wait until the actor runs, which may take as long as the cluster is full, and until it is ready."""
        self.ready = decode_ready(await answer_of(self.actor.set_up.remote(encode_message(setup))))
        return self.ready

    def begin(self) -> None:
        """Listen from now on."""
        self._reader = self._loop.create_task(self._read_lines())
        self._call()

    # -- units ------------------------------------------------------------------------------------------------------

    def submit(self, task: PoolTask | ProgramTask, unit: HostUnit) -> None:
        """Send a unit."""
        self._units[task.number] = unit
        self._tasks.append(task)
        self._send_soon()

    async def cancel(self, number: int) -> None:
        """Cancel a unit, and wait until it has ended there. A host that does not answer is given up."""
        unit = self._units.get(number)
        if unit is None or unit.end.done():
            return
        self._cancels.append(number)
        self._send_soon()
        done, _ = await asyncio.wait((unit.end,), timeout=END_S)
        if not done:
            self._lose("it did not end a cancelled unit")

    def over(self, number: int) -> None:
        """The last line of a program has come."""
        self._overs.append(number)
        self._send_soon()

    # -- calls ------------------------------------------------------------------------------------------------------

    def _send_soon(self) -> None:
        """Send what has gathered, after this turn of the loop."""
        if self._flush is None and self._under_way < _CALLS and not (self.lost or self._closing):
            self._flush = self._loop.call_soon(self._call)

    def _call(self) -> None:
        self._flush = None
        if self.lost or self._closing:
            return
        self._number += 1
        self._under_way += 1
        wait_s = max(WAIT_S, len(self._siblings) / ANSWERS_A_SECOND)
        orders = Orders(
            self._number,
            wait_s,
            wait_s + PATIENCE_S - _EARLIER_S,
            self._lines.qsize() < MOST_LINES,
            self._tasks,
            self._cancels,
            self._overs,
        )
        self._tasks, self._cancels, self._overs = [], [], []
        call = self._loop.create_task(self._exchange(encode_message(orders), wait_s + PATIENCE_S))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _exchange(self, message: bytes, patience_s: float) -> None:
        try:
            async with asyncio.timeout(patience_s):
                news = decode_news(await answer_of(self.actor.exchange.remote(message)))
        except TimeoutError:
            self._lose(f"it did not answer for {patience_s:g} s")
            return
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._lose(death_text(error))
            return
        finally:
            self._under_way -= 1
        self._take(news)
        waiting = bool(self._tasks or self._cancels or self._overs)
        if waiting or not self._under_way:
            self._send_soon()

    # -- news -------------------------------------------------------------------------------------------------------

    def _take(self, news: News) -> None:
        """Answers may overtake each other."""
        self._early[news.part] = news.events
        while (events := self._early.pop(self._due, None)) is not None:
            self._due += 1
            for event in events:
                self._happened(event)

    def _happened(self, event: Event) -> None:
        match event:
            case Process():
                self._process(self, event)
            case Began(number, pid):
                if (unit := self._units.get(number)) is not None and not unit.began:
                    unit.began, unit.pid = True, pid
                    if unit.on_began is not None:
                        unit.on_began(pid)
            case ProgramLine() | ProgramEnded():
                self._lines.put_nowait(event)
            case Ended(number):
                self._end(number, event)

    def _end(self, number: int, event: Ended | ProgramEnded | None) -> None:
        unit = self._units.pop(number, None)
        if unit is not None and not unit.end.done():
            unit.end.set_result(event)

    async def _read_lines(self) -> None:
        """Hand lines to the readers of their units, at the pace of the records."""
        while True:
            event = await self._lines.get()
            unit = self._units.get(event.number)
            if isinstance(event, ProgramEnded):
                self._end(event.number, event)
                continue
            if unit is None or unit.reader is None or unit.end.done():
                continue
            pause = unit.reader.take(event.line, event.left_out)
            if unit.reader.is_over and not unit.told_over:
                unit.told_over = True
                self.over(event.number)
            if pause is not None:
                with suppress(Exception):  # Logged where it was raised.
                    await pause

    # -- the end ----------------------------------------------------------------------------------------------------

    def _lose(self, why: str) -> None:
        if self.lost:
            return
        self.lost = why or "it is gone"
        if self._reader is not None:
            self._reader.cancel()
        for number in list(self._units):
            self._end(number, None)
        self._gone(self)

    async def close(self) -> None:
        """End everything on the host."""
        self._closing = True
        if not self.lost:
            try:
                async with asyncio.timeout(END_S):
                    self._take_last(decode_news(await answer_of(self.actor.close.remote())))
            except Exception as error:
                self._lose(death_text(error))
        if self._calls and not self.lost:
            await asyncio.wait(list(self._calls), timeout=_LEAVE_S)
        for call in list(self._calls):
            call.cancel()
        if self._reader is not None:
            self._reader.cancel()

    def _take_last(self, news: News) -> None:
        """The answers before this one may still be under way: nobody waits for what they say."""
        for part in sorted(self._early):
            for event in self._early[part]:
                self._happened(event)
        for event in news.events:
            self._happened(event)


async def answer_of(reference: Any) -> bytes:
    """The answer to a call. Ray Client's future must not be cancelled: its thread would set it all the same, and fail."""
    future: asyncio.Future[bytes] = asyncio.wrap_future(reference.future())
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(future)


def death_text(error: Exception) -> str:
    """How a host ended, in one line, from Ray's error."""
    name = type(error).__name__
    text = str(error)
    if "its node has died" in text or name == "NodeDiedError":
        return "its node died"
    if name in ("ActorDiedError", "RayActorError", "ActorUnavailableError", "OwnerDiedError"):
        return "its host on the node died"
    return describe_exception(error).splitlines()[0]
