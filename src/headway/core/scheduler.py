"""Decides which unit starts when. Events in, commands out, time as an argument; nothing else.

`handle(events, now)` first lets every event change the state, then starts whatever may start, lane by lane,
and last says when it wants to be called again. It looks only at lanes that an event touched or whose instant
has come, so an idle lane costs nothing. Lanes never see each other; what they share is here: the global cap,
the budget, the deadline, the serial phase, and the units that wait for other units.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush, merge
from operator import attrgetter
from typing import Any, Final, Literal

from headway.core import commands, events
from headway.core.breaker import MOSTLY
from headway.core.budget import Budget, Costliest
from headway.core.commands import Command
from headway.core.dependencies import Dependencies
from headway.core.estimate import FIRST_RESERVE
from headway.core.events import Event
from headway.core.lane import Lane
from headway.core.model import Kind, LaneSpec, Outcome, Purse, Settings, Unit
from headway.core.queue import ALWAYS, NEVER, Entry
from headway.core.retry import HOPELESS, LANE_STOPPERS, THROTTLES, believed, unpaid
from headway.core.source import Source
from headway.core.status import GOOD, MOVES, Move, Status, after
from headway.core.verdict import judge

#: Units that may wait in memory for other units before a lane that has something to do stops reading on.
MOST_BLOCKED: Final = 10_000
#: Ends that one call may report when a deadline closes a job of any size.
EXPIRY_BATCH: Final = 10_000
ANSWERS_AGAIN: Final = "the provider answers again"
NEVER_ANSWERED: Final = "never an answer"
#: Instants closer than this are the same.
EPSILON_S: Final = 1e-9
#: So long after a probe is due, the unit whose probe failed may go again.
BEHIND_S: Final = 0.001

_STARTED: Final = {Status.PENDING: after(after(Status.PENDING, Move.ASSIGN), Move.RUN)}
#: What says nothing about a lane: the death of a worker, and where failures are the units' own everything that breaks off.
_CRASHES: Final = frozenset({Kind.CRASH})
_OWN: Final = frozenset({Kind.CRASH, Kind.TRANSIENT, Kind.TIMEOUT})
_CUT_SHORT: Final = Outcome(kind=Kind.TRANSIENT, message="cancelled")
_NEVER_SENT: Final = Outcome(kind=Kind.TRANSIENT, message="cancelled", sent=False)


class Scheduler:
    """The pure core: the state of a run and the one method that changes it."""

    def __init__(
        self, lanes: Iterable[LaneSpec], source: Source, settings: Settings | None = None, now: float = 0.0
    ) -> None:
        self.settings = settings or Settings()
        self.source = source
        self.lanes: dict[str, Lane] = {}
        self.out: dict[int, Entry] = {}
        self.waiting = Dependencies()
        self.budget = Budget(self.settings.max_cost_usd, self.settings.max_tokens)
        #: Where costs are told late: what they have been.
        self.costliest = Costliest() if self.settings.costs_told_late else None
        #: The budgets of lanes, by name: several lanes may share one.
        self.purses: dict[str, Budget] = {}
        self.concurrency = self.settings.concurrency
        self.mode: Literal["run", "aborted", "deadline", "budget"] = "run"
        self.paused = False
        self.serial: Entry | None = None
        self.serial_phase = True
        self.input_open = self.settings.input_open
        self.done = False
        self._unwanted: set[int] = set()
        self._news: deque[tuple[int, bool]] = deque()
        self._dirty: dict[str, Lane] = {}
        self._starved: dict[str, Lane] = {}
        self._broke: dict[str, Lane] = {}
        self._wakes: list[tuple[float, str]] = []
        self.next_start_at = ALWAYS
        self._expiring: Iterator[Unit | Entry] | None = None
        self._commands: list[Command] = []
        self._react: dict[type, Callable[[Any, float], None]] = {
            events.Admitted: self._admitted,
            events.Finished: self._finished,
            events.Unfit: self._unfit,
            events.Cancelled: self._cancelled,
            events.HoldLane: self._hold_lane,
            events.StopLane: self._stop_lane,
            events.ReopenLane: self._reopen_lane,
            events.OpenLane: self._open_lane,
            events.SetLimits: self._set_limits,
            events.Share: self._share,
            events.SetConcurrency: self._set_concurrency,
            events.MoreWork: self._more_work,
            events.InputClosed: self._input_closed,
            events.CancelUnit: self._cancel_unit,
            events.Pause: self._pause,
            events.Resume: self._resume,
            events.Abort: self._abort,
        }
        for spec in lanes:
            self._open_lane(events.OpenLane(spec), now)

    def handle(self, happened: Sequence[Event], now: float) -> list[Command]:
        """Take what happened, at `now`; returns what to do, at most one wake-up among it."""
        self._commands = []
        react = self._react
        for event in happened:
            react[type(event)](event, now)
        self._advance(now)
        return self._commands

    # -- what happened to an attempt ------------------------------------------------------------------

    def _admitted(self, event: events.Admitted, now: float) -> None:
        entry = self.out.get(event.index)
        if entry is None:
            return
        lane = entry.lane
        meters = lane.meters
        lane.first_words(entry, now)
        others = lane.others
        lane.admitted(entry, event.hint, now, event.usage)
        if lane.meters is not meters:
            self._tell_limits(lane)
        if lane.others != others:
            self._tell_of_others(lane, others)
        if lane.breaker.troubled and lane.breaker.admitted(entry.seq):
            self._notice(lane, "breaker_closed", ANSWERS_AGAIN)
        self._dirty[lane.key] = lane

    def _finished(self, event: events.Finished, now: float) -> None:
        entry = self.out.pop(event.index, None)
        if entry is None:
            return  # A late answer of an attempt that was settled before.
        lane, outcome = entry.lane, event.outcome
        self._release(entry, outcome, now)
        if outcome.kind is None:
            lane.succeeded += 1
            lane.invalid_run = 0
            self._recover(lane, entry)
            self._end(entry, Move.SUCCEED)
        elif entry.fate:
            self._meet_fate(entry, now)
        else:
            self._failed(entry, believed(outcome), outcome.kind, now)

    def _unfit(self, event: events.Unfit, now: float) -> None:
        """An answer that does not fit is the model's fault, never the lane's: the unit alone pays, with an attempt."""
        entry = self.out.pop(event.index, None)
        if entry is None:
            return
        lane = entry.lane
        self._release(entry, event.outcome, now)
        lane.invalid_run = 0
        self._recover(lane, entry)
        lane.drop_probe(entry)
        entry.attempts += 1
        if event.again is not None:
            entry.unit, entry.fits = event.again, None
        if entry.fate:
            self._meet_fate(entry, now)
        elif event.again is not None and entry.attempts < lane.spec.retry.max_attempts:
            self._put_back(entry, Move.RETRY, now, Kind.INVALID, event.message)
        else:
            self._end(entry, Move.FAIL, Kind.INVALID, event.message)

    def _cancelled(self, event: events.Cancelled, now: float) -> None:
        entry = self.out.pop(event.index, None)
        if entry is not None:
            self._release(entry, _CUT_SHORT if event.sent else _NEVER_SENT, now)
            self._meet_fate(entry, now)

    def _release(self, entry: Entry, outcome: Outcome, now: float) -> None:
        """Give back what the attempt held: its lane's permit, the global one, the budget set aside."""
        lane = entry.lane
        meters = lane.meters
        others = lane.others
        lane.release(entry, outcome, now)
        if entry.suspect:
            lane.queue.ended(entry)
        if lane.meters is not meters:
            self._tell_limits(lane)
        if lane.others != others:
            self._tell_of_others(lane, others)
        self._dirty[lane.key] = lane
        budget, purses = self.budget, lane.purses
        if self.costliest is not None:
            if self.costliest.saw(lane.key, outcome.usage):
                self._reprice(lane, self.costliest)
            budget.spend(entry.unit.estimate, outcome.usage)
        elif not unpaid(outcome):
            budget.spend(entry.estimate, outcome.usage)
            for purse in purses:
                purse.spend(entry.estimate, outcome.usage)
        if budget.capped or purses:
            budget.release(entry.estimate)
            for purse in purses:
                purse.release(entry.estimate)
            lane.shortage.guesses -= entry.guess
            self._dirty.update(self._broke)
            self._broke.clear()

    def _reprice(self, lane: Lane, costliest: Costliest) -> None:
        """What is in flight may cost as much as the dearest call so far: set that aside for it, too."""
        for entry in self.out.values():
            if entry.lane is lane:
                estimate = costliest.priced(entry.estimate, lane.key)
                if self.budget.capped:
                    self.budget.reprice(entry.estimate, estimate)
                entry.estimate = estimate

    def _meet_fate(self, entry: Entry, now: float) -> None:
        """An attempt that we stopped has ended: it goes where the reason for stopping it says."""
        entry.lane.drop_probe(entry)
        if entry.fate == "unwanted":
            self._end(entry, Move.CANCEL, "interrupted", "cancelled")
        elif entry.fate == "deadline":
            self._end(entry, Move.TIME_OUT, "deadline", "the run's deadline passed while it was in flight")
        else:
            self._put_back(entry, Move.RELEASE, now, None, "interrupted")

    def _failed(self, entry: Entry, outcome: Outcome, kind: Kind, now: float) -> None:
        """The lane learns, the unit's budget pays, and the unit goes back or ends."""
        lane = entry.lane
        if outcome.reached or lane.succeeded:
            lane.breaker.heard = True
        if kind in THROTTLES:
            hinted_at = self._throttled(entry, outcome, now)
        elif kind in LANE_STOPPERS or kind in HOPELESS:
            hinted_at = ALWAYS
            lane.went_ahead(entry)
        else:
            hinted_at = lane.heed(outcome, now) or ALWAYS
            if kind is not Kind.OVERLOAD:
                lane.went_ahead(entry)
        verdict = judge(entry, outcome, hinted_at, now)
        probe = entry.probe
        lane.drop_probe(entry)
        if verdict.move is Move.RETRY:
            not_before = verdict.not_before
            if (
                probe == "breaker"
            ):  # The next probe is another one's, if there is one: this may be at fault itself.
                not_before = max(not_before, now + lane.breaker.next_pause_s + BEHIND_S)
            self._put_back(entry, Move.RETRY, not_before, kind, verdict.message or outcome.message)
        else:
            self._end(entry, verdict.move, kind, verdict.message)
        if kind in LANE_STOPPERS:
            self._stop(lane, f"{kind}: {outcome.message}")
        elif kind in HOPELESS:
            self._recover(lane, entry)
            self._count_invalid(entry, kind, outcome.message)
        elif lane.held_until > now:
            self._announce_hold(lane, now)
        elif probe == "breaker" or kind not in (_OWN if lane.spec.own_failures else _CRASHES):
            self._count_failure(entry, kind, outcome.message, now, probe=probe == "breaker")

    def _throttled(self, entry: Entry, outcome: Outcome, now: float) -> float:
        """The lane learns from a refusal; say so where it learns something that people should know."""
        lane = entry.lane
        ramp, finder = lane.ramp, lane.finder
        fell_to = 1.0 if finder is None else finder.fell_to
        hinted_at = lane.throttled(entry, outcome, now)
        if lane.ramp is not ramp and lane.ramp is not None:
            text = f"its use grew too fast for the provider: from {lane.ramp.free_per_minute:,.0f} "
            text += f"{lane.ramp.dimension.replace('_', ' ')} per minute it grows by half every {lane.ramp.period_s / 60:.0f} min"
            self._notice(lane, "limit", text)
        if finder is not None and finder.fell_to < min(1.0, fell_to):
            text = f"it takes {finder.fell_to:.0%} of what it took before: its limit was lowered, or somebody else uses this key too"
            self._notice(lane, "shared", text)
        return hinted_at

    def _tell_limits(self, lane: Lane) -> None:
        """Say what limits are in force, where that is news."""
        told = lane.told()
        if told != lane.told_last:
            lane.told_last = told
            self._notice(lane, "limit", told)

    def _tell_of_others(self, lane: Lane, before: float) -> None:
        """Say once that somebody else uses the key, and once that nobody does any more."""
        if lane.others and not before:
            self._notice(
                lane, "shared", f"somebody else on this key uses about {lane.others:.0%} of its limit"
            )
        elif before and not lane.others:
            self._notice(lane, "shared", "nobody else seems to use this key any more")

    def _count_failure(self, entry: Entry, kind: Kind, message: str, now: float, *, probe: bool) -> None:
        """Feed the breaker; say so when it opens, and stop the lane when it has been open for too long."""
        lane = entry.lane
        breaker = lane.breaker
        said = f"{kind}: {message}" if message else str(kind)
        breaker.hear(message or str(kind), entry.started_at)
        refused = kind in THROTTLES
        if breaker.failed(
            now,
            refused=refused,
            at_floor=lane.at_floor,
            probe=probe,
            sent=lane.seq,
            admitted=entry.accepted,
        ):
            text = f"{breaker.failures + breaker.refusals} failures in a row; only probes go from now on. The last was {said}"
            self._notice(lane, "breaker_opened", text, breaker.probe_at)
        elif breaker.out_of_patience(now) and breaker.heard:
            self._stop(lane, f"nothing but failures for {breaker.open_s(now):.0f} s, the last was {said}")
        elif breaker.out_of_patience(now):
            self._stop(lane, f"{kind}: {NEVER_ANSWERED}, tried for {now - breaker.began_at:.0f} s: {message}")

    def _recover(self, lane: Lane, entry: Entry) -> None:
        """The lane answers: forget its failures."""
        breaker = lane.breaker
        if breaker.troubled and breaker.succeeded(entry.seq):
            self._notice(lane, "breaker_closed", ANSWERS_AGAIN)

    def _count_invalid(self, entry: Entry, kind: Kind, message: str) -> None:
        """The same complaint again and again is about the lane's settings, not about the units.

        Complaints come back sooner than answers do. So the run is weighed against the unanswered attempts that went out
        before this one, or before the run's first complaint came back: each of them may still succeed.
        """
        lane, most = entry.lane, self.settings.max_identical_invalid
        if kind is not Kind.INVALID or not most:
            return
        if message != lane.last_invalid or not lane.invalid_run:
            lane.last_invalid, lane.invalid_run, lane.invalid_since = message, 0, lane.seq
        lane.invalid_run += 1
        if lane.invalid_run < most or lane.spent:
            return
        newest = max(entry.seq, lane.invalid_since)
        unanswered = sum(other.lane is lane and other.seq <= newest for other in self.out.values())
        if lane.invalid_run >= MOSTLY * (lane.invalid_run + unanswered):
            self._stop(lane, f"{lane.invalid_run} units in a row failed with: {message}")

    # -- where a unit goes ----------------------------------------------------------------------------

    def _put_back(self, entry: Entry, move: Move, not_before: float, kind: Kind | None, reason: str) -> None:
        """The unit is pending again and holds nothing."""
        entry.status = after(entry.status, move)
        entry.not_before = not_before
        entry.why = str(kind or reason)
        entry.fate = ""
        entry.lane.queue.delay(entry)
        self._commands.append(commands.Requeue(entry.unit, not_before, kind, reason))

    def _end(self, entry: Entry, move: Move, code: str = "", message: str = "") -> None:
        """The unit has ended; whoever waits for it goes on, or never will."""
        entry.status = status = MOVES[entry.status, move]
        unit = entry.unit
        self._commands.append(commands.Finish(unit, status, code, message))
        if move is not Move.SUCCEED:
            entry.lane.failed += 1
        self.done = False
        if entry is self.serial:
            self.serial = None
        if unit.leads:
            self._news.append((unit.index, status in GOOD))
            if len(self._news) == 1:
                self._spread_news()

    def _spread_news(self) -> None:
        """Tell those who wait, and whoever waits for those that are skipped now, in turn and not in depth.

        After a deadline nobody is skipped: everything is reported by its index.
        """
        while self._news:
            index, good = self._news[0]
            for follower in self.waiting.ended(index, good=good):
                if good:
                    follower.lane.queue.push(follower)
                    self._dirty[follower.lane.key] = follower.lane
                elif self.mode != "deadline":
                    self._skip(follower, index)
            self._news.popleft()

    def _skip(self, entry: Entry, upstream: int) -> None:
        self._end(
            entry, Move.SKIP, "upstream_failed", f"unit {upstream}, which it builds on, did not succeed"
        )

    # -- what somebody asks for -------------------------------------------------------------------------

    def _open_lane(self, event: events.OpenLane, now: float) -> None:
        """A lane that is there already takes the new limits and keeps everything else."""
        lane = self.lanes.get(event.spec.key)
        if lane is None:
            lane = self.lanes[event.spec.key] = Lane(event.spec, now, self.out)
            lane.purses = tuple(map(self._purse, event.spec.purses))
        else:
            lane.configure(event.spec.limits, now)
        self._dirty[lane.key] = lane

    def _purse(self, purse: Purse) -> Budget:
        """The budget of that name: the first lane that names it says how much it holds."""
        if purse.name not in self.purses:
            self.purses[purse.name] = Budget.of(purse)
        return self.purses[purse.name]

    def _hold_lane(self, event: events.HoldLane, now: float) -> None:
        lane = self.lanes[event.lane]
        lane.hold(event.until, event.reason)
        self._announce_hold(lane, now)
        self._dirty[lane.key] = lane

    def _announce_hold(self, lane: Lane, now: float) -> None:
        """Say once that a lane is held; a hold longer than anyone wants to wait parks it."""
        longest_s = self.settings.max_hold_s
        if longest_s is not None and lane.held_until - now > longest_s:
            self._stop(lane, lane.hold_reason, parked=True)
        elif lane.hold_is_news:
            lane.closed(now)
            lane.announced_until = lane.held_until
            self._notice(lane, "held", lane.hold_reason, lane.held_until)

    def _mind_hold(self, lane: Lane, now: float) -> None:
        """Announce a hold that came with a lane's memory, and the end of any."""
        if lane.held_until > now:
            self._announce_hold(lane, now)
        elif lane.announced_until > ALWAYS:
            lane.freed(lane.held_until)
            lane.announced_until = lane.held_until = ALWAYS
            self._notice(lane, "released", lane.hold_reason)

    def _stop_lane(self, event: events.StopLane, now: float) -> None:
        self._stop(self.lanes[event.lane], event.reason)

    def _stop(self, lane: Lane, reason: str, *, parked: bool = False, broke: bool = False) -> None:
        """Close a lane for this run, with one explanation; its units stay pending."""
        if not lane.stopped:
            lane.stopped = reason or "stopped"
            lane.parked, lane.broke = parked, broke
            self._notice(lane, "stopped", lane.stopped, lane.held_until if parked else None)
        self._dirty[lane.key] = lane

    def _reopen_lane(self, event: events.ReopenLane, now: float) -> None:
        lane = self.lanes[event.lane]
        lane.reopen()
        lane.freed(now)
        self._notice(lane, "reopened", "as asked")
        self._dirty[lane.key] = lane

    def _set_limits(self, event: events.SetLimits, now: float) -> None:
        lane = self.lanes[event.lane]
        lane.configure(event.limits, now)
        self._tell_limits(lane)
        self._dirty[lane.key] = lane

    def _share(self, event: events.Share, now: float) -> None:
        lane = self.lanes[event.lane]
        lane.share(event.grant, now)
        self._dirty[lane.key] = lane

    def _set_concurrency(self, event: events.SetConcurrency, now: float) -> None:
        self.concurrency = event.limit
        self._dirty.update(self.lanes)

    def _more_work(self, event: events.MoreWork, now: float) -> None:
        lane = self.lanes[event.lane]
        lane.exhausted = False
        self._dirty[lane.key] = lane

    def _input_closed(self, event: events.InputClosed, now: float) -> None:
        self.input_open = False

    def _cancel_unit(self, event: events.CancelUnit, now: float) -> None:
        entry = self.out.get(event.index)
        if entry is not None:
            if not entry.fate:
                self._commands.append(commands.CancelAttempt(entry.unit))
            entry.fate = "unwanted"
            return
        entry = next((one for one in self.in_memory() if one.unit.index == event.index), None)
        if entry is None:
            self._unwanted.add(event.index)  # Not read from the source yet.
            return
        self.waiting.drop(entry)
        self._end(entry, Move.CANCEL, "interrupted", "cancelled")
        self._dirty[entry.lane.key] = entry.lane

    def in_memory(self) -> Iterator[Entry]:
        """Every pending unit that has been taken from the source."""
        for lane in self.lanes.values():
            yield from lane.queue.entries()
        yield from self.waiting.entries()

    def _pause(self, event: events.Pause, now: float) -> None:
        self.paused = True

    def _resume(self, event: events.Resume, now: float) -> None:
        self.paused = False
        self._free_all(now)

    def _free_all(self, now: float) -> None:
        """What kept every lane is over."""
        self._dirty.update(self.lanes)
        for lane in self.lanes.values():
            lane.free_at = max(lane.free_at, now)

    def _abort(self, event: events.Abort, now: float) -> None:
        if self.mode == "run":
            self.mode = "aborted"
        if event.mode == "cancel":
            self._stop_flights("aborted")

    def _stop_flights(self, fate: str) -> None:
        for entry in self.out.values():
            if not entry.fate:
                entry.fate = fate
                self._commands.append(commands.CancelAttempt(entry.unit))

    def _notice(self, lane: Lane, what: Any, text: str, until: float | None = None) -> None:
        self._commands.append(commands.Notice(lane.key, what, text, until))

    # -- starting -----------------------------------------------------------------------------------------

    def _advance(self, now: float) -> None:
        """Start whatever may start now, then ask for the next call or report the end."""
        deadline_at = self.settings.deadline_at
        if deadline_at is not None and now >= deadline_at:
            self._meet_deadline()
        if self._expiring is not None:
            self._expire(self._expiring)
        self._ring_alarms(now)
        if self.mode == "run" and not self.paused:
            if self.serial_phase:
                self._advance_serial(now)
            if not self.serial_phase:
                self._advance_lanes(now)
        if not self.paused:
            self._dirty.clear()
        if self._expiring is not None:
            self._commands.append(commands.Wake(now))
        elif self.out or not self._finish_run():
            self.done = False
            self._ask_for_wake(now)

    def _meet_deadline(self) -> None:
        """Nothing more starts, what is in flight is stopped; what an abort left pending stays so."""
        if self.mode == "run":
            self.mode = "deadline"
            self._expiring = self._unstarted()
        self._stop_flights("deadline")

    def _ring_alarms(self, now: float) -> None:
        wakes = self._wakes
        while wakes and wakes[0][0] <= now + EPSILON_S:
            at, key = heappop(wakes)
            lane = self.lanes[key]
            if lane.wake_at == at:
                lane.wake_at = NEVER
                self._dirty[key] = lane

    def _advance_serial(self, now: float) -> None:
        """Serial units go one by one, in index order, before all others."""
        while not self.out:
            if self.serial is None or self.serial.lane.stopped:
                units = self.source.take_serial(1)
                if not units:
                    self.serial_phase = False
                    self._free_all(now)
                    return
                entry = self._take_in(units[0])
                self.serial = None if entry is None or entry.waits_for else entry
            elif not self._step(self.serial.lane, now) and not self.serial.lane.stopped:
                return

    def _advance_lanes(self, now: float) -> None:
        if self.concurrency:
            self._take_turns(now)
            return
        lanes = tuple(self._dirty.values())
        if self.settings.delay_s:
            lanes = tuple(sorted(lanes, key=attrgetter("last_start_at")))
        for lane in lanes:
            while self._step(lane, now):
                pass

    def _take_turns(self, now: float) -> None:
        """Under a global cap lanes start one unit each in turn; those that waited longest go first."""
        ring = deque({**self._starved, **self._dirty}.values())
        while ring and len(self.out) < self.concurrency:
            lane = ring.popleft()
            if self._step(lane, now):
                ring.append(lane)
        self._starved = {lane.key: lane for lane in ring}

    def _step(self, lane: Lane, now: float) -> bool:
        """Start the lane's next unit if it may start now; otherwise note when to look again."""
        queue = lane.queue
        if queue.delayed:
            queue.ripen(now + EPSILON_S)
        if not lane.exhausted and len(queue.ready) < lane.low:
            self._refill(lane)
        if queue.suspects:
            idle = not lane.in_flight and (lane.exhausted or self.serial_phase)
            queue.try_suspect(now + EPSILON_S, lane_idle=idle)
        ready = queue.ready
        entry = ready[0][3] if ready else None
        if entry is None or entry.status is not Status.PENDING:
            entry = self._next_alive(lane)
        if self._broke:
            self._broke.pop(lane.key, None)
        if lane.held_until > lane.announced_until or lane.announced_until > ALWAYS:
            self._mind_hold(lane, now)
        if entry is None or lane.stopped:
            return self._sleep(lane, NEVER if lane.stopped else queue.next_at())
        if entry.fits is not lane.basis and not self._fit(entry, lane):
            return True
        at, probe = lane.when(entry, now + EPSILON_S)
        if self.next_start_at > at:
            at = self.next_start_at
        if at > now + EPSILON_S:
            return self._sleep(lane, min(at, queue.next_at()))
        return self._start(entry, lane, probe, now)

    def _next_alive(self, lane: Lane) -> Entry | None:
        """The lane's next unit after those that were cancelled meanwhile."""
        entry = lane.queue.head()
        if entry is None and not lane.exhausted:
            self._refill(lane)
            entry = lane.queue.head()
        return entry

    def _start(self, entry: Entry, lane: Lane, probe: str, now: float) -> bool:
        """Take all permits together and charge everything, or nothing."""
        budget, purses = self.budget, lane.purses
        if budget.capped or purses:
            if self.costliest is not None:
                entry.estimate = self.costliest.priced(entry.estimate, lane.key)
            elif entry.unit.output_usd:
                lane.reprice(entry)
                if entry.guess and self._wait_for_answers(entry, lane):
                    lane.shortage.begins(entry.unit, entry.estimate, lane.in_flight, now)
                    return self._sleep(lane, lane.queue.next_at())
            if not (budget.fits(entry.estimate) and self._affordable(entry, lane)):
                lane.shortage.begins(entry.unit, entry.estimate, lane.in_flight, now)
                if not lane.stopped:
                    self._broke[lane.key] = (
                        lane  # What is in flight may turn out cheaper than it was thought.
                    )
                return self._sleep(lane, NEVER if lane.stopped else lane.queue.next_at())
            budget.reserve(entry.estimate)
            for purse in purses:
                purse.reserve(entry.estimate)
            lane.shortage.guesses += entry.guess
            lane.shortage.ends(now)
        if self.settings.delay_s:
            self.next_start_at = now + self.settings.delay_s
        lane.queue.pop()
        lane.charge(entry, now, probe)
        entry.status = _STARTED[entry.status]
        self.out[entry.unit.index] = entry
        self.done = False
        self._commands.append(commands.Start(entry.unit, entry.tries, entry.suspect))
        return True

    def _wait_for_answers(self, entry: Entry, lane: Lane) -> bool:
        """Whether the length of such answers is not known, and as many are out as the caps bear.

        What earlier jobs taught may be wrong: until this run has seen for itself, an answer is taken to be no shorter
        than a new one.
        """
        room_usd = min(budget.room_usd for budget in (self.budget, *lane.purses))
        tokens = max(lane.estimator.reserve(entry.unit.family), FIRST_RESERVE)
        return lane.shortage.too_many_guesses(tokens * entry.unit.output_usd, room_usd)

    def _affordable(self, entry: Entry, lane: Lane) -> bool:
        """Whether the lane's own budgets allow this start. A lane that only more money could move is stopped here."""
        for purse in lane.purses:
            if not purse.fits(entry.estimate):
                if not purse.out and not any(purse.fits(other.estimate) for other in lane.queue.waiting()):
                    self._stop(lane, purse.used_up(entry.estimate), broke=True)
                return False
        return True

    def _sleep(self, lane: Lane, at: float) -> bool:
        """Nothing may start before `at`; always False, for the caller to pass on."""
        if at != lane.wake_at:
            lane.wake_at = at
            if at != NEVER:
                heappush(self._wakes, (at, lane.key))
        return False

    def _fit(self, entry: Entry, lane: Lane) -> bool:
        """Whether the unit can ever be admitted; if not it fails here, with the numbers.

        It was read some time ago: what it is expected to take may be known better by now.
        """
        lane.estimate(entry)
        problem = lane.too_large(entry)
        if problem:
            lane.queue.pop()
            self._end(entry, Move.FAIL, Kind.TOO_LARGE, problem)
            return False
        entry.fits = lane.basis
        return True

    # -- reading the source ---------------------------------------------------------------------------------

    def _refill(self, lane: Lane) -> None:
        if self.serial_phase or (self.waiting.count > MOST_BLOCKED and (lane.in_flight or lane.queue.ready)):
            return
        while len(lane.queue.ready) < lane.low and not lane.exhausted:
            units = self.source.take(lane.key, lane.batch)
            lane.exhausted = len(units) < lane.batch
            for unit in units:
                self._take_in(unit)

    def _take_in(self, unit: Unit) -> Entry | None:
        """Make room for a unit: in its lane's queue, or among those that wait for others."""
        lane = self.lanes[unit.lane]
        entry = lane.entry(unit)
        if self._unwanted and unit.index in self._unwanted:
            self._end(entry, Move.CANCEL, "interrupted", "cancelled")
            return None
        if unit.after:
            upstream = self.waiting.failed(entry)
            if upstream is not None:
                self._skip(entry, upstream)
                return None
            if self.waiting.block(entry):
                return entry
        lane.queue.push(entry)
        return entry

    # -- the end ----------------------------------------------------------------------------------------------

    def _unstarted(self) -> Iterator[Unit | Entry]:
        """Everything that never started, in memory or not, by index."""
        known: list[Unit | Entry] = sorted(self.in_memory(), key=_index_of)
        return merge(known, self._undrawn(), key=_index_of)

    def _undrawn(self) -> Iterator[Unit]:
        while units := self.source.drain(EXPIRY_BATCH):
            yield from units

    def _expire(self, unstarted: Iterator[Unit | Entry]) -> None:
        """Report a batch of what the deadline has caught as timed out."""
        for _ in range(EXPIRY_BATCH):
            item = next(unstarted, None)
            if item is None:
                self._expiring = None
                return
            entry = item if isinstance(item, Entry) else self._bare(item)
            if entry.status is not Status.PENDING:
                continue
            if entry.unit.index in self._unwanted:
                self._end(entry, Move.CANCEL, "interrupted", "cancelled")
            else:
                self.waiting.drop(entry)
                self._end(entry, Move.TIME_OUT, "deadline", "the run's deadline passed before it could start")

    def _bare(self, unit: Unit) -> Entry:
        return self.lanes[unit.lane].entry(unit)

    def _finish_run(self) -> bool:
        """Report the end once nothing is in flight and nothing can start; returns whether it is the end."""
        if self.mode == "run":
            if self.paused or self.input_open:
                return False
            if self.serial_phase and not (self.serial is not None and self.serial.lane.key in self._broke):
                return False
            if not self.serial_phase and not all(
                lane.idle or self._is_broke(lane) for lane in self.lanes.values()
            ):
                return False
            if self._broke:
                self.mode = "budget"
        if not self.done:
            self.done = True
            self._commands.append(commands.Done(self._why_done()))
        return True

    def _is_broke(self, lane: Lane) -> bool:
        """Whether only more money could start anything in this lane."""
        fits = self.budget.fits
        return lane.key in self._broke and not any(fits(entry.estimate) for entry in lane.queue.waiting())

    def _why_done(self) -> Literal["complete", "stopped", "parked", "deadline", "budget", "aborted"]:
        if self.mode != "run":
            return self.mode
        stopped = [lane for lane in self.lanes.values() if lane.stopped and not lane.spent]
        if any(lane.parked for lane in stopped):
            return "parked"
        if stopped and all(lane.broke for lane in stopped):
            return "budget"
        return "stopped" if stopped or self.waiting.count else "complete"

    def _ask_for_wake(self, now: float) -> None:
        """One wake-up: the first lane's, or the deadline."""
        wakes = self._wakes
        while wakes and self.lanes[wakes[0][1]].wake_at != wakes[0][0]:
            heappop(wakes)
        at = wakes[0][0] if wakes and self.mode == "run" and not self.paused else NEVER
        deadline_at = self.settings.deadline_at
        if deadline_at is not None and deadline_at > now:
            at = min(at, deadline_at)
        if at != NEVER:
            self._commands.append(commands.Wake(at))


def _index_of(item: Unit | Entry) -> int:
    return item.index if isinstance(item, Unit) else item.unit.index
