"""What goes ahead of the rest: one unit as the canary, or a command that asks whether the account is open.

A lane whose hold is on record never comes here: it starts nothing at all. Otherwise everybody waits for whatever goes
ahead, and where that meets a limit they are turned back with its words: no worker starts for them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import msgspec

from headway.core.model import Outcome
from headway.executors.ran import Ran
from headway.executors.signs import LIMITS, Signs, said
from headway.providers.base import RateLimit

#: A limit shows at once. A canary that is still at work after this long has met none, and the rest may go.
CANARY_S: Final = 10.0
#: What is read of a command's output.
_MOST_OUTPUT: Final = 1_000_000


class Refusal(msgspec.Struct, frozen=True):
    """What whoever went ahead was told."""

    outcome: Outcome
    rate_limit: RateLimit | None


class Gate:
    """Lets one through, and the others once it has come back well."""

    def __init__(self, ask: Callable[[], Awaitable[Ran | None]] | None, *, canary: bool) -> None:
        self._ask, self._canary = ask, canary
        self._open = ask is None and not canary
        self._ahead: asyncio.Future[Refusal | None] | None = None

    async def run(self, unit: Callable[[], Awaitable[Ran]]) -> Ran:
        """The unit's end, or that of whoever went ahead of it where that was a limit."""
        while not self._open:
            if self._ahead is None:
                return await self._go_ahead(unit)
            refusal = await asyncio.shield(self._ahead)
            if refusal is not None:
                return Ran("error", outcome=refusal.outcome, rate_limit=refusal.rate_limit)
        ran = await unit()
        if ran.outcome.kind in LIMITS and (self._canary or self._ask is not None):
            self._open, self._ahead = False, None  # After the wait one goes ahead again.
        return ran

    async def _go_ahead(self, unit: Callable[[], Awaitable[Ran]]) -> Ran:
        loop = asyncio.get_running_loop()
        ahead = self._ahead = loop.create_future()
        timer = None
        try:
            if self._ask is not None:
                ran = await self._ask()
                if ran is not None:
                    self._settle(ahead, ran)
                    return ran
                self._settle(ahead, None)
                return await unit()
            timer = loop.call_later(CANARY_S, self._settle, ahead, None)
            ran = await unit()
            self._settle(ahead, ran)
            return ran
        finally:
            if timer is not None:
                timer.cancel()
            if not ahead.done():  # Called off: the next one goes ahead.
                self._ahead = None
                ahead.set_result(None)

    def _settle(self, ahead: asyncio.Future[Refusal | None], ran: Ran | None) -> None:
        """Open, or turned back: then the next to come goes ahead again."""
        if ahead.done():
            return
        if ran is not None and ran.outcome.kind in LIMITS:
            self._ahead = None
            ahead.set_result(Refusal(ran.outcome, ran.rate_limit))
        else:
            self._open = True
            ahead.set_result(None)


def command(given: tuple[str, ...], timeout_s: float) -> Callable[[], Awaitable[Ran | None]]:
    """Asks a command whether there is a limit. One that takes too long, or fails otherwise, has met none."""

    async def ask() -> Ran | None:
        began_utc = time.time()
        try:
            process = await asyncio.create_subprocess_exec(
                *given,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError:
            return None
        try:
            out, err = await asyncio.wait_for(process.communicate(), timeout_s)
        except TimeoutError:
            return None
        finally:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if process.returncode == 0:
            err = b""  # It answered: whatever it remarked on the way is no refusal.
        facts = said(out[-_MOST_OUTPUT:], err[-_MOST_OUTPUT:])
        if facts is None:
            return None
        outcome = Outcome(facts.kind, None, facts.hint, facts.message)
        ran = Signs().read(Ran("error", outcome=outcome, began_utc=began_utc))
        assert ran.rate_limit is not None
        limit = msgspec.structs.replace(ran.rate_limit, source="preflight")
        return msgspec.structs.replace(ran, rate_limit=limit)

    return ask
