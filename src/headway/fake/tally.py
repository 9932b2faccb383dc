"""The counts of one account, and how several add up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

EXAMPLES = 20
_SUMS = ("received", "admitted", "ok", "failed", "cancelled", "in_flight")
_MORE_SUMS = ("tokens_in", "tokens_out", "repeats", "lost")


@dataclass(slots=True, eq=False)
class Tally:
    """What happened to one account's requests: admitted = ok + failed + cancelled + in_flight."""

    index: int
    received: int = 0
    admitted: int = 0
    ok: int = 0
    failed: int = 0
    cancelled: int = 0
    in_flight: int = 0
    peak_in_flight: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    repeats: int = 0
    lost: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    faulted: dict[str, int] = field(default_factory=dict)
    first_at: float | None = None
    last_at: float | None = None
    examples: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[int, int] = field(default_factory=dict)

    def facts(self, series: bool = False) -> dict[str, Any]:
        """As /stats tells them."""
        facts: dict[str, Any] = {name: getattr(self, name) for name in _SUMS}
        facts["peak_in_flight"] = self.peak_in_flight
        facts |= {name: getattr(self, name) for name in _MORE_SUMS}
        facts["refused"] = dict(sorted(self.refused.items()))
        facts["faulted"] = dict(sorted(self.faulted.items()))
        facts["first_admission_s"] = self.first_at
        facts["last_admission_s"] = self.last_at
        facts["repeat_examples"] = self.examples
        if series:
            facts["admitted_per_second"] = _filled(self.seconds)
        return facts


def total(tallies: Iterable[Tally], peak_in_flight: int) -> Tally:
    """All of them together; peaks do not add up, so the common one is told."""
    whole = Tally(-1, peak_in_flight=peak_in_flight)
    for tally in tallies:
        for name in (*_SUMS, *_MORE_SUMS):
            setattr(whole, name, getattr(whole, name) + getattr(tally, name))
        for mine, theirs in ((whole.refused, tally.refused), (whole.faulted, tally.faulted)):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count
        for second, count in tally.seconds.items():
            whole.seconds[second] = whole.seconds.get(second, 0) + count
        whole.examples = (whole.examples + tally.examples)[:EXAMPLES]
        if tally.first_at is not None and tally.last_at is not None:
            whole.first_at = min(tally.first_at, tally.first_at if whole.first_at is None else whole.first_at)
            whole.last_at = max(tally.last_at, whole.last_at or 0.0)
    return whole


def _filled(seconds: dict[int, int]) -> list[int]:
    """Every second from the server's start on, the empty ones too."""
    return [seconds.get(second, 0) for second in range(max(seconds, default=-1) + 1)]
