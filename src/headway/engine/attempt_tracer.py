"""The contract of a tracer: it follows units and attempts, for another system. Without one an attempt costs nothing."""

from __future__ import annotations

from typing import Protocol

from headway.engine.flights import RequestFlight
from headway.providers.adapter import Request
from headway.stores.records import Attempt, UnitChange


class AttemptTracer(Protocol):
    """Called on the engine's loop. It never raises, and returns quickly."""

    def started(self, flight: RequestFlight, request: Request) -> str:
        """An attempt is sent. Returns the `traceparent` that goes with its request (`Request.traceparent`), or ""."""

    def ended(self, flight: RequestFlight, attempt: Attempt | None, change: UnitChange) -> None:
        """An attempt has ended, and its unit changes its state. None: nothing was sent, and nothing is recorded."""

    def unit_ended(self, index: int, change: UnitChange) -> None:
        """A unit has ended without an attempt that was in flight."""
