"""Why a lane stopped or waits, why units were left, and what a notice is about: codes and fields.

There are no sentences here: `headway.reason_text` has those. A `message` is a foreign text (of a provider, an exception).
The codes of stops and ends are stored with a job: new ones may be added, but none may change.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from headway.core.model import Dimension, Kind


class Reason(msgspec.Struct, frozen=True, tag_field="code"):
    """The base of all reasons. The tag of each is its code."""


# -- why a lane stopped -------------------------------------------------------------------------------------------


class AccountRefused(Reason, frozen=True, tag="account_refused"):
    """The provider refuses the account: its key, its credit, its model; or the address has no such path. `not_started`: it is a program or a
    function that cannot be started, and the message says all.
    """

    kind: Kind
    message: str
    wrong_path: bool = False
    not_started: bool = False


class NeverAnswered(Reason, frozen=True, tag="never_answered"):
    """No request was ever answered."""

    kind: Kind
    message: str
    tried_s: float


class OnlyFailures(Reason, frozen=True, tag="only_failures"):
    """The breaker was open for too long."""

    kind: Kind
    message: str
    lasted_s: float


class SameComplaint(Reason, frozen=True, tag="same_complaint"):
    """Many units in a row failed with the same message."""

    units: int
    message: str


class HoldTooLong(Reason, frozen=True, tag="hold_too_long"):
    """The lane is held for longer than the run may wait."""

    message: str


class LaneBudgetSpent(Reason, frozen=True, tag="lane_budget_spent"):
    """A budget of the lane is used up: its name, its cap, what is spent, and what the next request may cost."""

    budget: str
    max_cost_usd: float
    spent_usd: float
    wanted_usd: float


class StopRequested(Reason, frozen=True, tag="stop_requested"):
    """The lane was closed for a reason that is only a text."""

    message: str


StopReason = (
    AccountRefused
    | NeverAnswered
    | OnlyFailures
    | SameComplaint
    | HoldTooLong
    | LaneBudgetSpent
    | StopRequested
)


# -- why the units that are left could not finish --------------------------------------------------------------------


class RunBudgetSpent(Reason, frozen=True, tag="run_budget_spent"):
    """The run's own budget is used up."""


class DeadlinePassed(Reason, frozen=True, tag="deadline_passed"):
    """The run's deadline passed."""


class RunInterrupted(Reason, frozen=True, tag="run_interrupted"):
    """The run was interrupted or cancelled."""


class UpstreamUnfinished(Reason, frozen=True, tag="upstream_unfinished"):
    """Units of other lanes that the unit waits for could not finish."""


EndReason = StopReason | RunBudgetSpent | DeadlinePassed | RunInterrupted | UpstreamUnfinished


# -- what a notice is about -------------------------------------------------------------------------------------------


class ProviderMessage(Reason, frozen=True, tag="provider_message"):
    """What the provider said: the reason of a hold."""

    message: str


class Reopened(Reason, frozen=True, tag="reopened"):
    """Another terminal reopened the lane."""


class FailuresInARow(Reason, frozen=True, tag="failures_in_a_row"):
    """So many attempts failed that only probes go out; the kind and message of the last one."""

    failures: int
    kind: Kind
    message: str


class AnswersAgain(Reason, frozen=True, tag="answers_again"):
    """The provider answers again."""


class LimitsInForce(Reason, frozen=True, tag="limits_in_force"):
    """The limits of the lane: how much, and the name of each."""

    limits: tuple[tuple[int, str], ...]


class GrowthLimited(Reason, frozen=True, tag="growth_limited"):
    """The provider limits how fast the use may grow: by half each period, from so much a minute."""

    free_per_minute: float
    dimension: Dimension
    period_s: float


class LimitDisproved(Reason, frozen=True, tag="limit_disproved"):
    """Refusals prove that the provider takes less per minute than is configured (0: nothing is configured)."""

    dimension: Dimension
    configured: float
    found: float


class OthersUseKey(Reason, frozen=True, tag="others_use_key"):
    """Another client uses this share of the limit."""

    share: float


class OthersGone(Reason, frozen=True, tag="others_gone"):
    """No other client seems to use the key any more."""


class TakesLess(Reason, frozen=True, tag="takes_less"):
    """The lane takes only this share of what it took before."""

    share: float


class UsageDisbelieved(Reason, frozen=True, tag="usage_disbelieved"):
    """The provider reported an impossible usage. A count that is not a number of tokens is stored as infinite."""

    input_tokens: float
    output_tokens: float


class ProcessExhausted(Reason, frozen=True, tag="process_exhausted"):
    """The process itself had no file, port or memory left: fewer requests are in flight from now on."""

    message: str


class MemoryBinds(Reason, frozen=True, tag="memory_binds"):
    """So many processes of the lane fit into memory: bytes that each takes, and that all may take."""

    places: int
    each: float
    budget: float


NoticeReason = (
    StopReason
    | ProviderMessage
    | Reopened
    | FailuresInARow
    | AnswersAgain
    | LimitsInForce
    | GrowthLimited
    | LimitDisproved
    | OthersUseKey
    | OthersGone
    | TakesLess
    | UsageDisbelieved
    | ProcessExhausted
    | MemoryBinds
)


# -- what a lane waits for ---------------------------------------------------------------------------------------------


class WaitCode(StrEnum):
    """What the next unit of a lane waits for."""

    STOPPED = "stopped"
    PAUSED = "paused"
    RUN_ENDING = "run_ending"
    DATABASE = "database"
    HOLD = "hold"
    BREAKER = "breaker"
    PROBE = "probe"
    OTHER_JOBS = "other_jobs"
    CONCURRENCY = "concurrency"
    GLOBAL_CAP = "global_cap"
    GROUP_CAP = "group_cap"
    RETRY_AFTER = "retry_after"
    START_DELAY = "start_delay"
    BUDGET = "budget"
    PACE = "pace"
    CRASHED_TWICE = "crashed_twice"
    BACKOFF = "backoff"
    SERIAL_FIRST = "serial_first"
    READING = "reading"
    OTHER_UNITS = "other_units"
    SAME_DIRECTORY = "same_directory"
    ONE_AHEAD = "one_ahead"
    CONNECTIONS = "connections"
    ANSWERS = "answers"


class Wait(msgspec.Struct, frozen=True):
    """What a lane waits for. `until` is None where only an event can end it.

    `message` is the text of the provider, how the run ends, or the name of the meter that sets the pace; `limit` is how
    many may be in flight; `stop` is why the lane stopped.
    """

    code: WaitCode
    until: float | None = None
    message: str = ""
    limit: int = 0
    stop: StopReason | None = None
