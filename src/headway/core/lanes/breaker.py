"""The circuit breaker: a lane that only fails is closed, probed now and then, reported, and in the end stopped with a reason.

The breaker opens after a run of failures that no success interrupts. While it is open, one probe goes at a time, each after a
longer pause and with another unit. A success closes the breaker. A probe that was never sent, or that met an overload, uses none of its
unit's attempts, because the lane is at fault. Any other failure may be the unit's own and uses one, so that no unit is tried for ever.
A breaker that has been open for `PATIENCE_S` stops the lane for this run: a dead provider then ends the run with one
explanation, instead of failing every unit or waiting for ever. The units stay pending. That is for outages of a provider
that has answered before. If nothing has ever answered, the address is wrong or the server was not started, and a person has
to act: such a lane stops after `UNREACHED_S`.

A lane is judged by what it sent, not by the order in which answers arrive. Failures arrive in milliseconds and successes in
seconds, so five early failures among a hundred in flight say nothing. A run of failures opens the breaker only if nearly
everything failed: of everything sent since the run was noticed, and of everything sent between its first and its last failed
request. Requests without an answer may still succeed. Answers to earlier requests say nothing about the present, so only a request
that was sent after the first failure arrived can end the run. Its first headers end it, unless failures came after first headers.

A unit that failed before, while the lane served others, says nothing about the lane when it fails again. Such failures are set aside,
and so are the probes that end in them: when only bad units are left, they use up their attempts, and the lane goes on.

A lane that was held or stopped and is reopened begins with one probe. The rest follows if it succeeds.
"""

from __future__ import annotations

from typing import Final

#: Failures in a row that open it. If the first probe succeeds, they were chance, and from then on it takes twice as many, up to
#: `MOST_NEEDED`: on a lane where 40 % of the requests fail, five in a row are common and ten are not.
OVERLOADS: Final = 5
MOST_NEEDED: Final = 20
#: With many in flight, so many failures in proportion to them: the first of a hundred answers are the failures, and five of the first six
#: are no rare chance where 40 % fail.
OF_FLIGHT: Final = 0.2
#: Refusals in a row at the slowest pace that open it: users should know about a limit this tight.
REFUSALS: Final = 12
#: The share of all sends since the run began that must have failed.
MOSTLY: Final = 0.8
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 15.0
PATIENCE_S: Final = 900.0
#: The same if nothing has ever answered, counted from the first send. Probes go 1, 3, 7, 15, 30 and 45 s after it opened.
UNREACHED_S: Final = 40.0


class Breaker:
    """Counts failures in a row and decides when the next probe goes. Sends have numbers, counted per lane."""

    __slots__ = (
        "answered", "began_at", "broke_off", "ever_answered", "failures", "first_seq", "last_message", "last_seq", "needed", "opened_at",
        "pause_s", "probe_at", "probe_seq", "refusals", "reopened", "set_aside", "since_seq",
    )  # fmt: skip

    def __init__(self, *, ever_answered: bool = False) -> None:
        #: Whether the provider has ever answered, in this run or an earlier one.
        self.ever_answered = ever_answered
        #: The message of the last failure, and when the first failed attempt of the run was sent.
        self.last_message = ""
        self.began_at = 0.0
        self.failures = 0
        self.refusals = 0
        self.needed = OVERLOADS
        self.broke_off = False
        #: The lane's last send when the run was noticed; the first and the last failed send; the answers to sends between them.
        self.since_seq = 0
        self.first_seq = self.last_seq = 0
        self.answered = 0
        #: How many of the sends since the run began ended in a failure that is the unit's own.
        self.set_aside = 0
        self.opened_at: float | None = None
        self.probe_at = float("-inf")
        self.pause_s = FIRST_PAUSE_S
        #: The number of the probe that is in flight; 0: none is.
        self.probe_seq = 0
        #: Whether the lane was reopened and has not answered since.
        self.reopened = False

    def probe_first(self, now: float, sent: int, probe_seq: int) -> None:
        """The lane has been reopened: one probe goes at once, also beside attempts that were sent before. `sent`: the last of these.
        `probe_seq`: the probe that is in flight already.
        """
        self.reopened = True
        self.opened_at = self.probe_at = self.began_at = now
        self.probe_seq = probe_seq
        self.since_seq = probe_seq - 1 if probe_seq else sent
        self.first_seq = self.last_seq = self.since_seq + 1

    def may_probe(self, in_flight: int) -> bool:
        """Whether nothing in flight has to end before the next probe."""
        return not (self.probe_seq if self.reopened else in_flight)

    @property
    def open(self) -> bool:
        """Whether the lane starts only probes."""
        return self.opened_at is not None

    @property
    def troubled(self) -> bool:
        """Whether there were failures since the last success, or the breaker is open."""
        return self.failures > 0 or self.refusals > 0 or self.opened_at is not None

    def admitted(self, seq: int) -> bool:
        """Send number `seq` has its first headers: a success, unless attempts of this run failed after their first headers.

        Returns whether that closed the breaker.
        """
        return not self.broke_off and self.succeeded(seq)

    def succeeded(self, seq: int) -> bool:
        """Send number `seq` succeeded, which ends the run if it was sent after the run began. Returns whether that closed the breaker."""
        if seq <= self.since_seq:
            self.answered += seq >= self.first_seq
            return False
        was_open = self.opened_at is not None
        if was_open:
            false_alarm = self.pause_s == FIRST_PAUSE_S and not self.reopened
            self.needed = min(2 * self.needed, MOST_NEEDED) if false_alarm else OVERLOADS
        self.ever_answered = True
        self.failures = self.refusals = 0
        self.broke_off = self.reopened = False
        self.opened_at = None
        self.pause_s = FIRST_PAUSE_S
        self.probe_at = float("-inf")
        return was_open

    def note(self, message: str, began_at: float) -> None:
        """Keep the message of a failure that will be counted next; its attempt began at `began_at`."""
        if not self.troubled:
            self.began_at = began_at
        self.last_message = message

    def judges(self, seq: int) -> bool:
        """Extend the run to send number `seq`, which failed. Returns whether one more failure may open the breaker."""
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
        in_flight: int = 0,
    ) -> bool:
        """Count a failure; the lane's last send is number `sent`. Returns whether it opened the breaker.

        `admitted`: the attempt was accepted and failed later. `unanswered`: sends between the first and the last failed one
        that may still succeed. Refusals count only if the lane cannot slow down further (`at_floor`). While the breaker is open,
        only the failure of a probe counts; the attempts that were sent before say nothing new. `in_flight`: attempts of the lane.
        """
        if self.opened_at is not None:
            if probe:
                self.pause_s = self.next_pause_s
                self.probe_at = now + self.pause_s
            return False
        if not self.troubled:
            self.since_seq = sent
            self.answered = self.set_aside = 0
        self.broke_off = self.broke_off or admitted
        if refused:
            self.refusals += at_floor
        else:
            self.failures += 1
        failed = self.failures + self.refusals
        sent_since = sent - self.since_seq - self.set_aside
        if failed < MOSTLY * max(sent_since, failed + self.answered + unanswered):
            return False
        needed = max(self.needed, min(MOST_NEEDED, int(OF_FLIGHT * in_flight)))
        if self.failures < needed and self.refusals < REFUSALS:
            return False
        self.opened_at = now
        self.probe_at = now + self.pause_s
        return True

    def failed_by_itself(self, now: float, seq: int, *, probe: bool) -> None:
        """Send number `seq` failed, and its unit is at fault: this says nothing about the lane. A probe is followed by another one."""
        if self.opened_at is None:
            self.set_aside += self.troubled and seq > self.since_seq
        elif probe:
            self.probe_at = now + self.pause_s

    @property
    def next_pause_s(self) -> float:
        """The pause after the next failed probe."""
        return min(self.pause_s * 2.0, LONGEST_PAUSE_S)

    def open_s(self, now: float) -> float:
        """How long it has been open."""
        return 0.0 if self.opened_at is None else now - self.opened_at

    def out_of_patience(self, now: float) -> bool:
        """Whether the lane should stop."""
        if self.opened_at is not None and not self.ever_answered:
            return now - self.began_at > UNREACHED_S
        return self.open_s(now) > PATIENCE_S


class InvalidRun:
    """Counts invalid answers in a row with the same message: then the settings of the lane are wrong, not its units."""

    __slots__ = ("count", "message", "since")

    def __init__(self) -> None:
        self.count = 0
        self.message = ""
        #: The number of the lane's last send when the first of them arrived.
        self.since = 0

    def add(self, message: str, sent: int) -> None:
        """Count one; `sent` is the number of the lane's last send."""
        if message != self.message or not self.count:
            self.message, self.count, self.since = message, 0, sent
        self.count += 1

    def clear(self) -> None:
        """Another answer came: start again."""
        self.count = 0
