"""Turns every reason of `core.reasons` into a sentence. Only this module does.

No code may parse these sentences.
"""

from __future__ import annotations

from math import inf
from typing import Final, assert_never

from headway.core import reasons
from headway.core.lanes.learning.rate_finder import LEARNED
from headway.core.model import Kind
from headway.core.reasons import EndReason, NoticeReason, StopReason, Wait, WaitCode

#: At the end of the message of a unit that an interrupted run left; not for a question, which is asked anew.
RESUME_HINT: Final = "; continue with 'headway resume'"
_WAITS: Final[dict[WaitCode, str]] = {
    WaitCode.PAUSED: "paused",
    WaitCode.DATABASE: "the database, which says what other jobs leave of it",
    WaitCode.HOLD: "hold: {message}",
    WaitCode.BREAKER: "{message} (too many failures: a single request tests the provider then)",
    WaitCode.PROBE: "{message} (too many failures: a single request tests the provider now)",
    WaitCode.OTHER_JOBS: "other jobs use all of its concurrency",
    WaitCode.CONCURRENCY: "concurrency: {limit} in flight",
    WaitCode.GLOBAL_CAP: "global cap: {limit} in flight",
    WaitCode.GROUP_CAP: "--concurrency: {limit} at a time",
    WaitCode.RETRY_AFTER: "retry-after",
    WaitCode.START_DELAY: "delay between starts",
    WaitCode.BUDGET: "budget",
    WaitCode.PACE: "{message}",
    WaitCode.CRASHED_TWICE: "crash: a unit whose worker died twice waits to run alone",
    WaitCode.BACKOFF: "backoff: {message}",
    WaitCode.SERIAL_FIRST: "serial units run first",
    WaitCode.READING: "its next units are being read",
    WaitCode.OTHER_UNITS: "other units that must finish first",
    WaitCode.SAME_DIRECTORY: "another unit in the same directory (--worktree gives each its own)",
    WaitCode.ONE_AHEAD: "one unit runs ahead of the others, which start if it meets no limit",
    WaitCode.CONNECTIONS: "requests that started wait for their connections",
    WaitCode.ANSWERS: "more start as answers come: the limit is not known yet",
}
#: Why the run is ending, by the scheduler's mode.
_ENDING: Final = {
    "aborted": "the run was interrupted: nothing new starts",
    "deadline": "the run's time is over: nothing new starts",
    "budget": "the budget is used up: nothing new starts",
}
_ENDS: Final = {
    "failed": "failed",
    "timed_out": "timed out",
    "skipped": "was skipped",
    "cancelled": "was cancelled",
}
#: Codes that are not repeated at the start of a stop's text.
_UNNAMED: Final = frozenset({"interrupted", str(Kind.HOLD)})


def wait_text(wait: Wait) -> str:
    """What a lane waits for."""
    if wait.stop is not None:
        return f"stopped: {stop_text(wait.stop)}"
    if wait.code is WaitCode.RUN_ENDING:
        return _ENDING.get(wait.message, wait.message)
    return _WAITS[wait.code].format(message=wait.message, limit=wait.limit)


#: What a lane waited for, where only the code and the limit are known.
_WAIT_NAMES: Final[dict[WaitCode, str]] = {
    WaitCode.PAUSED: "the end of a pause",
    WaitCode.DATABASE: "the database",
    WaitCode.HOLD: "the end of a hold",
    WaitCode.BREAKER: "a provider that failed",
    WaitCode.PROBE: "a provider that failed (a test request)",
    WaitCode.OTHER_JOBS: "other jobs that use the lane",
    WaitCode.CONCURRENCY: "requests in flight",
    WaitCode.GLOBAL_CAP: "the cap on requests in flight of all lanes",
    WaitCode.GROUP_CAP: "--concurrency",
    WaitCode.RETRY_AFTER: "the time that a refusal named",
    WaitCode.START_DELAY: "the delay between starts",
    WaitCode.BUDGET: "the budget",
    WaitCode.PACE: "a rate limit",
    WaitCode.CRASHED_TWICE: "a unit that runs alone",
    WaitCode.BACKOFF: "the time after a failure",
    WaitCode.SERIAL_FIRST: "serial units",
    WaitCode.READING: "its next units to be read",
    WaitCode.OTHER_UNITS: "other units that must finish first",
    WaitCode.SAME_DIRECTORY: "another unit in the same directory",
    WaitCode.ONE_AHEAD: "one unit that ran ahead",
    WaitCode.CONNECTIONS: "connections",
    WaitCode.ANSWERS: "the answers in flight",
    WaitCode.RUN_ENDING: "nothing: the run was ending",
    WaitCode.STOPPED: "nothing: the lane had stopped",
}


def wait_name(code: WaitCode, limit: str = "") -> str:
    """What a lane waited for in the past; `limit` names the limit that set its pace."""
    if limit == LEARNED:
        return "the pace that it learned"
    return f"its limit of {limit}" if limit else _WAIT_NAMES[code]


def stop_text(reason: StopReason) -> str:
    """Why a lane stopped: "auth: Incorrect API key provided"."""
    code, message = unit_error(reason)
    return message if code in _UNNAMED or is_plain(reason) else f"{code}: {message}"


def is_plain(reason: EndReason) -> bool:
    """Whether the message of a reason says all: its code would mislead."""
    return isinstance(reason, reasons.AccountRefused) and reason.not_started


def unit_error(reason: EndReason) -> tuple[str, str]:
    """The code and message for units that a stopped lane or the end of a run left unfinished."""
    match reason:
        case reasons.AccountRefused(kind, message):
            return str(kind), message
        case reasons.NeverAnswered(kind, message, tried_s):
            return str(kind), f"no answer in {tried_s:.0f} s: {message}"
        case reasons.OnlyFailures(kind, message, lasted_s):
            last = _failure(kind, message)
            return "interrupted", f"only failures for {lasted_s:.0f} s; the last: {last}"
        case reasons.SameComplaint(units, message):
            return "interrupted", f"{units} units in a row failed with: {message}"
        case reasons.HoldTooLong(message):
            return str(Kind.HOLD), message or "stopped"
        case reasons.LaneBudgetSpent():
            return "budget", _budget_text(reason)
        case reasons.StopRequested(message):
            return "interrupted", message or "stopped"
        case reasons.RunBudgetSpent():
            return "budget", "the budget is used up; raise it to continue"
        case reasons.DeadlinePassed():
            return "deadline", "the run's deadline passed"
        case reasons.RunInterrupted():
            return "interrupted", f"the run was interrupted{RESUME_HINT}"
        case reasons.UpstreamUnfinished():
            return "upstream_failed", "a unit that it depends on could not finish"
    assert_never(reason)


def upstream_text(unit: str, status: str) -> str:
    """Why a unit was skipped: how the unit that it depends on ended."""
    return f"unit '{unit}', which it depends on, {_ENDS.get(status, 'did not succeed')}"


def notice_text(reason: NoticeReason) -> str:
    """The text of a notice."""
    match reason:
        case reasons.ProviderMessage(message):
            return message
        case reasons.Reopened():
            return "on request"
        case reasons.FailuresInARow(failures, kind, message):
            last = _failure(kind, message)
            return f"{last} ({failures} failures in a row: only single test requests are sent until the provider answers)"
        case reasons.AnswersAgain():
            return "the provider answers again"
        case reasons.LimitsInForce(limits):
            return ", ".join(f"{limit:,} {name}" for limit, name in limits)
        case reasons.GrowthLimited(free_per_minute, dimension, period_s):
            start = f"{free_per_minute:,.0f} {dimension.replace('_', ' ')} per minute"
            growth = f"it now starts at {start} and grows by half every {period_s / 60:.0f} min"
            return f"usage grew too fast for the provider: {growth}"
        case reasons.LimitDisproved(dimension, configured, found):
            return disproved_text(dimension, configured, found)
        case reasons.OthersUseKey(share):
            return f"other users of this key take about {share:.0%} of its limit"
        case reasons.OthersGone():
            return "this key seems to have no other users any more"
        case reasons.TakesLess(share):
            return f"the provider accepts {share:.0%} of what it accepted before: its limit was lowered, or this key has other users"
        case reasons.UsageDisbelieved(input_tokens, output_tokens):
            reported = f"{_tokens(input_tokens)} tokens in and {_tokens(output_tokens)} out"
            return (
                f"the provider reports {reported}, which is impossible: such answers are charged by estimate"
            )
        case reasons.ProcessExhausted(message):
            return f"fewer requests are in flight from now on: {message}"
        case reasons.MemoryBinds(places, each, budget):
            at_once = "one process" if places == 1 else f"{places:,} processes"
            return f"{at_once} at once fit into the memory_budget of {_megabytes(budget)}: each takes about {_megabytes(each)}"
        case _:
            return stop_text(reason)


def _megabytes(size: float) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


def disproved_text(dimension: str, configured: float, found: float) -> str:
    """A configured limit and what the provider takes: "configured 1,500 requests per minute, refused above about 500"."""
    what = f"{dimension.replace('_', ' ')} per minute"
    digits = 10 ** max(0, len(f"{found:.0f}") - 2)
    about = round(found / digits) * digits
    if configured:
        return f"configured {configured:,.0f} {what}, refused above about {about:,.0f}"
    return f"{what}: none configured, refused above about {about:,.0f}"


def _tokens(count: float) -> str:
    return f"{count:,.0f}" if 0.0 <= count < inf else "an impossible number of"


def _failure(kind: Kind, message: str) -> str:
    return f"{kind}: {message}" if message else str(kind)


def _budget_text(reason: reasons.LaneBudgetSpent) -> str:
    return (
        f"{reason.budget} has cost ${reason.spent_usd:,.4f} of its max_cost of ${reason.max_cost_usd:,.10g}; "
        f"the next request may cost up to ${reason.wanted_usd:,.4f}"
    )
