"""Calls of one process that use lanes of the same name at the same time, without a store: they share the lanes evenly.

Every run of calls (a `headway.map`) has a scheduler and an event loop of its own, in any thread. Here they read each other's claims, as
jobs do in a store (`lane_sharing`). A run that ends leaves; a forked process begins with no runs.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from typing import Final

from headway.core.events import Share
from headway.core.lanes.job_share import TURN_S, Claim, Grant, claim_of, grant_of, opening_claim, promised
from headway.core.scheduler import Scheduler

#: Runs of one process have no weights.
WEIGHT: Final = 1.0


class ClaimBoard:
    """The claims of all runs of this process, by lane."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lanes: dict[str, dict[int, Claim]] = {}

    def others(self, lane: str, run: int) -> list[Claim]:
        """The claims of other runs on a lane."""
        with self._lock:
            return [claim for other, claim in self._lanes.get(lane, {}).items() if other != run]

    def put(self, lane: str, claim: Claim) -> None:
        """A run claims a lane, or changes its claim."""
        with self._lock:
            self._lanes.setdefault(lane, {})[claim.job] = claim

    def leave(self, run: int) -> None:
        """A run has ended."""
        with self._lock:
            for lane in list(self._lanes):
                self._lanes[lane].pop(run, None)
                if not self._lanes[lane]:
                    del self._lanes[lane]


_board = ClaimBoard()
_runs: Final = itertools.count(1)


def _forget() -> None:
    """In a forked process: the runs of its parent are not its own, and a lock may be held for ever."""
    global _board  # noqa: PLW0603 - one a process
    _board = ClaimBoard()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class ProcessSharing:
    """One run among others of its process, on the running loop."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._loop = asyncio.get_running_loop()
        self._board, self._run = _board, next(_runs)
        self._granted: dict[str, Grant] = {}

    def look(self) -> list[Share]:
        """Renew our claims; returns the shares that changed."""
        now, turn = self._loop.time(), int(self._loop.time() // TURN_S)
        shares = []
        for key, lane in self._scheduler.lanes.items():
            mine = opening_claim(claim_of(self._scheduler, lane, self._run, WEIGHT, now), lane)
            grant = grant_of(
                mine, self._board.others(key, self._run), lane.limits.settings.max_concurrency, turn
            )
            self._board.put(key, promised(mine, lane, grant))
            if grant.differs(self._granted.get(key, Grant())):
                self._granted[key] = grant
                shares.append(Share(key, grant))
        return shares

    def leave(self) -> None:
        """The run has ended: the others have all of its lanes again."""
        self._board.leave(self._run)
