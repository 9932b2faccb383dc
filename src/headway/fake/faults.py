"""Which request meets which fault. The same seed and the same order of requests give the same faults.

There are two stages: before admission (the request is refused and nothing is charged) and after it (the request is charged, as
with real providers, where failed requests count). Each stage counts its own requests.
"""

from __future__ import annotations

from headway.fake.fake_config import Fault
from headway.fake.seeded_random import draw, fingerprint

BEFORE_ADMISSION = frozenset({"529", "401", "quota", "blocked", "bad-headers"})
#: The client still gets a complete, correct answer.
HARMLESS = frozenset({"bad-headers", "keep-alive", "slow"})
SERVER_ERRORS = ("500", "502", "503")


class FaultStage:
    """The faults of one stage of one account."""

    def __init__(self, faults: tuple[Fault, ...], seed: int, scope: str) -> None:
        self.faults = faults
        self._seed = seed ^ fingerprint(scope.encode())
        self._count = 0
        self._done: set[int] = set()

    def next_fault(self, now: float) -> str:
        """The fault of the next request, or "". The first that applies wins."""
        self._count += 1
        for place, fault in enumerate(self.faults):
            if self._applies(place, fault, now):
                if fault.at is not None:
                    self._done.add(place)
                return self._resolved(fault.name)
        return ""

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
