"""What goes ahead of the rest: one unit as the canary, or a command that asks whether the account is open.

A lane whose hold is on record never comes here: it starts nothing at all. Otherwise its lane lets one unit start; the
rest stay where they are, in the queue, until that one has ended without a limit, or is at it for so long that it has met
none, or the command has said that the account is open. Where it meets a limit the lane waits, and nobody was in its way.
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
from headway.executors.limit_evidence import LimitDetector, in_preflight
from headway.executors.process_tree import limited_environment
from headway.executors.work_result import WorkResult
from headway.providers.limits.limit_detection import LIMIT_KINDS

#: A limit shows at once. A canary that is still at work after this long has met none, and the rest may go.
CANARY_S: Final = 10.0
#: What is read of a command's output.
_MOST_OUTPUT: Final = 1_000_000


class PreflightRunner:
    """Looks after the unit that goes ahead of the rest: asks a command before it, and lets the rest go once it is long at it.

    That there is only one is the lane's business (`LaneSpec.one_ahead`): nobody waits here, and no place is held.
    """

    def __init__(self, ask: Callable[[], Awaitable[WorkResult | None]] | None, *, canary: bool) -> None:
        self._ask = ask
        self._careful = canary or ask is not None
        self._open = not self._careful
        #: How many limits were met: a unit that began before one says nothing about what comes after it.
        self._limits = 0

    async def run(self, unit: Callable[[], Awaitable[WorkResult]], admit: Callable[[], None]) -> WorkResult:
        """The unit's end, or what the command was told. `admit` says that the unit has met no limit so far."""
        limits, result = self._limits, None
        if self._open:
            result = await unit()
        elif self._ask is None:
            timer = asyncio.get_running_loop().call_later(CANARY_S, admit)
            try:
                result = await unit()
            finally:
                timer.cancel()
        else:
            result = await self._ask()
            if result is None:
                self._open = True
                admit()
                result = await unit()
        if result.outcome.kind in LIMIT_KINDS:
            self._limits += 1
            self._open = not self._careful
        elif limits == self._limits:
            self._open = True
        return result


def preflight_command(
    given: tuple[str, ...], timeout_s: float, env: tuple[str, ...] | None = None
) -> Callable[[], Awaitable[WorkResult | None]]:
    """Asks a command whether there is a limit. One that takes too long, or fails otherwise, has met none.

    `env` names the variables that it gets; None: all.
    """

    async def ask() -> WorkResult | None:
        began_utc = time.time()
        try:
            process = await asyncio.create_subprocess_exec(
                *given,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                env=limited_environment(env),
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
        facts = in_preflight(out[-_MOST_OUTPUT:], err[-_MOST_OUTPUT:], process.returncode)
        if facts is None:
            return None
        outcome = Outcome(facts.kind, None, facts.hint, facts.message)
        result = LimitDetector().read(WorkResult("error", outcome=outcome, began_utc=began_utc))
        assert result.rate_limit is not None
        limit = msgspec.structs.replace(result.rate_limit, source="preflight")
        return msgspec.structs.replace(result, rate_limit=limit)

    return ask
