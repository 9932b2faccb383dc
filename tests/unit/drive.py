"""Small builders for the unit tests, and a scheduler driven by hand: every step checks all invariants."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Final

from headway.core.commands import CancelAttempt, Command, Done, Finish, Notice, Render, Requeue, Start, Wake
from headway.core.events import Event, Finished
from headway.core.invariants import check
from headway.core.lanes.lane import LaneState
from headway.core.lanes.queueing.queue import NEVER, Entry
from headway.core.model import (
    NO_ESTIMATE,
    Counting,
    Estimate,
    Hint,
    Kind,
    LaneLimits,
    LaneSpec,
    Outcome,
    RetryPolicy,
    Settings,
    Unit,
    Usage,
)
from headway.core.scheduler import Scheduler
from headway.core.snapshot import LaneView, Snapshot, snapshot
from headway.core.unit_source import FETCHES, FedScheduler, ListSource

#: Backoff without jitter: 1 s, 2 s, 4 s, …
STEADY: Final = RetryPolicy(jitter=0.0)
#: One attempt at a time: what starts next is then plain to see.
ONE_BY_ONE: Final = LaneLimits(max_concurrency=1)
#: Known to be unlimited: nothing holds a start back.
UNLIMITED: Final = LaneLimits(rpm=0)
COUNTING: Final = Counting()
SETTINGS: Final = Settings()


def units(n: int, lane: str = "a", *, first: int = 0, estimate: Estimate = NO_ESTIMATE) -> list[Unit]:
    """`n` plain units of a lane, numbered from `first`."""
    return [Unit(index, lane, estimate) for index in range(first, first + n)]


def lane_spec(
    key: str = "a", limits: LaneLimits = UNLIMITED, retry: RetryPolicy = STEADY, counting: Counting = COUNTING
) -> LaneSpec:
    """A lane that backs off without jitter, unlimited unless told."""
    return LaneSpec(key, limits, retry, counting)


def one_lane(
    limits: LaneLimits = UNLIMITED, retry: RetryPolicy = STEADY, counting: Counting = COUNTING
) -> LaneState:
    """A lane by itself, at instant 0."""
    return LaneState(lane_spec("a", limits, retry, counting), 0.0, {})


def entry_of(lane: LaneState, unit: Unit | None = None) -> Entry:
    """A unit as the lane's queue holds it."""
    return lane.entry(unit or Unit(0, lane.key))


def ok(index: int, usage: Usage | None = None, hint: Hint | None = None) -> Finished:
    """The attempt succeeded."""
    return Finished(index, Outcome(usage=usage, hint=hint))


def failed(
    index: int,
    kind: Kind,
    message: str = "",
    *,
    retry_after_s: float | None = None,
    usage: Usage | None = None,
) -> Finished:
    """The attempt failed, perhaps with a hint when to come back."""
    hint = None if retry_after_s is None else Hint(retry_after_s=retry_after_s)
    return Finished(index, Outcome(kind, usage, hint, message))


def unreached(index: int, message: str) -> Finished:
    """The provider could not be reached."""
    return Finished(index, Outcome(Kind.TRANSIENT, message=message, reached=False))


class Step:
    """What one `handle` decided, sorted by kind of command."""

    def __init__(self, commands: list[Command]) -> None:
        self.commands = commands
        self.starts = [each for each in commands if isinstance(each, Start)]
        self.started = [start.unit.index for start in self.starts]
        self.requeues = [each for each in commands if isinstance(each, Requeue)]
        self.finishes = [each for each in commands if isinstance(each, Finish)]
        self.ended = {finish.unit.index: str(finish.status) for finish in self.finishes}
        self.cancels = [each.unit.index for each in commands if isinstance(each, CancelAttempt)]
        self.notices = [each for each in commands if isinstance(each, Notice)]
        self.told = [notice.what for notice in self.notices]
        self.renders = [each.unit.index for each in commands if isinstance(each, Render)]
        self.fetches = [each for each in commands if isinstance(each, FETCHES)]
        wakes = [each.at for each in commands if isinstance(each, Wake)]
        assert len(wakes) <= 1, f"more than one wake-up in a step: {wakes}"
        self.wake_at = wakes[0] if wakes else None
        ends = [each.reason for each in commands if isinstance(each, Done)]
        assert len(ends) <= 1, f"more than one end in a step: {ends}"
        self.done = ends[0] if ends else None

    def finish_of(self, index: int) -> Finish:
        return next(finish for finish in self.finishes if finish.unit.index == index)


class Run:
    """A scheduler over units in memory. `at(now, *events)` is one step."""

    def __init__(
        self,
        work: Iterable[Unit],
        *lanes: LaneSpec,
        serial: Iterable[Unit] = (),
        settings: Settings = SETTINGS,
    ) -> None:
        self.source = ListSource(work, serial=serial)
        self.scheduler = Scheduler(lanes or (lane_spec(),), settings)
        self._fed = FedScheduler(self.scheduler, self.source)
        check(self.scheduler)

    def at(self, now: float, *events: Event) -> Step:
        """Tell it what happened, at `now`, and answer what it fetches."""
        step = Step(self._fed.handle(events, now))
        check(self.scheduler)
        return step

    def held(self, until: float, reason: str = "closed", *, lane: str = "a") -> Run:
        """Close a lane until an instant, as a hold that an earlier run has recorded does; the next step announces it."""
        self.lane(lane).hold.extend(until, reason)
        self.scheduler.dirty[lane] = self.lane(lane)
        return self

    @property
    def out(self) -> list[int]:
        """The units in flight."""
        return sorted(self.scheduler.out)

    def lane(self, key: str = "a") -> LaneState:
        return self.scheduler.lanes[key]

    def seen(self, now: float) -> Snapshot:
        return snapshot(self.scheduler, now, self.source.remaining)

    def view(self, now: float, key: str = "a") -> LaneView:
        """The snapshot of one lane."""
        return next(view for view in self.seen(now).lanes if view.key == key)


#: How a world answers a start: after so many seconds, with this.
Answer = Callable[[Start, float], tuple[float, Finished]]


def play(run: Run, answer: Answer, *events: Event, until: float = 1e6) -> list[tuple[float, Step]]:
    """Every step of a run from instant 0 on, with each start answered and each wake-up kept."""
    agenda: list[tuple[float, int, Finished]] = []
    told: list[Event] = [*events]
    steps: list[tuple[float, Step]] = []
    now = 0.0
    while now <= until:
        step = run.at(now, *told)
        steps.append((now, step))
        for start in step.starts:
            takes_s, event = answer(start, now)
            heappush(agenda, (now + takes_s, len(steps) * 1000 + start.unit.index, event))
        wake_at = NEVER if step.wake_at is None else step.wake_at
        if step.done or not (agenda or wake_at < NEVER):
            break
        now = min(wake_at, agenda[0][0] if agenda else NEVER)
        told = []
        while agenda and agenda[0][0] <= now:
            told.append(heappop(agenda)[2])
    return steps


def good(start: Start, now: float) -> tuple[float, Finished]:
    """Every attempt succeeds within half a second."""
    return 0.5, ok(start.unit.index)


def started_at(steps: list[tuple[float, Step]], lane: str = "a") -> list[tuple[float, int]]:
    """When each unit of a lane was started."""
    return [
        (now, start.unit.index) for now, step in steps for start in step.starts if start.unit.lane == lane
    ]
