"""A unit whose account is refused while it still gets its directory: its program is not started."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
from tests.providers.wire import Admissions

from headway.core.model import Hint, Kind, Outcome
from headway.executors.worktrees.unit_directory import DirectorySettings, UnitDirectoryAdapter
from headway.providers.adapter import Admitted, Answer, RateLimit, Request

RESET_S = 3600.0


class Refusing:
    """Refuses its first request, and answers all others."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        self.sent.append(request.session)
        if len(self.sent) > 1:
            return Answer()
        outcome = Outcome(Kind.HOLD, None, Hint(retry_after_s=RESET_S), "You've hit your limit")
        return Answer(outcome, rate_limit=RateLimit("stdout", RESET_S, outcome.message, 0.0))


def request(number: int) -> Request:
    return Request(
        "agent", msgspec.json.encode({"prompt": "x", "number": number}), session=f"job 1 unit {number}"
    )


async def test_nothing_starts_after_a_refusal_that_came_meanwhile() -> None:
    refused = threading.Event()

    def directory_of(row: dict[str, Any]) -> str:
        if row["number"] == 2:
            assert refused.wait(10.0)  # Its worktree takes long.
        return "/"

    inner = Refusing()
    adapter = UnitDirectoryAdapter(inner, DirectorySettings(directory_of, str))
    slow = asyncio.ensure_future(adapter.send(request(2), 30.0, Admissions()))
    first = await adapter.send(request(1), 30.0, Admissions())
    refused.set()
    second = await slow
    assert inner.sent == ["job 1 unit 1"]
    assert first.outcome.kind is second.outcome.kind is Kind.HOLD
    assert not second.outcome.sent
    assert second.outcome.hint is not None
    assert RESET_S - 10.0 < (second.outcome.hint.retry_after_s or 0.0) <= RESET_S, "until the same instant"
    # What the lane starts later runs.
    assert (await adapter.send(request(3), 30.0, Admissions())).outcome.kind is None
    assert inner.sent == ["job 1 unit 1", "job 1 unit 3"]
