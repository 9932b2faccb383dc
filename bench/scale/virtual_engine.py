"""One engine in virtual time: the real scheduler and the real sharing of lanes, over a database that answers later.

As the real engine it reads the claims of others at intervals, one read at a time, and renews its own apart from commits; it commits one batch
after another; what it starts while the database is away waits until the intent is durable, but for the few intents that were durable
ahead. What has waited longer than its grant is not sent. It measures the CPU that scheduler and sharing take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from time import thread_time
from typing import TYPE_CHECKING, Final

from bench.scale.virtual_database import Written, WrittenClaims
from headway.core import commands
from headway.core.commands import Command, Start
from headway.core.events import Cancelled, Delayed, Event
from headway.core.events import Written as RequestWritten
from headway.core.model import LaneSpec, Unit
from headway.core.scheduler import Scheduler
from headway.core.unit_source import FedScheduler, ListSource
from headway.engine.flights import LaneHandle
from headway.engine.intents import due_soon
from headway.engine.recording.lane_records import RestoredLane, oldest_start_utc, restore_levels
from headway.engine.recording.store_clock import StoreClock
from headway.engine.sharing.grant_term import GRANT_S
from headway.engine.sharing.lane_sharing import LISTEN_S, LaneSharing
from headway.stores.claims import ClaimNews, Claims
from headway.stores.records import RecordedStart, StoredLane
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

if TYPE_CHECKING:
    from bench.scale.fleet import Fleet


#: The numbers of the runs of a job are so far apart.
CLAIMANTS: Final = 1_000


class VirtualClock(StoreClock):
    """The clock of all engines and of the server: virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def utc(self) -> float:
        return self.now

    def compare(self, ahead_s: Callable[[], float]) -> None:
        """There is no other clock."""


class _Asked(Claims):
    """Takes what `LaneSharing` asks the store. The answer comes later."""

    def __init__(self) -> None:
        self.known = 0

    def news(self, job: int, known: int, utc: float) -> ClaimNews:
        self.known = known
        return ClaimNews()


class _AskedStore(Store):
    """The store that `LaneSharing` reads."""

    def __init__(self) -> None:
        self.claims = self.asked = _Asked()


class EngineCpu:
    """Real seconds that all engines took, and virtual seconds that they ran."""

    def __init__(self) -> None:
        self.scheduler_s = self.sharing_s = self.ran_s = 0.0


class VirtualEngine:
    """One run of one job. `epoch` is the number of its owner: a commit of an earlier owner is refused."""

    def __init__(
        self,
        job: int,
        weight: float,
        specs: Sequence[LaneSpec],
        units: Sequence[Unit],
        now: float,
        clock: StoreClock,
    ) -> None:
        self.job = job
        self.epoch = 0
        self.began_at = now
        self.scheduler = Scheduler(specs, now=now)
        self.fed = FedScheduler(self.scheduler, ListSource(units))
        self._handles = {
            spec.key: LaneHandle(spec.key, spec.key, StoredLane(number, spec.key, spec.key, None, None, None))
            for number, spec in enumerate(specs)
        }
        self._numbers = {spec.key: number for number, spec in enumerate(specs)}
        self.sharing = LaneSharing(job, weight, self._handles, clock)
        #: Events for its scheduler, and when that wants to be called.
        self.events: list[Event] = []
        self.wake_at = float("inf")
        self.left = len(units)
        #: Whether it has read the claims of others for the first time; whether it lost its host or its job.
        self.ready = self.gone = False
        self.away = False
        #: When it lost the database, until it has a grant again.
        self._lost_at = float("inf")
        self._reading = self._committing = False
        self._ahead: Counter[str] = Counter()
        #: Starts whose intent is not durable yet.
        self._waiting: list[Start] = []
        #: Claims that are to be written.
        self._claims = WriteBatch(job)
        self._store = _AskedStore()
        self._starts: list[RecordedStart] = []
        self._ended: list[int] = []
        #: What the world is to do, from outside a call of `handle`.
        self._sent: list[Command] = []

    # -- its beginning and its end -------------------------------------------------------------------

    def begin(self, fleet: Fleet, now: float) -> None:
        """Announce its claims, read those of others, and then start."""
        self._fleet = fleet
        self.epoch = fleet.database.epochs[self.job]
        self._restore(fleet.database.starts, now)
        self.sharing.announce(self._claims, self.scheduler, now)
        self._write_claims(now, then=self._read)
        fleet.later(now + LISTEN_S, self._listen)

    def _restore(self, recorded: Sequence[RecordedStart], now: float) -> None:
        """What lanes have learned, and the levels of their meters, from what all engines have recorded."""
        lanes = self.scheduler.lanes
        since = oldest_start_utc(lanes.values(), now)
        learned = self._fleet.learned(now)
        restored = {
            number: RestoredLane(lanes[key], learned.get(key), now, now)
            for key, number in self._numbers.items()
        }
        restore_levels(restored, (start for start in recorded if start.at_utc >= since))

    # -- the scheduler ---------------------------------------------------------------------------------

    def handle(self, now: float) -> list[Command]:
        """Give its events to the scheduler; returns what the world is to do."""
        events, self.events = self.events, []
        sent, self._sent = self._sent, []
        self.wake_at = float("inf")
        while True:
            began = thread_time()
            decided = self.fed.handle(events, now)
            self._fleet.cpu.scheduler_s += thread_time() - began
            events = []
            for command in decided:
                kind = type(command)
                if kind is Start:
                    if not self._may_send(command.unit):  # type: ignore[union-attr]
                        self._waiting.append(command)  # type: ignore[arg-type]
                        events.append(Delayed(command.unit.index))  # type: ignore[union-attr]
                    else:
                        self._note_start(command.unit, now)  # type: ignore[union-attr]
                        sent.append(command)
                elif kind is commands.Wake:
                    self.wake_at = command.at  # type: ignore[union-attr]
                elif kind is commands.Finish:
                    self._ended.append(command.unit.index)  # type: ignore[union-attr]
                    sent.append(command)
                elif kind is commands.CancelAttempt:
                    sent.append(command)
            if not events:
                break
        if self._ended or self._starts:
            self._commit(now)
        return sent

    def _may_send(self, unit: Unit) -> bool:
        """Whether the intent of this unit is durable. With a database at hand it was recorded ahead."""
        if not self.away:
            return True
        if self._ahead[unit.lane] > 0:
            self._ahead[unit.lane] -= 1
            return True
        return False

    def _note_start(self, unit: Unit, now: float) -> None:
        entry = self.scheduler.out[unit.index]
        self._starts.append(RecordedStart(self._numbers[unit.lane], now, entry.charged))
        self._fleet.late_starts += now > self._lost_at + GRANT_S

    # -- the database ------------------------------------------------------------------------------------

    def lose_database(self, now: float) -> None:
        """Nothing is read or committed until it is back. Intents that are durable may still be sent."""
        self.away, self._lost_at = True, now
        self._ahead = Counter({key: due_soon(lane, now) for key, lane in self.scheduler.lanes.items()})

    def lose_job(self) -> None:
        """Its lease is over: it knows that by its own clock, and sends nothing more."""
        self._ahead.clear()

    def regain_database(self, now: float) -> None:
        """What waits is committed first; then its requests are sent, unless others may have our parts of lanes by now."""
        self.away = False
        self._reading = self._committing = False
        self._write_claims(now)
        self._commit(now, then=self._send_waiting)

    def _send_waiting(self, now: float) -> None:
        waiting, self._waiting = self._waiting, []
        for command in waiting:
            if now >= self.scheduler.granted_until:
                self.events.append(Cancelled(command.unit.index, sent=False))
                continue
            self._note_start(command.unit, now)
            self.events.append(RequestWritten(command.unit.index))
            self._sent.append(command)
        self._fleet.call(self)

    def _commit(self, now: float, then: Callable[[float], None] | None = None) -> None:
        """Commit what there is, unless a commit is under way: its end commits the rest."""
        if self.away or (self._committing and then is None):
            return
        self._committing = True
        starts, self._starts = self._starts, []
        ended, self._ended = self._ended, []
        written = Written(self.job, self.epoch, starts, ended)

        def committed(owned: bool, at: float) -> None:
            if self.gone:
                return
            if self.away:  # The answer is lost. Committed again, the store would know that it has it.
                self.left -= len(ended) if owned else 0
                return
            self._committing = False
            if not owned:
                self._fleet.lost_job(self, at)
                return
            self.left -= len(ended)
            if self.left == 0:
                self._fleet.ended(self, at)
                return
            if then is not None:
                then(at)
            if self._starts or self._ended:
                self._commit(at)

        self._fleet.database.commit(written, now, committed)

    def _write_claims(self, now: float, then: Callable[[float], None] | None = None) -> None:
        """Write what there is of our claims; while the database is away, it waits."""
        batch = self._claims
        if self.away or not (batch.claims or batch.seen_utc is not None):
            return
        self._claims = WriteBatch(self.job)

        def arrived(owned: bool, at: float) -> None:
            if self.gone or self.away:
                return
            if not owned:
                self._fleet.lost_job(self, at)
                return
            for act in batch.after_commit:
                act()
            if then is not None:
                then(at)

        claimant, is_here = self.job + CLAIMANTS * self.epoch, batch.seen_utc is not None
        written = WrittenClaims(self.job, self.epoch, claimant, is_here, batch.claims)
        self._fleet.database.write_claims(written, now, arrived)

    def _listen(self, now: float) -> None:
        """At intervals, one read at a time."""
        if self.gone:
            return
        self._fleet.later(now + LISTEN_S, self._listen)
        if self.ready and not self._reading and not self.away and self.sharing.is_due(now):
            self._read(now)

    def _read(self, now: float) -> None:
        self._reading = True
        self.sharing.read(self._store)

        def arrived(news: ClaimNews, at: float) -> None:
            if self.gone or self.away:
                return
            self._reading = False
            self._look(news, at)

        self._fleet.database.read_claims(self.job, self._store.asked.known, now, arrived)

    def _look(self, news: ClaimNews, now: float) -> None:
        """Keep to what others leave; at first before anything starts."""
        began = thread_time()
        look = self.sharing.look(news, self._claims, self.scheduler, now)
        self._fleet.cpu.sharing_s += thread_time() - began
        self._fleet.notes += len(look.notes)
        self.ready = True
        if self.sharing.is_granted:
            self._lost_at = float("inf")
        self.events += look.events
        self._fleet.call(self)
        self._write_claims(now)
