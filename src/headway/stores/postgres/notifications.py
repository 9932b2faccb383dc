"""What the server says without being asked: a job has a command, or has changed (LISTEN). The tables' triggers say it with each commit.

A notification is only a reason to look. Whoever has just begun to listen looks, too, and so does who has heard nothing for a while.
"""

from __future__ import annotations

import select
import time
from typing import Any, Final

import psycopg
from psycopg import sql

#: How long nothing is asked without a notification.
AGAIN_S: Final = 5.0
#: How much longer one waits for a notification than without any.
LONGER: Final = 2.0


class Notifications:
    """Those that one connection has received."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        #: When each channel was last looked at.
        self._looked_at: dict[tuple[str, int], float] = {}
        self._channels: set[str] = set()
        self._waiting: set[tuple[str, str]] = set()

    def forget(self) -> None:
        """The connection was lost, and with it whatever it would have said."""
        self._looked_at.clear()
        self._channels.clear()

    def heard(self, connection: psycopg.Connection[Any], what: str, job: int) -> bool:
        """Whether there is a reason to look. It is told once."""
        channel = f"{self._schema}_{what}"
        if channel not in self._channels:
            connection.add_notify_handler(self._note)
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            self._channels.add(channel)
        self._take(connection)
        now = time.monotonic()
        is_new = (channel, str(job)) in self._waiting
        if is_new or now - self._looked_at.get((what, job), -AGAIN_S) >= AGAIN_S:
            self._waiting.discard((channel, str(job)))
            self._looked_at[what, job] = now
            return True
        return False

    def wait(self, connection: psycopg.Connection[Any], job: int, seconds: float) -> None:
        """Wait until there is a reason to look at a job, at least `seconds`."""
        give_up_at = time.monotonic() + seconds * LONGER
        time.sleep(seconds)
        while not self.heard(connection, "jobs", job):
            left = give_up_at - time.monotonic()
            if left <= 0:
                return
            select.select([connection.fileno()], [], [], left)

    def _note(self, notification: psycopg.Notify) -> None:
        self._waiting.add((notification.channel, notification.payload))

    def _take(self, connection: psycopg.Connection[Any]) -> None:
        """Read what has come, without asking."""
        connection.pgconn.consume_input()
        while (notification := connection.pgconn.notifies()) is not None:
            self._waiting.add((notification.relname.decode(), notification.extra.decode()))
