"""A database server in virtual time. A statement waits for a core, takes its time there, and crosses the network twice. Commits take
turns, and each waits for the disk.

It keeps the claims of jobs on lanes, who owns each job, and how often each unit was recorded as ended. It decides nothing: the
engines read from it and write to it. What it costs is set by `ServerCosts`, measured on a real PostgreSQL (`bench.scale.real_claims`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final

import msgspec

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


class Written(msgspec.Struct):
    """What one engine commits in one transaction: claims by lane, and the starts and ends of units of its job."""

    job: int
    epoch: int
    claims: Mapping[int, tuple[bytes, float]]
    starts: Sequence[RecordedStart]
    ended: Sequence[int]


class VirtualDatabase:
    """One server, used by all engines. Its answers come by calls at later instants."""

    def __init__(self, costs: ServerCosts, later: Later, lanes: Sequence[str]) -> None:
        self.costs = costs
        self._later = later
        self._lanes = lanes
        self._free_at = [0.0] * costs.cores
        #: Write transactions take turns (decision 0064): when the next one may begin.
        self._writable_at = 0.0
        #: lane → job → (its claim, when it was renewed)
        self._claims: list[dict[int, tuple[StoredClaim, float]]] = [{} for _ in lanes]
        #: By job: a number that grows with each owner. A commit with an older one is refused.
        self.epochs: Counter[int] = Counter()
        self.starts: list[RecordedStart] = []
        #: How often each unit was recorded as ended.
        self.ended: Counter[int] = Counter()
        self.reads = self.commits = self.rows_read = self.claims_written = 0
        #: Seconds of its cores, and the sum of what commits took.
        self.busy_s = self.commit_s = 0.0

    def read_claims(
        self,
        job: int,
        since: float,
        until: float,
        now: float,
        reply: Callable[[list[StoredClaim], float], None],
    ) -> None:
        """The claims of other jobs that were renewed within this time, in the order of jobs, as the store reads them."""

        def execute(at: float) -> None:
            rows = [
                claim
                for lane in self._claims
                for other, (claim, seen) in lane.items()
                if other != job and since <= seen <= until
            ]
            self.reads += 1
            self.rows_read += len(rows)
            done_at = self._on_a_core(at, self.costs.statement_s + len(rows) * self.costs.row_read_s)
            self._later(done_at + self.costs.network_s, lambda then: reply(rows, then))

        self._later(now + self.costs.network_s, execute)

    def commit(self, written: Written, now: float, reply: Callable[[bool, float], None]) -> None:
        """Record a batch. The reply says whether the engine still owned its job."""
        costs = self.costs
        cpu_s = (
            costs.statement_s
            + len(written.claims) * costs.claim_written_s
            + (len(written.starts) + 2 * len(written.ended)) * costs.transition_s
        )

        def execute(at: float) -> None:
            begins_at = max(at, self._writable_at)
            self._writable_at = self._on_a_core(begins_at, cpu_s) + FSYNC_S
            self.commit_s += self._writable_at - at
            self._later(self._writable_at, record)

        def record(at: float) -> None:
            self.commits += 1
            owned = self.epochs[written.job] == written.epoch
            if owned:
                self._record(written)
            self._later(at + costs.network_s, lambda then: reply(owned, then))

        self._later(now + costs.network_s, execute)

    def _record(self, written: Written) -> None:
        for lane, (claim, seen) in written.claims.items():
            name = self._lanes[lane]
            self._claims[lane][written.job] = (StoredClaim(lane, f"job-{written.job}", claim, name), seen)
        self.claims_written += len(written.claims)
        self.starts += written.starts
        self.ended.update(written.ended)

    def forget_claims(self, job: int) -> None:
        """A job has ended."""
        for lane in self._claims:
            lane.pop(job, None)

    def _on_a_core(self, now: float, cpu_s: float) -> float:
        """When a statement that arrives now and needs so much of a core is done."""
        free_at = heappop(self._free_at)
        begins_at = max(now, free_at)
        self.busy_s += cpu_s
        heappush(self._free_at, begins_at + cpu_s)
        return begins_at + cpu_s
