"""How the run of an agent ended, for pools (`AgentRunResult`) and as an exception (`AgentError`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from headway.api.pool.work_units import WorkerResult
from headway.core.model import SUCCESS, Outcome
from headway.executors.attempt_details import AttemptDetails
from headway.providers.adapter import RateLimit
from headway.providers.call_reports import KnownOutcome


@dataclass(slots=True)
class AgentRunResult(WorkerResult):
    """A `WorkerResult` whose outcome is known exactly: a refusal by its kind and its reset, not by its words."""

    outcome: Outcome = field(default=SUCCESS, repr=False)
    rate_limit: RateLimit | None = field(default=None, repr=False)
    #: For the records.
    details: AttemptDetails = field(default_factory=AttemptDetails, repr=False)


class AgentError(KnownOutcome):
    """An agent or a program failed. `result` has its error, its conversation and its cost; `code` is the kind of the failure.

    >>> import headway
    >>> worker = headway.AgentWorker("command", command=["sh", "-c", "exit 3"])
    >>> failed = headway.map(worker, ["x"], retry=headway.Retry(max_attempts=1), on_error="return")[0]
    >>> failed.code, failed.result.error
    ('transient', 'it exited with code 3')
    """

    def __init__(self, result: AgentRunResult) -> None:
        super().__init__(result.error, result.outcome)
        self.result = result

    def __reduce__(self) -> tuple[type[AgentError], tuple[AgentRunResult]]:
        return type(self), (self.result,)

    @property
    def code(self) -> str:
        """The kind of the failure."""
        return str(self.outcome.kind or "")
