"""A database server in virtual time. A statement waits for a core, takes its time there, and crosses the network twice. Commits take
turns, and each waits for the disk. Claims are written beside them and wait for neither.

It keeps the claims of jobs on lanes, who owns each job, and how often each unit was recorded as ended. It decides nothing: the
engines read from it and write to it. What it costs is set by `ServerCosts`, measured on a real PostgreSQL (`bench.scale.real_claims`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final

import msgspec

from headway.stores.claims import COUNTS_S, ClaimNews
from headway.stores.records import RecordedStart, StoredClaim

#: Calls a function at an instant of virtual time.
Later = Callable[[float, Callable[[float], None]], None]
#: How long a commit waits for the disk. It needs no core meanwhile.
FSYNC_S: Final = 0.004


class ServerCosts(msgspec.Struct, frozen=True):
    """What a server takes for its work, in seconds of one core, and how many cores it has."""

    network_s: float = 0.0005
    statement_s: float = 250e-6
    row_read_s: float = 1.7e-6
    claim_written_s: float = 40e-6
    transition_s: float = 35e-6
    cores: int = 4


class WrittenClaims(msgspec.Struct):
    """What one engine writes of its claims, by lane, and that it is here."""

    job: int
    epoch: int
    claimant: int
    is_here: bool
    claims: Mapping[int, bytes]


class Written(msgspec.Struct):
    """What one engine commits in one transaction: the starts and ends of units of its job."""

    job: int
    epoch: int
    starts: Sequence[RecordedStart]
    ended: Sequence[int]


class VirtualDatabase:
    """One server, used by all engines. Its answers come by calls at later instants."""

    def __init__(self, costs: ServerCosts, later: Later, lanes: Sequence[str]) -> None:
        self.costs = costs
        self._later = later
        self._lanes = lanes
        self._free_at = [0.0] * costs.cores
        #: Write transactions take turns (decision 0064): those that wait for theirs, and whether one is under way.
        self._turns: deque[Callable[[float], None]] = deque()
        self._writing = False
        #: The claims by the number of their change, and the job of each; the number of each claimant's claim on a lane.
        self._claims: dict[int, tuple[int, StoredClaim]] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self._changes = 0
        #: claimant → its job, and when it was seen last
        self._seen: dict[int, tuple[int, float]] = {}
        #: By job: a number that grows with each owner. A commit with an older one is refused.
        self.epochs: Counter[int] = Counter()
        self.starts: list[RecordedStart] = []
        #: How often each unit was recorded as ended.
        self.ended: Counter[int] = Counter()
        self.reads = self.commits = self.rows_read = self.claims_written = 0
        #: Seconds of its cores, and the sum of what commits took.
        self.busy_s = self.commit_s = 0.0

    def read_claims(
        self, job: int, known: int, now: float, reply: Callable[[ClaimNews, float], None]
    ) -> None:
        """The claims of other jobs that have changed since a look, and who is here."""

        def execute(at: float) -> None:
            changed = [
                (number, claim) for number, of_job, claim in self._changed_since(known) if of_job != job
            ]
            present = frozenset(
                claimant
                for claimant, (of_job, seen) in self._seen.items()
                if of_job != job and at - seen <= COUNTS_S
            )
            rows = len(changed) + len(present)
            self.reads += 1
            self.rows_read += rows
            news = ClaimNews(
                present, tuple(claim for _, claim in changed), max((n for n, _ in changed), default=known)
            )
            done_at = self._on_a_core(at, 2.0 * self.costs.statement_s + rows * self.costs.row_read_s)
            self._later(done_at + self.costs.network_s, lambda then: reply(news, then))

        self._later(now + self.costs.network_s, execute)

    def _changed_since(self, known: int) -> list[tuple[int, int, StoredClaim]]:
        """The latest claims with a higher number, the oldest first."""
        found = []
        for number in reversed(self._claims):
            if number <= known:
                break
            found.append((number, *self._claims[number]))
        return found[::-1]

    def write_claims(self, written: WrittenClaims, now: float, reply: Callable[[bool, float], None]) -> None:
        """Write claims. The reply says whether the engine still owned its job."""
        costs = self.costs
        cpu_s = costs.statement_s + len(written.claims) * costs.claim_written_s

        def record(at: float) -> None:
            owned = self.epochs[written.job] == written.epoch
            if owned:
                self._record_claims(written, at)
            self._later(at + costs.network_s, lambda then: reply(owned, then))

        self._later(now + costs.network_s, lambda at: self._later(self._on_a_core(at, cpu_s), record))

    def commit(self, written: Written, now: float, reply: Callable[[bool, float], None]) -> None:
        """Record a batch. The reply says whether the engine still owned its job."""
        costs = self.costs
        cpu_s = costs.statement_s + (len(written.starts) + 2 * len(written.ended)) * costs.transition_s
        arrives_at = now + costs.network_s

        def execute(at: float) -> None:
            self._later(self._on_a_core(at, cpu_s) + FSYNC_S, record)

        def record(at: float) -> None:
            self.commits += 1
            self.commit_s += at - arrives_at
            self._end_turn(at)
            owned = self.epochs[written.job] == written.epoch
            if owned:
                self.starts += written.starts
                self.ended.update(written.ended)
            self._later(at + costs.network_s, lambda then: reply(owned, then))

        self._later(arrives_at, lambda at: self._take_turn(execute, at))

    def _take_turn(self, execute: Callable[[float], None], at: float) -> None:
        """A transaction that waits for its turn needs no core."""
        if self._writing:
            self._turns.append(execute)
        else:
            self._writing = True
            execute(at)

    def _end_turn(self, at: float) -> None:
        if self._turns:
            self._turns.popleft()(at)
        else:
            self._writing = False

    def _record_claims(self, written: WrittenClaims, at: float) -> None:
        if written.is_here:
            self._seen[written.claimant] = (written.job, at)
        for lane, claim in written.claims.items():
            self._changes += 1
            self._claims.pop(self._numbers.get((written.claimant, lane), -1), None)
            self._numbers[written.claimant, lane] = self._changes
            stored = StoredClaim(written.claimant, lane, f"job-{written.job}", claim, self._lanes[lane])
            self._claims[self._changes] = (written.job, stored)
        self.claims_written += len(written.claims)

    def forget_claims(self, job: int) -> None:
        """A job has ended."""
        for claimant in [one for one, (of_job, _) in self._seen.items() if of_job == job]:
            del self._seen[claimant]

    def _on_a_core(self, now: float, cpu_s: float) -> float:
        """When a statement that arrives now and needs so much of a core is done."""
        free_at = heappop(self._free_at)
        begins_at = max(now, free_at)
        self.busy_s += cpu_s
        heappush(self._free_at, begins_at + cpu_s)
        return begins_at + cpu_s
