"""The preflight of a lane: one unit that runs first (the canary), or a command that checks whether the account is open.

A lane with a recorded hold never gets here: it starts nothing at all. Otherwise the lane starts one unit. The others stay
in the queue until that unit has ended without a rate limit, has run so long that it cannot have met one, or the command
has reported that the account is open. If the first unit meets a limit, the lane waits, and no other unit was started.
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
from headway.runtime import open_files

#: A limit shows at once. A canary that still runs after this long has met none, and the others may start.
CANARY_S: Final = 10.0
#: Bytes that are read of each stream of a command.
_MOST_OUTPUT: Final = 1_000_000


class PreflightRunner:
    """Runs units; before the first one it calls `check`, and during it admits the others once it has run for long.

    The lane sees to it that only one unit runs ahead (`LaneSpec.one_ahead`): no unit waits here, and none holds a slot.
    """

    def __init__(self, check: Callable[[], Awaitable[WorkResult | None]] | None, *, canary: bool) -> None:
        self._check = check
        self._careful = canary or check is not None
        self._open = not self._careful
        #: Limits met so far: a unit that began before the latest limit says nothing about the time after it.
        self._limits = 0

    async def run(self, unit: Callable[[], Awaitable[WorkResult]], admit: Callable[[], None]) -> WorkResult:
        """The unit's result, or the limit that the command met. `admit` reports that no limit was met so far."""
        limits, result = self._limits, None
        if self._open:
            result = await unit()
        elif self._check is None:
            timer = asyncio.get_running_loop().call_later(CANARY_S, admit)
            try:
                result = await unit()
            finally:
                timer.cancel()
        else:
            result = await self._check()
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
    command: tuple[str, ...], timeout_s: float, env: tuple[str, ...] | None = None
) -> Callable[[], Awaitable[WorkResult | None]]:
    """A check that runs a command and returns the limit that it met. A command that takes too long or fails otherwise met none.

    `env` names the variables that the command gets; None: all.
    """

    async def check() -> WorkResult | None:
        began_utc = time.time()
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                env=limited_environment(env),
            )
        except OSError:
            return None
        open_files.give_original_limit(process.pid)
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

    return check
