"""Which request meets which fault. The same seed and the same order of requests give the same faults.

There are two stages: before admission (the request is refused and nothing is charged) and after it (the request is charged, as
with real providers, where failed requests count). Each stage counts its own requests.
"""

from __future__ import annotations

from typing import NamedTuple

from headway.fake.fake_config import RESETS, Claim, Fault
from headway.fake.seeded_random import draw, fingerprint

BEFORE_ADMISSION = frozenset({"529", "401", "quota", "blocked", "bad-headers", "429", "subscription"})
#: The client still gets a complete, correct answer.
HARMLESS = frozenset({"bad-headers", "keep-alive", "slow"})
SERVER_ERRORS = ("500", "502", "503")


class ClosedWindow(NamedTuple):
    """A window of a subscription that is used up, and when it opens again."""

    claim: Claim
    until: float


class FaultStage:
    """The faults of one stage of one account."""

    def __init__(self, faults: tuple[Fault, ...], seed: int, scope: str) -> None:
        self.faults = faults
        self._seed = seed ^ fingerprint(scope.encode())
        self._count = 0
        self._done: set[int] = set()
        #: Whether a fault depends on what is in the request.
        self.reads_texts = any(fault.contains for fault in faults)
        #: The window that the latest `subscription` closed.
        self.closed = ClosedWindow("five_hour", 0.0)
        #: The wait that goes with the latest `429` or `subscription`.
        self.wait_s = 0.0

    def next_fault(self, now: float, text: str = "") -> str:
        """The fault of the next request, or "". The first that applies wins; a closed window refuses all until its reset."""
        self._count += 1
        if now < self.closed.until:
            self.wait_s = self.closed.until - now
            return "subscription"
        for place, fault in enumerate(self.faults):
            if self._applies(place, fault, now) and fault.contains in text:
                if fault.at is not None:
                    self._done.add(place)
                self._note_reset(fault, now)
                return self._resolved(fault.name)
        return ""

    def _note_reset(self, fault: Fault, now: float) -> None:
        """When the account opens again: after `resets`, else at the end of `between`, else after a usual time."""
        if fault.name not in RESETS:
            return
        until = now + RESETS[fault.name]
        if fault.resets is not None:
            until = now + fault.resets
        elif fault.between is not None:
            until = fault.between[1]
        self.wait_s = until - now
        if fault.name == "subscription":
            self.closed = ClosedWindow(fault.claim, until)

    def _applies(self, place: int, fault: Fault, now: float) -> bool:
        if fault.at is not None and (now < fault.at or place in self._done):
            return False
        if fault.between is not None and not fault.between[0] <= now < fault.between[1]:
            return False
        if fault.every is not None and self._count % fault.every:
            return False
        return fault.chance >= 1.0 or draw(self._seed, place, self._count) < fault.chance

    def _resolved(self, name: str) -> str:
        if name != "5xx":
            return name
        return SERVER_ERRORS[int(draw(self._seed, -1, self._count) * len(SERVER_ERRORS))]


def fault_stages(
    faults: tuple[Fault, ...], seed: int, account: str
) -> tuple[FaultStage | None, FaultStage | None]:
    """The faults before and after admission; None for a stage without faults."""
    before = tuple(fault for fault in faults if fault.name in BEFORE_ADMISSION)
    after = tuple(fault for fault in faults if fault.name not in BEFORE_ADMISSION)
    return (
        FaultStage(before, seed, f"{account}/door") if before else None,
        FaultStage(after, seed, f"{account}/inside") if after else None,
    )
