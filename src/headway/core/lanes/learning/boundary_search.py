"""Where the boundaries of fixed windows are, found by single probes that are refused or accepted.

A probe that is refused was sent before the boundary; one that is accepted was sent after it. So each boundary lies between the latest
refused probe and the first accepted one.

While nothing is known the gaps between probes grow with the time since the last window closed, so that a search costs a bounded number
of refusals: about 20 in a minute. Windows may begin with the first request, so one probe goes at each usual length after that. Once a
boundary is known, one probe goes at each usual length after it. The first that is accepted tells how long a window is.

From then on the next boundary is expected as far from its bounds as the last one was. A probe in the middle halves that in each window,
until it is half a second. One more goes where a probe was accepted before. A window that begins later than that (some begin with the
first request) is looked for in steps that double.
"""

from __future__ import annotations

from typing import Final

import msgspec

#: Lengths of windows that gateways offer, up to two minutes. What is closed for longer is the breaker's to test.
LENGTHS_S: Final = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0)
#: The gap between two probes of a search: at least this, and this share of the time since the window closed.
PROBE_GAP_S: Final = 2.0
PROBE_SHARE: Final = 0.15
#: A boundary that is known this well needs no more probes before it.
FINE_S: Final = 0.5
#: The first step beyond where a boundary was expected: the way of a request to the server varies by less.
LATE_S: Final = 0.25

_NEVER: Final = float("inf")


class Boundaries(msgspec.Struct, frozen=True, gc=False):
    """What is known: how long a window is (0: not known), between which instants the latest boundary was and the next one is."""

    length_s: float = 0.0
    latest: tuple[float, float] | None = None
    next: tuple[float, float] | None = None

    @property
    def due_at(self) -> float:
        """When the next boundary has passed at the latest; never, if nothing is known."""
        return _NEVER if self.next is None else self.next[1]


class BoundarySearch:
    """Says when the next probe goes."""

    __slots__ = ("_began_at", "_closed_at", "_late_s", "_refused_at", "known")

    def __init__(self, began_at: float, closed_at: float, length_s: float = 0.0) -> None:
        self.known = Boundaries(length_s)
        self._began_at = began_at
        self._closed_at = self._refused_at = closed_at
        self._late_s = LATE_S

    def too_long(self, now: float) -> bool:
        """Whether the window has been closed for longer than any that is looked for."""
        return now - self._closed_at > LENGTHS_S[-1]

    def closed(self, sent_at: float) -> float:
        """A refusal has ended the window. Returns when the next probe goes."""
        self._closed_at = self._refused_at = sent_at
        if self.known.next is None:
            return self._search(sent_at)
        low_at, high_at = self.known.next
        return (low_at + high_at) / 2.0 if high_at - low_at > FINE_S else high_at

    def refused(self, sent_at: float) -> float:
        """A probe was refused. Returns when the next one goes."""
        self._refused_at = sent_at
        if self.known.next is None:
            return self._search(sent_at)
        high_at = self.known.due_at
        if sent_at >= high_at:
            high_at = sent_at + self._late_s
            self._late_s *= 2.0
        self.known = msgspec.structs.replace(self.known, next=(sent_at, high_at))
        return high_at

    def announced(self, low_at: float, high_at: float) -> float:
        """The refusal itself says when to come back. Returns when the next probe goes."""
        self.known = msgspec.structs.replace(self.known, next=(low_at, high_at))
        return high_at

    def _search(self, sent_at: float) -> float:
        gap_s = max(PROBE_GAP_S, PROBE_SHARE * (sent_at - self._closed_at))
        latest = self.known.latest
        if latest is None:
            usual = (self._began_at + length + LATE_S for length in LENGTHS_S)
            within_s = gap_s
        else:
            usual = (latest[1] + length for length in LENGTHS_S)
            within_s = LENGTHS_S[-1]
        soonest_at = sent_at + PROBE_GAP_S / 4.0
        return next((at for at in usual if soonest_at < at < sent_at + within_s), sent_at + gap_s)

    def accepted(self, sent_at: float) -> None:
        """A probe was accepted: a boundary lies between the one before it and this one."""
        length_s, latest = self.known.length_s, self.known.latest
        low_at = self._refused_at
        if latest is not None and not length_s:
            length_s = next((length for length in LENGTHS_S if latest[1] + length >= sent_at), 0.0)
            low_at = max(low_at, latest[0] + length_s)
        if self.known.next is not None:
            low_at = max(low_at, min(self.known.next[0], sent_at))
        self._late_s = LATE_S
        expected = (low_at + length_s, sent_at + length_s) if length_s else None
        self.known = Boundaries(length_s, (low_at, sent_at), expected)

    def passed(self, now: float) -> None:
        """The next boundary has passed without a probe."""
        length_s, expected = self.known.length_s, self.known.next
        if expected is not None and length_s:
            windows = (now - expected[1]) // length_s + 1.0
            low_at, high_at = (bound + windows * length_s for bound in expected)
            self.known = msgspec.structs.replace(self.known, next=(low_at, high_at))
        else:
            self.known = msgspec.structs.replace(self.known, next=None)
