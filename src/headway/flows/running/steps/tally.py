"""What is known of each node, by its path: counts over all of its executions, kept up to date with every end. PURE."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from headway.flows.running.outcomes import BY_CONDITION, FAILED, GOOD, SKIPPED

NodeStatus = Literal["pending", "running", "waiting", "success", "failed", "skipped"]

#: Where an execution stands until it is over. Then it has an outcome.
RUNNING: Final = 5
WAITING: Final = 6
#: Reasons of failures come before those of successes with tolerated failures, and those before reasons of skips.
_RANKS: Final = {FAILED: 0, GOOD: 1, SKIPPED: 2, BY_CONDITION: 3}


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """A node in the results file."""

    status: NodeStatus
    reason: str = ""
    units: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    cost_usd: float = 0.0


class Tally:
    """One node. `skipped` counts executions, `units` those of all executions that have started.

    The cost of a node of kind `flow` is that of all units in its flow.
    """

    __slots__ = (
        "_first",
        "cost_usd",
        "failed",
        "in_flight",
        "path",
        "reason",
        "standing",
        "succeeded",
        "units",
    )

    def __init__(self, path: str) -> None:
        self.path = path
        self.units = self.succeeded = self.failed = self.in_flight = 0
        self.cost_usd = 0.0
        #: How many executions stand where, by outcome, RUNNING or WAITING.
        self.standing = [0] * 7
        self.reason = ""
        self._first: tuple[int, tuple[int, ...]] | None = None

    def over(self, outcome: int, reason: str, order: tuple[int, ...]) -> None:
        """An execution is over. Of all reasons the first in the order of the flow is shown."""
        self.standing[outcome] += 1
        rank = (_RANKS[outcome], order)
        if reason and (self._first is None or rank < self._first):
            self.reason, self._first = reason, rank

    @property
    def executions_over(self) -> int:
        """How many executions are over."""
        return sum(self.standing[one] for one in _RANKS)

    def status(self) -> NodeStatus:
        """Over all executions so far; "pending" without any."""
        standing = self.standing
        if standing[RUNNING]:
            return "running"
        if standing[WAITING]:
            return "waiting"
        if standing[FAILED]:
            return "failed"
        if standing[GOOD]:
            return "success"
        return "skipped" if standing[SKIPPED] or standing[BY_CONDITION] else "pending"

    def report(self, status: NodeStatus, reason: str) -> NodeReport:
        return NodeReport(
            status=status,
            reason=reason,
            units=self.units,
            succeeded=self.succeeded,
            failed=self.failed,
            skipped=self.standing[SKIPPED] + self.standing[BY_CONDITION],
            cost_usd=round(self.cost_usd, 10),
        )
