"""A lane that only fails is closed, probed now and then, reported, and in the end stopped with a reason.

Closed → open after a run of failures that no success interrupts; while open, one probe at a time, each after a
longer pause, each time with another unit. A probe spends none of its unit's attempts: the lane is at fault. Its success closes the breaker.
A lane that has been open for `PATIENCE_S` stops for this run, so that a dead provider ends the run with one
explanation instead of failing every unit or waiting for ever; its units stay pending. That is for outages, of a provider
that was there once. Where nobody ever said a word, the address is wrong or its server was not started, and a person has
to look: such a lane stops after `UNREACHED_S`.

A lane is judged by what it sent, not by the order in which answers come back. Failures return in milliseconds and successes in
seconds, so five early failures among a hundred in flight say nothing. A run of failures opens the breaker only when it is nearly
everything: everything sent since the run was noticed, and everything sent between its first failed request and its last one,
of which each that has no answer yet may still succeed. Answers to what was sent before the run say nothing about now: only a
send after its first failure came back can end it, by its first headers where no failure came later than those.
"""

from __future__ import annotations

from typing import Final

#: Failures in a row that open it. Where the first probe succeeds it was chance, and it takes twice as many from then on, up to so
#: many: of a lane whose requests fail by 40 %, five in a row are common and ten are not.
OVERLOADS: Final = 5
MOST_NEEDED: Final = 20
#: Refusals in a row at the lane's floor: a limit this tight is not one to wait out silently.
REFUSALS: Final = 12
#: The share of all sends since the run began that must have failed.
MOSTLY: Final = 0.8
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 15.0
PATIENCE_S: Final = 900.0
#: The same where nothing has ever answered, from the first send on. Probes go 1, 3, 7, 15, 30 and 45 s after it opened.
UNREACHED_S: Final = 40.0


class Breaker:
    """Counts failures in a row; knows when the next probe may go. Sends are told apart by their number in the lane."""

    __slots__ = (
        "answered", "began_at", "broke_off", "failures", "first_seq", "heard", "last_seq", "needed", "opened_at", "pause_s", "probe_at",
        "refusals", "said", "since_seq",
    )  # fmt: skip

    def __init__(self, *, heard: bool = False) -> None:
        #: Whether the other end has ever said anything, in this run or an earlier one.
        self.heard = heard
        #: What the last failure said, and when the first of this run of them was sent.
        self.said = ""
        self.began_at = 0.0
        self.failures = 0
        self.refusals = 0
        self.needed = OVERLOADS
        self.broke_off = False
        #: The lane's last send when the run was noticed; the first and the last send that failed in it; answers to sends between.
        self.since_seq = 0
        self.first_seq = self.last_seq = 0
        self.answered = 0
        self.opened_at: float | None = None
        self.probe_at = float("-inf")
        self.pause_s = FIRST_PAUSE_S

    @property
    def open(self) -> bool:
        """Whether the lane is closed but for probes."""
        return self.opened_at is not None

    @property
    def troubled(self) -> bool:
        """Whether a run of failures is under way."""
        return self.failures > 0 or self.refusals > 0

    def admitted(self, seq: int) -> bool:
        """First headers came for send number `seq`: as good as an answer, unless answers are what breaks off."""
        return not self.broke_off and self.succeeded(seq)

    def succeeded(self, seq: int) -> bool:
        """Send number `seq` was answered well: the run is over if it went out after it began; returns whether that closed it."""
        if seq <= self.since_seq:
            self.answered += seq >= self.first_seq
            return False
        was_open = self.opened_at is not None
        if was_open:
            false_alarm = self.pause_s == FIRST_PAUSE_S
            self.needed = min(2 * self.needed, MOST_NEEDED) if false_alarm else OVERLOADS
        self.heard = True
        self.failures = self.refusals = 0
        self.broke_off = False
        self.opened_at = None
        self.pause_s = FIRST_PAUSE_S
        self.probe_at = float("-inf")
        return was_open

    def hear(self, said: str, began_at: float) -> None:
        """What the failure says that is about to be counted, and when its attempt began."""
        if not self.troubled:
            self.began_at = began_at
        self.said = said

    def judges(self, seq: int) -> bool:
        """Whether one more failure, of send number `seq`, may be enough to open it. The run reaches from its first send to its last."""
        if not self.troubled:
            self.first_seq = self.last_seq = seq
        self.first_seq = min(self.first_seq, seq)
        self.last_seq = max(self.last_seq, seq)
        return self.failures + 1 >= self.needed or self.refusals + 1 >= REFUSALS

    def failed(
        self,
        now: float,
        *,
        refused: bool,
        at_floor: bool,
        probe: bool,
        sent: int,
        admitted: bool = False,
        unanswered: int = 0,
    ) -> bool:
        """One more failure, when the lane's last send was number `sent`; returns whether it opened the breaker.

        `admitted`: it had been taken, and broke off later. `unanswered`: sends between the run's first and last failed ones
        that may still succeed. Refusals count only at the lane's floor. While the breaker is open only the probe's own failure
        says something new; stragglers that were sent before do not.
        """
        if self.opened_at is not None:
            if probe:
                self.pause_s = self.next_pause_s
                self.probe_at = now + self.pause_s
            return False
        if not self.troubled:
            self.since_seq = sent
            self.answered = 0
        self.broke_off = self.broke_off or admitted
        if refused:
            self.refusals += at_floor
        else:
            self.failures += 1
        failed = self.failures + self.refusals
        if failed < MOSTLY * max(sent - self.since_seq, failed + self.answered + unanswered):
            return False
        if self.failures < self.needed and self.refusals < REFUSALS:
            return False
        self.opened_at = now
        self.probe_at = now + self.pause_s
        return True

    @property
    def next_pause_s(self) -> float:
        """How long the pause after a probe that failed is."""
        return min(self.pause_s * 2.0, LONGEST_PAUSE_S)

    def open_s(self, now: float) -> float:
        """How long it has been open."""
        return 0.0 if self.opened_at is None else now - self.opened_at

    def out_of_patience(self, now: float) -> bool:
        """Whether waiting for this lane has become pointless."""
        if self.opened_at is not None and not self.heard:
            return now - self.began_at > UNREACHED_S
        return self.open_s(now) > PATIENCE_S


class InvalidRun:
    """Invalid answers in a row with the same message: the lane's settings are wrong, not its units. Any other answer ends the run."""

    __slots__ = ("count", "message", "since")

    def __init__(self) -> None:
        self.count = 0
        self.message = ""
        #: The number of the lane's last send when the first of them came back.
        self.since = 0

    def add(self, message: str, sent: int) -> None:
        """One more; `sent` is the number of the lane's last send."""
        if message != self.message or not self.count:
            self.message, self.count, self.since = message, 0, sent
        self.count += 1

    def clear(self) -> None:
        """The lane did its part."""
        self.count = 0
