"""The books of the server: what happened to every request, exactly, and to every unit of work.

A unit is known by eight bytes, the hash of how the client names it or of its body. All that is kept of one is a
single integer, with a field for each count (below), so that a million units take about 150 MB and one step of one
costs well under a microsecond. Past `remember` units new ones are counted as `untracked` and no longer told apart.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from headway.fake.seeded_random import fingerprint

# The fields of a unit's integer. The account that had it last, how many of it are in flight, then the counts.
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

#: How many of the last events are kept, so that the story of a recent unit has times.
RECENT = 50_000

_HEX = re.compile("[0-9a-f]{16}")

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


class Books:
    """Tallies by account, and the units. `/stats/reset` takes new books; what is under way stays in the old."""

    def __init__(self, accounts: list[str], remember: int, since: float = 0.0) -> None:
        self.since = since
        self.tallies = {name: Tally(index) for index, name in enumerate(accounts)}
        self.nobody = Tally(len(accounts))  # whoever has no account
        self.in_flight = 0
        self.peak_in_flight = 0
        self.other = 0
        self.untracked = 0
        self._remember = remember
        self._by_index = [*self.tallies.values(), self.nobody]
        self._units: dict[int, int] = {}
        self._recent: deque[tuple[float, int, str]] = deque(maxlen=RECENT)

    def refused(self, tally: Tally, unit: int | None, reason: str, now: float) -> None:
        """A request did not get in; `unit` is None where it could not even be read."""
        tally.refused[reason] = tally.refused.get(reason, 0) + 1
        if unit is not None:
            self._add(unit, _REFUSED)
            self._recent.append((now, unit, f"refused: {reason}"))

    def admitted(self, tally: Tally, unit: int, tokens: int, now: float) -> bool:
        """A request got in. True where the same unit had been answered before: an unneeded repeat."""
        tally.admitted += 1
        tally.tokens_in += tokens
        tally.in_flight += 1
        tally.peak_in_flight = max(tally.peak_in_flight, tally.in_flight)
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        if tally.first_at is None:
            tally.first_at = now
        tally.last_at = now
        second = int(now)
        tally.seconds[second] = tally.seconds.get(second, 0) + 1
        self._recent.append((now, unit, "admitted"))
        return self._unit_admitted(tally, unit)

    def _unit_admitted(self, tally: Tally, unit: int) -> bool:
        state = self._units.get(unit)
        if state is None:
            if len(self._units) >= self._remember:
                self.untracked += 1
            else:
                self._units[unit] = tally.index + _ADMITTED + _IN_FLIGHT
            return False
        if self._is_lost(state):
            self._by_index[state & _ACCOUNT].lost -= 1
        self._units[unit] = (state & ~_ACCOUNT | tally.index) + _ADMITTED + _IN_FLIGHT
        if not state & _OK_FIELD:
            return False
        tally.repeats += 1
        return True

    def example(self, tally: Tally, unit: int, name: str, now: float) -> None:
        """Keep a repeat to be looked at."""
        if len(tally.examples) < EXAMPLES:
            tally.examples.append({"fingerprint": f"{unit:016x}", "unit": name or None, "at_s": now})

    def faulted(self, tally: Tally, unit: int, kind: str, now: float) -> None:
        """A fault struck."""
        tally.faulted[kind] = tally.faulted.get(kind, 0) + 1
        self._recent.append((now, unit, f"fault: {kind}"))

    def ok(self, tally: Tally, unit: int, tokens: int, now: float) -> None:
        """An admitted request was answered, wholly and well."""
        tally.ok += 1
        tally.tokens_out += tokens
        self._left(tally, unit, _OK, "ok", now)

    def failed(self, tally: Tally, unit: int, now: float) -> None:
        """An admitted request met a fault that took its answer away."""
        tally.failed += 1
        self._left(tally, unit, _FAILED, "failed", now)

    def cancelled(self, tally: Tally, unit: int, now: float) -> None:
        """The client went away before its answer was sent."""
        tally.cancelled += 1
        self._left(tally, unit, _CANCELLED, "cancelled", now)

    def _left(self, tally: Tally, unit: int, count: int, word: str, now: float) -> None:
        tally.in_flight -= 1
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
        """Whether a unit got in, was never answered well, and nothing of it is under way."""
        return bool(state & _ADMITTED_FIELD) and not state & (_OK_FIELD | _IN_FLIGHT_FIELD)

    def _add(self, unit: int, count: int) -> None:
        state = self._units.get(unit)
        if state is not None:
            self._units[unit] = state + count
        elif len(self._units) < self._remember:
            self._units[unit] = count

    def facts(self, now: float, *, series: bool = False) -> dict[str, Any]:
        """Everything, as /stats tells it."""
        return {
            "since_s": self.since,
            "now_s": now,
            "units": len(self._units),
            "untracked": self.untracked,
            "other": self.other,
            "total": total(self._by_index, self.peak_in_flight).facts(series),
            "accounts": {name: tally.facts(series) for name, tally in self.tallies.items()},
        }

    def story(self, name: str) -> dict[str, Any] | None:
        """What happened to one unit, found by its name or by its fingerprint in hex; None if it is not known."""
        for unit in _meant(name):
            state = self._units.get(unit)
            if state is not None:
                return {"fingerprint": f"{unit:016x}", **_counts(state), "events": self._events(unit)}
        return None

    def _events(self, unit: int) -> list[dict[str, Any]]:
        return [{"at_s": at, "what": what} for at, whose, what in self._recent if whose == unit]


def _meant(name: str) -> list[int]:
    found = [fingerprint(name.encode())]
    if _HEX.fullmatch(name):
        found.append(int(name, 16))
    return found


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
