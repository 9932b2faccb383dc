"""An onlooker's books of a whole run, kept from the events that went in and the commands that came out.

`Books.follow` takes one call of the scheduler and raises `Violation` at the first property that does not hold:

- *lost*, *twice*, *after end*: each unit is in exactly one place, and an answered one goes back or ends;
- *held lane*, *closed lane*, *pause*, *not before*, *paused*, *over*, *deadline*, *delay*: nothing starts too early;
- *lane cap*, *window*, *global cap*, *bucket*, *min gap*, *budget*, *breaker*: nothing starts that does not fit;
- *dependency*, *serial*, *order*, *alone*: nothing starts out of turn;
- *reopened*: a lane that was closed and is reopened begins with one attempt;
- *retries*, *hint*, *cancel*, *status*: what becomes of an answer is what the rules say;
- *render*: the request of a late unit is made once, before it starts, from answers that are there;
- *fetch*: units are fetched once, one fetch of a lane at a time, and never from a source that has no more;
- *wake*, *done*, *liveness*: the run never falls asleep, and ends once.

It never reads the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headway.core import commands, events
from headway.core.model import Kind, LaneSpec, Outcome, Settings, Unit
from headway.core.reasons import LaneBudgetSpent, NoticeReason
from headway.core.unit_states import GOOD, Status

from .bucket import slack_s
from .lanebook import ALWAYS, HOPELESS, STOPPERS, THROTTLES, UNCHARGED, Flight, LaneBook, Violation, require

SUSPECT_CRASHES = 2
ROUNDING = 1e-6


@dataclass
class Fortune:
    """What has become of a unit so far."""

    tries: int = 0
    spent: int = 0
    #: Of these, the ones that may be its own fault: whatever its lane did, they count.
    own: int = 0
    throttles: int = 0
    crashes: int = 0
    alone: bool = False
    not_before: float = ALWAYS
    #: Its lane was reopened: it may start earlier, if it waited for that.
    hastened: bool = False


@dataclass
class Due:
    """What must become of an answered unit: one of these ends, or another try no earlier than `earliest`."""

    ends: frozenset[Status] = frozenset()
    again: bool = False
    earliest: float = ALWAYS
    latest: float = float("inf")


def again(earliest: float, latest: float = float("inf")) -> Due:
    return Due(again=True, earliest=earliest, latest=latest)


def ends(*statuses: Status) -> Due:
    return Due(ends=frozenset(statuses))


@dataclass
class Books:
    """One run, as seen from outside."""

    settings: Settings
    units: dict[int, Unit]
    serial: frozenset[int]
    lanes: dict[str, LaneBook] = field(default_factory=dict)
    flights: dict[int, Flight] = field(default_factory=dict)
    landed: dict[int, Flight] = field(default_factory=dict)
    fortunes: dict[int, Fortune] = field(default_factory=dict)
    ended: dict[int, Status] = field(default_factory=dict)
    due: dict[int, Due] = field(default_factory=dict)
    unwanted: set[int] = field(default_factory=set)
    mode: str = "run"
    paused: bool = False
    done: bool = False
    revived: bool = False
    may_repeat: bool = False
    reason: str = ""
    wake_at: float | None = None
    last_start_at: float = ALWAYS
    spent_usd: float = 0.0
    #: What has been spent from each lane's budget, by its name.
    spent_of: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.concurrency = self.settings.concurrency
        self.input_open = self.settings.input_open
        #: The lanes that were reopened in this call: units whose answers came before that may start at once.
        self.reopened: set[str] = set()
        #: The units that fetches brought: to be run, or only to be reported.
        self.taken: set[int] = set()
        self.drained: set[int] = set()
        self.taken_before: set[int] = set()
        #: The lanes with a fetch under way, and of these the ones that more work came for meanwhile.
        self.fetching: set[str] = set()
        self.refreshed: set[str] = set()
        self.fetching_serial = self.fetching_rest = False
        #: Units whose requests are being made, and those whose request cannot be made.
        self.rendering: set[int] = set()
        self.impossible: set[int] = set()
        #: Lanes whose source has no more.
        self.dry: set[str] = set()

    def open_lane(self, spec: LaneSpec, now: float) -> None:
        self.lanes[spec.key] = LaneBook(spec, now)
        for lane_budget in spec.lane_budgets:
            self.spent_of.setdefault(lane_budget.name, lane_budget.spent_usd)

    def add(self, unit: Unit) -> None:
        self.units[unit.index] = unit

    def follow(self, happened: Sequence[events.Event], told: Sequence[commands.Command], now: float) -> None:
        """One call of the scheduler: what went in, what came out."""
        self.landed.clear()
        self.reopened = {event.lane for event in happened if isinstance(event, events.ReopenLane)}
        for event in happened:
            self._tell(event, now)
        self._pass_deadline(now)
        self._obey(told, now)
        self._close(now)
        self.taken_before = set(self.taken)

    # -- what went in ---------------------------------------------------------------------------------------

    def _tell(self, event: events.Event, now: float) -> None:
        match event:
            case events.Delayed() | events.Written():
                pass  # They only make a lane start later.
            case events.RequestAccepted() | events.Finished() | events.Cancelled():
                self._tell_answer(event, now)
            case events.AnswerRejected():
                self._tell_unfit(event, now)
            case events.CancelUnit(index):
                self._tell_unwanted(index)
            case events.Pause():
                self.paused = True
                self.may_repeat = self.done  # Paused is not at its end, so it may be reported once more.
            case events.Resume():
                self.paused = False
            case events.Abort(mode):
                self._tell_abort(mode)
            case events.InputClosed():
                self.input_open = False
            case events.Units() | events.SerialUnits() | events.RestUnits():
                self._tell_units(event)
            case events.Rendered():
                self._tell_rendered(event)
            case _:
                self._tell_lane(event, now)

    def _tell_lane(self, event: events.Event, now: float) -> None:
        match event:
            case events.SetLimits(key, limits):
                self.lanes[key].configure(limits, now)
            case events.Share(key, grant):
                self.lanes[key].share(grant)
            case events.ReopenLane(key):
                self.lanes[key].reopen(now)
                self.revived = True
                self.may_repeat = self.done
                self._hasten(key)
            case events.OpenLane(spec) if spec.key in self.lanes:
                self.lanes[spec.key].configure(spec.limits, now)
            case events.OpenLane(spec):
                self.open_lane(spec, now)
                self.revived = True
                self.may_repeat = self.done
            case _:
                assert isinstance(event, events.MoreWork)
                self.revived = True
                self.may_repeat = self.done  # The end that was reported did not know of this work.
                self.dry.discard(event.lane)
                self.refreshed.add(event.lane)

    def _hasten(self, key: str) -> None:
        for index, fortune in self.fortunes.items():
            fortune.hastened = fortune.hastened or self.units[index].lane == key

    def _tell_units(self, event: events.Units | events.SerialUnits | events.RestUnits) -> None:
        brought = {unit.index for unit in event.units}
        match event:
            case events.Units(lane, more=more):
                self.fetching.discard(lane)
                if not more and lane not in self.refreshed:
                    self.dry.add(lane)
            case events.SerialUnits():
                self.fetching_serial = False
            case _:
                self.fetching_rest = False
                self.drained |= brought
                return
        self.taken |= brought

    def _tell_rendered(self, event: events.Rendered) -> None:
        self.rendering.discard(event.index)
        if event.unit is None:
            self.impossible.add(event.index)
        else:
            self.units[event.index] = event.unit

    def _tell_abort(self, mode: str) -> None:
        if self.mode == "run":
            self.mode = "aborted"
        if mode == "cancel":
            self._doom("aborted")

    def _doom(self, fate: str) -> None:
        for flight in self.flights.values():
            flight.fate = flight.fate or fate

    def _tell_unwanted(self, index: int) -> None:
        if index in self.flights:
            self.flights[index].fate = "unwanted"
        elif index not in self.ended:
            self.unwanted.add(index)

    def _tell_answer(
        self, event: events.RequestAccepted | events.Finished | events.Cancelled, now: float
    ) -> None:
        flight = self.flights.get(event.index)
        if flight is None:
            return
        lane = self.lanes[flight.unit.lane]
        if isinstance(event, events.RequestAccepted):
            lane.reported = lane.reported or bool(event.hint and event.hint.reports)
            lane.accept(flight, event.usage)
        elif isinstance(event, events.Finished):
            self._tell_finished(flight, lane, event.outcome, now)
        else:
            self._land(flight, lane)
            self._spend_estimate(flight.unit)
            self.due[event.index] = self._by_fate(flight, now)

    def _land(self, flight: Flight, lane: LaneBook) -> None:
        self.landed[flight.unit.index] = self.flights.pop(flight.unit.index)
        lane.flights -= 1

    def _tell_finished(self, flight: Flight, lane: LaneBook, outcome: Outcome, now: float) -> None:
        self._land(flight, lane)
        lane.reported = lane.reported or bool(outcome.hint and outcome.hint.reports)
        if outcome.kind is None:
            lane.accept(flight, None)
        lane.settle(flight, outcome)
        if outcome.usage is not None:
            self._spend(flight.unit, outcome.usage.cost_usd or 0.0)
        elif outcome.kind not in UNCHARGED:
            self._spend_estimate(flight.unit)
        self.due[flight.unit.index] = self._judge_answer(flight, lane, outcome, now)

    def _tell_unfit(self, event: events.AnswerRejected, now: float) -> None:
        """To the lane it is a success; to the unit an attempt that did not bring it to its end."""
        flight = self.flights.get(event.index)
        if flight is None:
            return
        lane, outcome = self.lanes[flight.unit.lane], event.outcome
        self._land(flight, lane)
        lane.reported = lane.reported or bool(outcome.hint and outcome.hint.reports)
        lane.accept(flight, None)
        lane.settle(flight, outcome)
        if outcome.usage is not None:
            self._spend(flight.unit, outcome.usage.cost_usd or 0.0)
        else:
            self._spend_estimate(flight.unit)
        if event.again is not None:
            self.units[event.index] = event.again
        self.due[event.index] = self._judge_unfit(flight, lane, event, now)

    def _spend_estimate(self, unit: Unit) -> None:
        """The provider may have done the work, and did not say what it came to."""
        self._spend(unit, unit.estimate.cost_usd)

    def _spend(self, unit: Unit, usd: float) -> None:
        self.spent_usd += usd
        for lane_budget in self.lanes[unit.lane].spec.lane_budgets:
            self.spent_of[lane_budget.name] += usd

    # -- what must become of an answer ----------------------------------------------------------------------

    def _by_fate(self, flight: Flight, now: float) -> Due:
        if flight.fate == "unwanted":
            return ends(Status.CANCELLED)
        return ends(Status.TIMED_OUT) if flight.fate == "deadline" else again(now, now)

    def _judge_answer(self, flight: Flight, lane: LaneBook, outcome: Outcome, now: float) -> Due:
        """The table of DESIGN §2, as seen from outside."""
        kind = outcome.kind
        if kind is None:
            return ends(Status.SUCCEEDED)
        if flight.fate:
            return self._by_fate(flight, now)
        lane.heed(flight, outcome, kind, now, self.settings.max_hold_s)
        if kind in STOPPERS:
            return again(now)
        if kind in HOPELESS:
            return ends(Status.FAILED)
        fortune = self.fortunes[flight.unit.index]
        if kind in THROTTLES:
            return self._judge_throttled(fortune, lane, outcome, now)
        return self._judge_failed(fortune, lane, outcome, kind, now)

    def _judge_unfit(self, flight: Flight, lane: LaneBook, event: events.AnswerRejected, now: float) -> Due:
        fortune = self.fortunes[event.index]
        fortune.spent += 1
        fortune.own += 1
        if flight.fate:
            return self._by_fate(flight, now)
        if event.again is None:
            return ends(Status.FAILED)
        due = again(now, now)
        if fortune.spent >= lane.spec.retry.max_attempts:
            due.ends = frozenset({Status.FAILED})
            due.again = lane.breaker_seen and fortune.own < lane.spec.retry.max_attempts
        return due

    def _judge_throttled(self, fortune: Fortune, lane: LaneBook, outcome: Outcome, now: float) -> Due:
        fortune.throttles += 1
        if fortune.throttles > lane.spec.retry.max_throttles:
            return ends(Status.FAILED)
        return self._after_wait(lane, outcome, now)

    def _judge_failed(
        self, fortune: Fortune, lane: LaneBook, outcome: Outcome, kind: Kind, now: float
    ) -> Due:
        """Given up only when the attempts are used up. Only a probe of a broken lane that meets an overload may be one more."""
        fortune.spent += 1
        fortune.own += kind is not Kind.OVERLOAD
        fortune.crashes += kind is Kind.CRASH
        if fortune.alone and kind is Kind.CRASH:
            return ends(Status.FAILED)
        if fortune.alone:
            fortune.crashes = 0
        due = self._after_wait(lane, outcome, now)
        if fortune.spent >= lane.spec.retry.max_attempts:
            due.ends = frozenset({Status.TIMED_OUT if kind is Kind.TIMEOUT else Status.FAILED})
            due.again = lane.breaker_seen and fortune.own < lane.spec.retry.max_attempts
        return due

    def _after_wait(self, lane: LaneBook, outcome: Outcome, now: float) -> Due:
        """No earlier than the hint says; where there is none no later than any setting says."""
        wait_s = outcome.hint.retry_after_s if outcome.hint else None
        if wait_s is not None:
            return again(now + wait_s)
        retry = lane.spec.retry
        longest_s = max(retry.cap_s * (1.0 + retry.jitter), retry.default_wait_s + retry.hold_margin_s)
        if lane.breaker_seen:
            return again(now)  # It may let others probe first.
        return again(now, max(now + longest_s, lane.held_until))

    # -- what came out --------------------------------------------------------------------------------------

    def _pass_deadline(self, now: float) -> None:
        deadline_at = self.settings.deadline_at
        over = self.done and not self.may_repeat
        if deadline_at is not None and now >= deadline_at and not over:
            self.mode = "deadline" if self.mode == "run" else self.mode
            self._doom("deadline")

    def _obey(self, told: Sequence[commands.Command], now: float) -> None:
        wakes = [command.at for command in told if isinstance(command, commands.Wake)]
        require(len(wakes) <= 1, "wake", f"{len(wakes)} wake-ups at {now}")
        self.wake_at = wakes[0] if wakes else None
        if wakes:
            self.done = False  # It waits for something again, and will have to say so when it no longer does.
        for command in told:
            match command:
                case commands.Start(unit, attempt, alone):
                    self._judge_alone(unit, alone=alone)
                    self._started(unit, attempt, now)
                case commands.Requeue(unit, not_before):
                    self._requeued(unit, not_before, now)
                case commands.Finish(unit, status, code):
                    self._finished(unit, status, code, now)
                case commands.CancelAttempt(unit):
                    self._asked(unit)
                case commands.Notice(key, what, reason, until):
                    self._judge_notice(key, reason)
                    self.lanes[key].notice(what, until, reason)
                    if what == "breaker_closed":
                        self._hasten(key)  # What let others probe first may start.
                case commands.Fetch() | commands.FetchSerial() | commands.FetchRest():
                    self._judge_fetch(command)
                case commands.Render(unit):
                    self._judge_render(unit)
                case commands.Done(reason):
                    self._ended(reason, now)

    def _judge_fetch(self, fetch: commands.AnyFetch) -> None:
        require(fetch.n > 0, "fetch", f"{fetch} brings nothing")
        self.done = False  # As with a wake-up.
        if isinstance(fetch, commands.Fetch):
            lane = fetch.lane
            require(lane not in self.fetching, "fetch", f"lane {lane} fetches twice at once")
            require(lane not in self.dry, "fetch", f"lane {lane} fetches, and its source has no more")
            require(
                self.mode == "run" and not self.paused, "fetch", f"lane {lane} fetches, and nothing may start"
            )
            self.fetching.add(lane)
            self.refreshed.discard(lane)
        elif isinstance(fetch, commands.FetchSerial):
            require(not self.fetching_serial, "fetch", "serial units are fetched twice at once")
            self.fetching_serial = True
        else:
            under_way = self.fetching or self.fetching_serial or self.fetching_rest
            require(not under_way, "fetch", "the rest is fetched while other units are on their way")
            require(self.mode == "deadline", "fetch", "the rest is fetched, and the run is not over")
            self.fetching_rest = True

    def _judge_render(self, unit: Unit) -> None:
        """A request is made once, from answers that are there."""
        index = unit.index
        require(
            unit.late and self.units.get(index) == unit, "render", f"the request of unit {index} is known"
        )
        require(index in self.taken and self.waiting(unit), "render", f"unit {index} does not wait")
        require(index not in self.rendering, "render", f"the request of unit {index} is made twice at once")
        waits = [one for one in unit.after if self.ended.get(one) not in GOOD]
        require(not waits, "dependency", f"the request of unit {index} is made before {waits} succeeded")
        require(self.mode == "run" and not self.paused, "render", f"unit {index}, and nothing may start")
        self.rendering.add(index)
        self.done = False

    def _judge_notice(self, key: str, reason: NoticeReason) -> None:
        """A lane is not stopped for want of money while anything is out that may turn out cheaper."""
        if isinstance(reason, LaneBudgetSpent):
            lane_budgets = [
                lane_budget
                for lane_budget in self.lanes[key].spec.lane_budgets
                if lane_budget.name == reason.budget
            ]
            require(len(lane_budgets) == 1, "budget", f"lane {key} stopped: {reason}")
            out = self._out_of(lane_budgets[0].name)
            require(not out, "budget", f"lane {key} stopped while ${out} of its budget is in flight")

    def _asked(self, unit: Unit) -> None:
        """An attempt is stopped for a reason; its answer may have come within the same call."""
        flight = self.flights.get(unit.index) or self.landed.get(unit.index)
        doomed = flight is not None and bool(flight.fate)
        require(doomed, "cancel", f"nobody asked to stop unit {unit.index}")
        if flight is not None:
            flight.asked = True

    def _requeued(self, unit: Unit, not_before: float, now: float) -> None:
        index, slack = unit.index, slack_s(now)
        due = self.due.pop(index, None)
        require(due is not None, "lost", f"unit {index} went back without an answer")
        assert due is not None
        require(due.again, "retries", f"unit {index} went back, due was {due}")
        require(not_before >= due.earliest - slack, "hint", f"unit {index} may go at {not_before}: {due}")
        require(not_before <= due.latest + slack, "hint", f"unit {index} waits until {not_before}: {due}")
        self.fortunes[index].not_before = not_before
        self.fortunes[index].hastened = unit.lane in self.reopened

    def _finished(self, unit: Unit, status: Status, code: str, now: float) -> None:
        index = unit.index
        require(index not in self.ended, "after end", f"unit {index} ended twice")
        require(index not in self.flights, "lost", f"unit {index} ended while it was in flight")
        due = self.due.pop(index, None)
        if due is None:
            self._judge_unanswered(unit, status, code)
        else:
            require(status in due.ends, "retries", f"unit {index} {status} ({code}), due was {due}")
        self.ended[index] = status
        self.done = False

    def _judge_unanswered(self, unit: Unit, status: Status, code: str) -> None:
        """Ends without an attempt need a reason that can be seen from outside."""
        reasons = {
            Status.CANCELLED: unit.index in self.unwanted,
            Status.SKIPPED: any(self.ended.get(index, Status.SUCCEEDED) not in GOOD for index in unit.after),
            Status.TIMED_OUT: self.mode == "deadline",
            Status.FAILED: (code == Kind.TOO_LARGE and self._too_large(unit))
            or (code == Kind.INVALID and unit.index in self.impossible),
        }
        require(reasons.get(status, False), "status", f"unit {unit.index} {status} ({code}) for no reason")

    def _too_large(self, unit: Unit) -> bool:
        lane = self.lanes[unit.lane]
        limits, costs = lane.limits, lane.spec.counting.reserved(unit.estimate)
        configured = (limits.rpm, limits.tpm, limits.input_tpm, limits.output_tpm, limits.rpd, limits.tpd)
        over = (limit and cost > limit for limit, cost in zip(configured, (*costs, *costs[:2]), strict=True))
        return lane.reported or any(over)

    # -- starts -----------------------------------------------------------------------------------------------

    def _started(self, unit: Unit, attempt: int, now: float) -> None:
        index = unit.index
        fortune = self.fortunes.setdefault(index, Fortune())
        self._judge_place(unit, now)
        self._judge_run(index, now)
        self._judge_turn(unit, fortune, now)
        self._judge_budget(unit)
        require(
            attempt == fortune.tries + 1, "retries", f"try {attempt} of unit {index}, was {fortune.tries}"
        )
        lane = self.lanes[unit.lane]
        lane.judge(unit, now, [one for one in self.flights.values() if one.unit.lane == unit.lane])
        fortune.tries = attempt
        self.flights[index] = lane.start(unit, now)
        self.last_start_at = now
        self.done = False

    def _judge_alone(self, unit: Unit, *, alone: bool) -> None:
        """A unit whose worker died twice runs alone, one such unit of a lane at a time; no other unit does."""
        fortune = self.fortunes.setdefault(unit.index, Fortune())
        suspect = fortune.crashes >= SUSPECT_CRASHES
        require(alone == suspect, "alone", f"unit {unit.index} after {fortune.crashes} deaths: alone={alone}")
        others = [
            index
            for index, flight in self.flights.items()
            if flight.unit.lane == unit.lane and self.fortunes[index].alone
        ]
        require(not (alone and others), "alone", f"unit {unit.index} started beside the suspect {others}")
        fortune.alone = alone

    def _judge_place(self, unit: Unit, now: float) -> None:
        index = unit.index
        require(self.units.get(index) == unit, "lost", f"unit {index} is not one that was given")
        require(index not in self.ended, "after end", f"unit {index} started after it had ended")
        require(
            index not in self.flights and index not in self.due, "twice", f"unit {index} is in flight twice"
        )
        require(index in self.taken, "lost", f"unit {index} was never handed out")
        require(not unit.late, "render", f"unit {index} started without its request")

    def _judge_run(self, index: int, now: float) -> None:
        """The whole run lets something start now."""
        require(not self.paused, "paused", f"unit {index} started at {now}")
        require(
            self.mode == "run", "deadline" if self.mode == "deadline" else "over", f"unit {index} started"
        )
        require(not self.done or self.revived, "over", f"unit {index} started after the end was reported")
        out, cap = len(self.flights), self.concurrency
        require(
            not cap or out < cap, "global cap", f"unit {index} started beside {out} others, {cap} allowed"
        )
        gap_s, delay_s = now - self.last_start_at, self.settings.delay_s
        require(gap_s >= delay_s - slack_s(now), "delay", f"unit {index} started {gap_s} s after another")

    def _judge_turn(self, unit: Unit, fortune: Fortune, now: float) -> None:
        index = unit.index
        early = now < fortune.not_before - slack_s(now) and not fortune.hastened
        require(not early, "not before", f"unit {index} started at {now}, before {fortune.not_before}")
        waits = [one for one in unit.after if self.ended.get(one) not in GOOD]
        require(not waits, "dependency", f"unit {index} started before {waits} succeeded")
        self._judge_serial(unit)
        self._judge_order(unit, now)

    def _judge_serial(self, unit: Unit) -> None:
        """Serial units go first, alone and by index, but for those whose lane was stopped or that wait for others."""
        phase = {index for index in self.serial if self._in_serial_phase(index)}
        if unit.index in phase:
            first = min(phase)
            require(not self.flights, "serial", f"unit {unit.index} is serial and started beside others")
            require(unit.index == first, "serial", f"serial unit {unit.index} started before {first}")
        elif unit.index not in self.serial:
            require(not phase, "serial", f"unit {unit.index} started before the serial {phase}")

    def _in_serial_phase(self, index: int) -> bool:
        unit = self.units[index]
        return index not in self.ended and not unit.after and not self.lanes[unit.lane].ever_stopped

    def _judge_order(self, unit: Unit, now: float) -> None:
        """Nothing of this lane that was there before and might have gone stands higher."""
        for index in self.taken_before - self.ended.keys() - self.flights.keys():
            other = self.units[index]
            if other.lane == unit.lane and self._goes_before(other, unit):
                fortune = self.fortunes.get(index, Fortune())
                ripe = fortune.not_before < now and fortune.crashes < SUSPECT_CRASHES
                waits = self._waits(other) or other.late
                require(not ripe or waits, "order", f"unit {unit.index} started before {index}")

    def _goes_before(self, other: Unit, unit: Unit) -> bool:
        """Whether the other one must start first. What a unit without `expected_s` is expected to take is the lane's affair, and
        with `auto` so is which of the two orders is in force."""
        order = self.lanes[unit.lane].spec.order
        if other.priority != unit.priority or order == "input":
            return (-other.priority, other.index) < (-unit.priority, unit.index)
        if not (other.expected_s and unit.expected_s):
            return False
        longer = (-other.expected_s, other.index) < (-unit.expected_s, unit.index)
        return longer and (order == "longest" or other.index < unit.index)

    def _waits(self, unit: Unit) -> bool:
        return any(self.ended.get(one) not in GOOD for one in unit.after)

    # -- the budget ---------------------------------------------------------------------------------------------

    def fits_budget(self, unit: Unit) -> bool:
        """Whether what was spent, what is in flight and this stay within the cap."""
        out = [flight.unit.estimate for flight in self.flights.values()] + [unit.estimate]
        usd = self.spent_usd + sum(estimate.cost_usd for estimate in out)
        most_usd = self.settings.max_cost_usd
        return (not most_usd or usd <= most_usd + ROUNDING) and self.fits_lane_budgets(unit)

    def fits_lane_budgets(self, unit: Unit) -> bool:
        """Whether the budgets of its lane, which others may share, have room for it."""
        return all(
            self.spent_of[lane_budget.name] + self._out_of(lane_budget.name) + unit.estimate.cost_usd
            <= lane_budget.max_cost_usd + ROUNDING
            for lane_budget in self.lanes[unit.lane].spec.lane_budgets
        )

    def _out_of(self, lane_budget: str) -> float:
        """What is set aside of a lane's budget."""
        return sum(
            flight.unit.estimate.cost_usd
            for flight in self.flights.values()
            if any(one.name == lane_budget for one in self.lanes[flight.unit.lane].spec.lane_budgets)
        )

    @property
    def capped(self) -> bool:
        lane_budgets = any(lane.spec.lane_budgets for lane in self.lanes.values())
        return bool(self.settings.max_cost_usd or lane_budgets)

    def _judge_budget(self, unit: Unit) -> None:
        require(self.fits_budget(unit), "budget", f"unit {unit.index} started beyond it")

    # -- between two calls ----------------------------------------------------------------------------------------

    def pending(self) -> set[int]:
        """The units that the scheduler must have in memory."""
        return self.taken - self.ended.keys() - self.flights.keys()

    def _close(self, now: float) -> None:
        require(not self.due, "lost", f"units {sorted(self.due)} were answered and are nowhere")
        forgotten = self.unwanted & self.pending()
        require(not forgotten or self.expiring, "cancel", f"units {sorted(forgotten)} are still there")
        unasked = [index for index, flight in self.flights.items() if flight.fate and not flight.asked]
        require(not unasked, "cancel", f"nobody stopped {unasked}")
        self._judge_wake(now)

    @property
    def expiring(self) -> bool:
        """Whether a deadline is being reported, a portion a call: some units are then between two places."""
        return self.mode == "deadline" and self.fetching_rest

    def _judge_wake(self, now: float) -> None:
        wake_at, deadline_at = self.wake_at, self.settings.deadline_at
        if wake_at is not None:
            require(wake_at > now, "wake", f"wake-up at {wake_at}, it is {now}")
        ticking = self.mode == "run" or (self.mode == "aborted" and self.flights)
        if ticking and deadline_at is not None and now < deadline_at and not self.done:
            timely = wake_at is not None and wake_at <= deadline_at
            require(timely, "liveness", "the deadline has no wake-up")
        if wake_at is None and not (self.paused and self.mode == "run"):
            self._judge_silence(now)

    def _judge_silence(self, now: float) -> None:
        """Without a wake-up only an answer or further input may be awaited."""
        if not self.flights and not self.done:
            waits_for_input = self.input_open and self.mode == "run"
            waits_for_units = self.fetching or self.fetching_serial or self.fetching_rest or self.rendering
            require(
                bool(waits_for_input or waits_for_units),
                "liveness",
                f"nothing in flight, no wake-up, no end at {now}",
            )
        if self.mode == "run" and self.done and not self.flights and self._late_work_is_too_dear():
            self.mode = "budget"  # The end had been reported before.
        if self._free_for_all():
            stranded = [key for key, lane in self.lanes.items() if self._stranded(lane)]
            require(not stranded, "liveness", f"lanes {stranded} have work and no wake-up at {now}")

    def _late_work_is_too_dear(self) -> bool:
        """Whether something that came or was reopened after the end can only be waiting for money."""
        waits = any(self.runnable(unit) and not self.lanes[unit.lane].closed for unit in self.units.values())
        return self.revived and self.capped and not self.paused and waits

    def _free_for_all(self) -> bool:
        """Whether nothing that lanes share keeps any of them back."""
        full = self.concurrency and len(self.flights) >= self.concurrency
        serial = self.fetching_serial or any(index not in self.ended for index in self.serial)
        return self.mode == "run" and not self.paused and not full and not self.capped and not serial

    def _stranded(self, lane: LaneBook) -> bool:
        if lane.closed or lane.flights or any(unit.index in self.rendering for unit in self._of(lane)):
            return False
        if lane.spec.key not in self.fetching:
            return any(map(self.runnable, self._of(lane)))
        waiting = lane.spec.order == "auto"  # It may choose among what is being fetched, too.
        return not waiting and any(self.runnable(unit) for unit in self._of(lane) if unit.index in self.taken)

    def _of(self, lane: LaneBook) -> list[Unit]:
        return [unit for unit in self.units.values() if unit.lane == lane.spec.key]

    def waiting(self, unit: Unit) -> bool:
        """It has neither ended nor is it in flight."""
        return unit.index not in self.ended and unit.index not in self.flights

    def runnable(self, unit: Unit) -> bool:
        """It waits for nothing but time and room."""
        return self.waiting(unit) and not self._waits(unit)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _ended(self, reason: str, now: float) -> None:
        require(not self.done or self.may_repeat, "done", f"the end was reported twice, now as {reason}")
        require(not self.flights, "done", f"{sorted(self.flights)} are in flight at the end")
        require(self.wake_at is None, "done", "the end and a wake-up")
        early = self.fetching and reason in ("complete", "stopped", "parked")
        require(not (self.rendering and reason == "complete"), "done", f"{sorted(self.rendering)} are left")
        require(not early, "done", f"{reason} while {sorted(self.fetching)} fetch")
        self.done, self.revived, self.may_repeat, self.reason = True, False, False, reason
        left = [unit for index, unit in self.units.items() if index not in self.ended]
        require(self._reasons(left).get(reason, False), "done", f"{reason} at {now}, left {_indices(left)}")
        if reason == "budget" and not self._all_broke(left):
            self.mode = "budget"  # The run's own, that is: a lane that is out of money may be reopened.

    def _reasons(self, left: list[Unit]) -> dict[str, bool]:
        """Which ends can be told apart from outside."""
        ran = self.mode == "run" and not self.input_open and not self.paused
        held_back = bool(left) and any(self.lanes[unit.lane].closed for unit in left)
        return {
            "complete": ran and not left,
            "stopped": ran and held_back,
            "parked": ran and held_back and self.settings.max_hold_s is not None,
            "budget": self.mode == "budget" or (ran and (self._broke(left) or self._all_broke(left))),
            "aborted": self.mode == "aborted",
            "deadline": self.mode == "deadline" and not self.pending() | self.drained - self.ended.keys(),
        }

    def out_of_money(self, unit: Unit) -> bool:
        """Whether its lane was stopped because its own budget is used up, or that of a unit which it waits for."""
        upstream = (self.units[index] for index in unit.after if index not in self.ended)
        return self.lanes[unit.lane].broke or any(map(self.out_of_money, upstream))

    def _all_broke(self, left: list[Unit]) -> bool:
        """Whether every lane that has anything left was stopped because its own budget is used up."""
        lanes = {unit.lane: self.lanes[unit.lane] for unit in left if not self._waits(unit)}
        return bool(lanes) and all(lane.closed and lane.broke for lane in lanes.values())

    def _broke(self, left: list[Unit]) -> bool:
        """Whether what stands first in each lane that has anything left does not fit the budget."""
        if any(unit.index in self.serial and not self.fits_budget(unit) for unit in left):
            return True  # It stands before everything else.
        taken = [unit for unit in left if unit.index in self.taken]
        ready = [unit for unit in taken if self.runnable(unit) and not self.lanes[unit.lane].closed]
        firsts: dict[str, list[Unit]] = {}
        for unit in ready:
            same = [other for other in ready if other.lane == unit.lane]
            if not any(self._goes_before(other, unit) for other in same):
                firsts.setdefault(unit.lane, []).append(unit)
        return bool(firsts) and not any(all(map(self.fits_budget, units)) for units in firsts.values())


def _indices(units: Iterable[Unit]) -> list[int]:
    return [unit.index for unit in units]


__all__ = ["Books", "Violation"]
