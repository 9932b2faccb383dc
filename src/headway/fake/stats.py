"""Statistics of the server: exact counts of what happened to every request and to every unit of work.

A unit is identified by eight bytes: a hash of the client's name for it, or of its body. Each unit is stored as one
integer with a bit field for each count (below), so that a million units take about 150 MB and one update
costs well under a microsecond. Beyond `remember` units, new ones are counted as `untracked` and not stored.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from headway.fake.seeded_random import fingerprint

# The bit fields of a unit's integer: its last account, how many of its requests are in flight, then the counts.
_ACCOUNT = 0xFFF
_IN_FLIGHT = 1 << 12
_ADMITTED = 1 << 32
_OK = 1 << 64
_REFUSED = 1 << 96
_FAILED = 1 << 128
_CANCELLED = 1 << 160
_IN_FLIGHT_FIELD = 0xFFFFF << 12
_ADMITTED_FIELD = 0xFFFFFFFF << 32
_OK_FIELD = 0xFFFFFFFF << 64

#: How many recent events are kept: the history of a recent unit has times.
RECENT = 50_000

_HEX = re.compile("[0-9a-f]{16}")

EXAMPLES = 20
_SUMS = ("received", "admitted", "ok", "failed", "cancelled", "in_flight")
_MORE_SUMS = ("tokens_in", "tokens_out", "repeats", "lost")


@dataclass(slots=True, eq=False)
class AccountCounts:
    """The counts of one account: admitted = ok + failed + cancelled + in_flight."""

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

    def as_dict(self, series: bool = False) -> dict[str, Any]:
        """The counts as /stats reports them."""
        figures: dict[str, Any] = {name: getattr(self, name) for name in _SUMS}
        figures["peak_in_flight"] = self.peak_in_flight
        figures |= {name: getattr(self, name) for name in _MORE_SUMS}
        figures["refused"] = dict(sorted(self.refused.items()))
        figures["faulted"] = dict(sorted(self.faulted.items()))
        figures["first_admission_s"] = self.first_at
        figures["last_admission_s"] = self.last_at
        figures["repeat_examples"] = self.examples
        if series:
            figures["admitted_per_second"] = _filled(self.seconds)
        return figures


def sum_counts(counts_by_account: Iterable[AccountCounts], peak_in_flight: int) -> AccountCounts:
    """The sum of all accounts. Peaks do not add up, so the common peak is given."""
    total = AccountCounts(-1, peak_in_flight=peak_in_flight)
    for counts in counts_by_account:
        for name in (*_SUMS, *_MORE_SUMS):
            setattr(total, name, getattr(total, name) + getattr(counts, name))
        for mine, theirs in ((total.refused, counts.refused), (total.faulted, counts.faulted)):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count
        for second, count in counts.seconds.items():
            total.seconds[second] = total.seconds.get(second, 0) + count
        total.examples = (total.examples + counts.examples)[:EXAMPLES]
        if counts.first_at is not None and counts.last_at is not None:
            total.first_at = min(
                counts.first_at, counts.first_at if total.first_at is None else total.first_at
            )
            total.last_at = max(counts.last_at, total.last_at or 0.0)
    return total


def _filled(seconds: dict[int, int]) -> list[int]:
    """One number for every second since the server started."""
    return [seconds.get(second, 0) for second in range(max(seconds, default=-1) + 1)]


class Statistics:
    """Counts by account, and by unit. `/stats/reset` makes new statistics; requests in flight stay in the old ones."""

    def __init__(self, accounts: list[str], remember: int, since: float = 0.0) -> None:
        self.since = since
        self.counts_by_account = {name: AccountCounts(index) for index, name in enumerate(accounts)}
        self.no_account = AccountCounts(len(accounts))  # requests without a valid key
        self.in_flight = 0
        self.peak_in_flight = 0
        self.other = 0
        self.untracked = 0
        self._remember = remember
        self._by_index = [*self.counts_by_account.values(), self.no_account]
        self._units: dict[int, int] = {}
        self._recent: deque[tuple[float, int, str]] = deque(maxlen=RECENT)

    def refused(self, counts: AccountCounts, unit: int | None, reason: str, now: float) -> None:
        """A request was refused; `unit` is None if it could not be parsed."""
        counts.refused[reason] = counts.refused.get(reason, 0) + 1
        if unit is not None:
            self._add(unit, _REFUSED)
            self._recent.append((now, unit, f"refused: {reason}"))

    def admitted(self, counts: AccountCounts, unit: int, tokens: int, now: float) -> bool:
        """A request was admitted. True if its unit had been answered before: an unnecessary repeat."""
        counts.admitted += 1
        counts.tokens_in += tokens
        counts.in_flight += 1
        counts.peak_in_flight = max(counts.peak_in_flight, counts.in_flight)
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        if counts.first_at is None:
            counts.first_at = now
        counts.last_at = now
        second = int(now)
        counts.seconds[second] = counts.seconds.get(second, 0) + 1
        self._recent.append((now, unit, "admitted"))
        return self._unit_admitted(counts, unit)

    def _unit_admitted(self, counts: AccountCounts, unit: int) -> bool:
        state = self._units.get(unit)
        if state is None:
            if len(self._units) >= self._remember:
                self.untracked += 1
            else:
                self._units[unit] = counts.index + _ADMITTED + _IN_FLIGHT
            return False
        if self._is_lost(state):
            self._by_index[state & _ACCOUNT].lost -= 1
        self._units[unit] = (state & ~_ACCOUNT | counts.index) + _ADMITTED + _IN_FLIGHT
        if not state & _OK_FIELD:
            return False
        counts.repeats += 1
        return True

    def example(self, counts: AccountCounts, unit: int, name: str, now: float) -> None:
        """Keep an example of a repeat."""
        if len(counts.examples) < EXAMPLES:
            counts.examples.append({"fingerprint": f"{unit:016x}", "unit": name or None, "at_s": now})

    def faulted(self, counts: AccountCounts, unit: int, kind: str, now: float) -> None:
        """A request met a fault."""
        counts.faulted[kind] = counts.faulted.get(kind, 0) + 1
        self._recent.append((now, unit, f"fault: {kind}"))

    def ok(self, counts: AccountCounts, unit: int, tokens: int, now: float) -> None:
        """An admitted request was answered completely."""
        counts.ok += 1
        counts.tokens_out += tokens
        self._left(counts, unit, _OK, "ok", now)

    def failed(self, counts: AccountCounts, unit: int, now: float) -> None:
        """An admitted request got no good answer because of a fault."""
        counts.failed += 1
        self._left(counts, unit, _FAILED, "failed", now)

    def cancelled(self, counts: AccountCounts, unit: int, now: float) -> None:
        """The client went away before its answer was sent."""
        counts.cancelled += 1
        self._left(counts, unit, _CANCELLED, "cancelled", now)

    def _left(self, counts: AccountCounts, unit: int, count: int, word: str, now: float) -> None:
        counts.in_flight -= 1
        self.in_flight -= 1
        self._recent.append((now, unit, word))
        state = self._units.get(unit)
        if state is not None:
            state += count - _IN_FLIGHT
            self._units[unit] = state
            if self._is_lost(state):
                self._by_index[state & _ACCOUNT].lost += 1

    @staticmethod
    def _is_lost(state: int) -> bool:
        """Whether a unit was admitted, never answered completely, and has no request in flight."""
        return bool(state & _ADMITTED_FIELD) and not state & (_OK_FIELD | _IN_FLIGHT_FIELD)

    def _add(self, unit: int, count: int) -> None:
        state = self._units.get(unit)
        if state is not None:
            self._units[unit] = state + count
        elif len(self._units) < self._remember:
            self._units[unit] = count

    def as_dict(self, now: float, *, series: bool = False) -> dict[str, Any]:
        """All statistics, as /stats reports them."""
        return {
            "since_s": self.since,
            "now_s": now,
            "units": len(self._units),
            "untracked": self.untracked,
            "other": self.other,
            "total": sum_counts(self._by_index, self.peak_in_flight).as_dict(series),
            "accounts": {name: counts.as_dict(series) for name, counts in self.counts_by_account.items()},
        }

    def history(self, name: str) -> dict[str, Any] | None:
        """What happened to one unit, given its name or its fingerprint in hex; None if it is unknown."""
        for unit in _candidates(name):
            state = self._units.get(unit)
            if state is not None:
                return {"fingerprint": f"{unit:016x}", **_counts(state), "events": self._events(unit)}
        return None

    def _events(self, unit: int) -> list[dict[str, Any]]:
        return [{"at_s": at, "what": what} for at, whose, what in self._recent if whose == unit]


def _candidates(name: str) -> list[int]:
    fingerprints = [fingerprint(name.encode())]
    if _HEX.fullmatch(name):
        fingerprints.append(int(name, 16))
    return fingerprints


def _counts(state: int) -> dict[str, int]:
    def count(one: int) -> int:
        return state // one & 0xFFFFFFFF

    return {
        "admitted": count(_ADMITTED),
        "ok": count(_OK),
        "refused": count(_REFUSED),
        "failed": count(_FAILED),
        "cancelled": count(_CANCELLED),
        "in_flight": (state & _IN_FLIGHT_FIELD) // _IN_FLIGHT,
    }
