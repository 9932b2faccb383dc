"""Sends notifications to one target, from a thread of its own: neither a slow server nor a program that hangs delays the run.

A delivery is tried once, within `DELIVERY_S`. A redirect is not followed, and no answer is read. A program gets the JSON on its standard
input; one that takes too long is killed with everything in its process group. A failure is a line for the user.
"""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from headway.notifications.message import Notification
from headway.notifications.targets import NotifiedProgram, Target, WebAddress

#: The time for one delivery, and for what is left when the run has ended.
DELIVERY_S: Final = 10.0
LAST_S: Final = 12.0
#: More than this cannot be waiting: a run that has so much to tell has told it already.
MOST_WAITING: Final = 50


class Deliveries:
    """The notifications for one target. `failed` gets a line for each one that could not be delivered, in the thread."""

    def __init__(self, target: Target, environ: Mapping[str, str], failed: Callable[[str], None]) -> None:
        self._target, self._environ, self._failed = target, environ, failed
        self._waiting: queue.Queue[Notification | None] = queue.Queue(MOST_WAITING)
        self._thread = threading.Thread(target=self._run, name="headway-notify", daemon=True)
        self._thread.start()

    def send(self, notification: Notification) -> None:
        """Deliver it soon. Returns at once."""
        with suppress(queue.Full):
            self._waiting.put_nowait(notification)

    def close(self) -> None:
        """Wait until everything is delivered, but not for long."""
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(LAST_S)
        if self._thread.is_alive():
            self._failed(self._line("not delivered in time"))

    def _run(self) -> None:
        while (notification := self._waiting.get()) is not None:
            try:
                body = msgspec.json.encode(notification)
                why = (
                    _post(self._target, body)
                    if isinstance(self._target, WebAddress)
                    else self._call(self._target, body)
                )
            except Exception as error:  # A notification never ends a run.
                why = type(error).__name__
            if why:
                self._failed(self._line(why))

    def _line(self, why: str) -> str:
        return f"warning: the notification to {self._target.shown} failed: {why}"

    def _call(self, target: NotifiedProgram, body: bytes) -> str:
        """Run the program; returns why it failed, or ""."""
        try:
            program = subprocess.Popen(
                target.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self._environ,
                start_new_session=True,
            )
        except OSError as error:
            return (error.strerror or "it cannot be started").lower()
        try:
            program.communicate(body, timeout=DELIVERY_S)
        except subprocess.TimeoutExpired:
            with suppress(OSError):
                os.killpg(program.pid, signal.SIGKILL)
            program.communicate()
            return f"it took longer than {DELIVERY_S:g} s, and was killed"
        return f"exit code {program.returncode}" if program.returncode else ""


def _post(target: WebAddress, body: bytes) -> str:
    """Send it; returns why that failed, or ""."""
    import aiohttp

    async def post() -> int:
        timeout = aiohttp.ClientTimeout(total=DELIVERY_S)
        headers = {"Content-Type": "application/json", "User-Agent": "headway"}
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.post(target.url, data=body, allow_redirects=False) as response,
        ):
            return response.status

    try:
        status = asyncio.run(post())
    except TimeoutError:
        return f"no answer within {DELIVERY_S:g} s"
    except aiohttp.ClientConnectorError as error:
        return (error.os_error.strerror or "no connection").lower()
    except aiohttp.ClientError as error:
        return type(error).__name__  # Its text may have the address.
    return "" if 200 <= status < 300 else f"HTTP {status}"
