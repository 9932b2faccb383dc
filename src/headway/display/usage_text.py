"""Texts for usage, cost and savings of jobs and lanes, and for the limit that held each lane back."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from headway.core.budget import ROUNDING
from headway.core.lanes.learning.rate_finder import LEARNED
from headway.core.lanes.meters.limit_usage import CONCURRENCY, LimitUsage
from headway.core.snapshot import LaneView, Reserve
from headway.display.formatting import count, duration, money, short, tokens
from headway.engine.observer import View
from headway.reports.prediction import Comparison
from headway.reports.usage import UseReport
from headway.stores.answer_cache import CallsSaved
from headway.stores.records import Job

#: At most this many lanes have a line in the summary of a run.
MOST_LANES: Final = 12
#: A lane whose share of a limit is smaller shared it with other jobs.
SHARED: Final = 0.99
#: A window of which at least this share was used counts as full.
FULL: Final = 0.9
#: How the names of the lanes of a flow's tools begin (`flows.running.tool_programs`, which not every command loads).
TOOL: Final = "tool:"
#: The share of a limit that fewer requests used is mostly an estimate.
LEAST_STARTED: Final = 10


def saved_text(job: Job) -> str:
    """What earlier runs have done, and the tokens and money that this saves."""
    text = f"{job.good:,} already done"
    spared = [money(job.saved_usd)] if job.saved_usd else []
    if job.saved_tokens > 0:
        spared.append(tokens(job.saved_tokens))
    return f"{text} ({' and '.join(spared)} saved)" if spared else text


def cached_lines(saved: CallsSaved) -> list[str]:
    """How many units were answered from the cache, and what that saved."""
    if not saved.units:
        return []
    text = f"{saved.units:,} answered without a call"
    if saved.input_tokens or saved.output_tokens or saved.cost_usd:  # Tools have no tokens.
        text += f", saving {savings_text(saved)}"
    return [text]


def counts_text(job: Job) -> str:
    """How the units of a job ended: "75 succeeded, 8 failed, 117 not finished yet"."""
    return ", ".join(text for text in (f"{job.good:,} succeeded", unanswered_text(job)) if text)


def unanswered_text(job: Job) -> str:
    """The units without an answer: "8 failed, 117 not finished yet"; "" if there are none."""
    counts = (
        (job.counts["failed"] + job.counts["timed_out"], "failed"),
        (job.counts["skipped"], "skipped"),
        (job.counts["cancelled"], "cancelled"),
        (job.total - job.ended, "not finished yet"),
    )
    return ", ".join(f"{n:,} {how}" for n, how in counts if n)


def savings_text(saved: CallsSaved) -> str:
    """Tokens, and money as far as prices are known."""
    cost = f", {money(saved.cost_usd)}" if saved.cost_usd else ""
    return f"{count(saved.input_tokens, 'token')} in, {saved.output_tokens:,} out{cost}"


def prediction_lines(comparison: Comparison | None) -> list[str]:
    """The prediction for a job beside its result."""
    if comparison is None:
        return []
    predicted = comparison.predicted
    expected, came_to = duration(predicted.time_s[0]), duration(comparison.took_s)
    if predicted.cost_usd is not None:
        expected += f" and {money(predicted.cost_usd[0])}"
        came_to += f" and {money(comparison.cost_usd)}"
    return [f"predicted {expected}; {'took' if comparison.over else 'so far'} {came_to}"]


def use_text(use: UseReport, *, is_local: bool = False) -> str:
    """Tokens, rate-limited attempts and cost. `is_local`: of programs, which have no HTTP status and often no tokens."""
    if is_local:
        return _local_use_text(use)
    parts = [
        f"{count(use.input_tokens, 'token')} in",
        f"{use.output_tokens:,} out",
        f"{use.refused:,} rate-limited (429)",
    ]
    return ", ".join(parts + ([cost] if (cost := cost_text(use)) else []))


def _local_use_text(use: UseReport) -> str:
    has_tokens = use.input_tokens or use.output_tokens
    parts = (
        f"{count(use.input_tokens, 'token')} in, {use.output_tokens:,} out" if has_tokens else "",
        f"{use.refused:,} rate-limited" if use.refused else "",
        cost_text(use),
    )
    return ", ".join(part for part in parts if part) or "no tokens or costs were reported"


def cost_text(use: UseReport) -> str:
    """The cost, with the part for failed attempts and what is unknown; "" if there is none."""
    if not use.costs:
        return ""
    text, repeated, unsure = money(use.cost_usd or 0.0), use.repeated, use.unsure
    if repeated.cost_usd:
        were = "was" if repeated.attempts == 1 else "were"
        text += f", of which {money(repeated.cost_usd)} for {count(repeated.attempts, 'attempt')} that failed or {were} repeated"
    if unsure.most_usd:
        text += f", plus at most {money(unsure.most_usd)} for {count(unsure.attempts, 'attempt')} whose usage is unknown"
    if use.unpriced_attempts:
        text += f" (not counting {count(use.unpriced_attempts, 'attempt')} of unknown price)"
    return text


def lane_lines(view: View, uses: Mapping[str, UseReport], *, counted: bool = False) -> list[str]:
    """A line for each lane that started units or was held: its cost, and what held it back. `uses` are by the lane's key.

    `counted`: other lines have the counts and the cost.
    """
    worked = [lane for lane in view.snapshot.lanes if _has_worked(lane, view.names[lane.key])]
    lines = []
    for lane in sorted(worked, key=lambda lane: view.names[lane.key])[:MOST_LANES]:
        if counted:
            lines.append(f"{view.names[lane.key]}: {held_back_text(lane)}")
            continue
        use = uses.get(lane.key)
        parts = [f"{lane.succeeded:,} succeeded"]
        if len(worked) > 1 and use is not None and use.costs:
            parts.append(money(use.cost_usd or 0.0))
        lines.append(f"{view.names[lane.key]}: {', '.join(parts)}; {held_back_text(lane)}")
    if len(worked) > MOST_LANES:
        lines.append(f"… and {len(worked) - MOST_LANES} more: 'headway status' has them all")
    return lines


def _has_worked(lane: LaneView, name: str) -> bool:
    """Whether it has a line. The failures of a tool that never succeeded have lines of their own."""
    return bool((lane.succeeded if name.startswith(TOOL) else lane.started) or lane.holds)


def held_back_text(lane: LaneView) -> str:
    """The limit that held the lane back over a run, and how much of it was used."""
    top, cap, hold = lane.shares[0] if lane.shares else None, lane.cap, _hold(lane)
    reached = lane.held_back_by
    if (reserve := lane.reserve) is not None and reserve.binds:
        return _budget_bound_text(reserve)
    if hold and not lane.started:
        return hold
    if not (lane.succeeded or lane.failed or lane.refused):
        text = "no request was answered"
    elif _unmeasured(lane, top):
        text = f"a limit was reached ({lane.refused:,} rate-limited) but not measured yet"
    elif cap is not None and lane.held_back_by_cap:
        text = f"limited by {cap.limit:,.0f} in flight over all lanes ({cap.used:.0%} used)"
    elif reached is not None:
        share = "" if reached.part > SHARED else f" of this job's {reached.part:.0%} share"
        text = f"limited by {_limit(reached)} ({reached.used:.0%}{share} used)"
    elif hold:
        return hold
    elif top is None or lane.started < LEAST_STARTED or top.name in lane.unreached:
        text = "no limit was reached"
    else:
        text = f"no limit was reached ({top.used:.0%} of {_limit(top)} used)"
    return f"{text}; {hold}" if hold else text


def _budget_bound_text(reserve: Reserve) -> str:
    """The budget held the lane back: how many requests at once it had room for."""
    if not reserve.in_flight:
        return f"limited by the budget, which has no room for another request: {reserve_text(reserve)}"
    return f"limited by the budget, which allows {reserve.in_flight:,} in flight: {reserve_text(reserve)}"


def _hold(lane: LaneView) -> str:
    """How long the lane was held over a run, and why; "" if it was not."""
    if lane.holds:
        return hold_text(lane.held_s, lane.holds, lane.held_for)
    if lane.held_for:
        return "held for longer than --max-hold"
    return ""


def hold_text(held_s: float, holds: int, reason: str) -> str:
    """The holds of a lane: "held 2m 03s: You've hit your limit"."""
    times = f" in {holds:,} holds" if holds > 1 else ""
    return f"held {duration(held_s)}{times}: {short(reason)}"


def reserve_text(reserve: Reserve) -> str:
    """The money reserved for a request, and how to reduce it."""
    text = f"up to {money(reserve.usd)} per request, for {reserve.output_tokens:,.0f} output tokens"
    if reserve.limited:
        return f"{text} (max_tokens)"
    return f"{text}; --max-tokens N lowers it"


def too_small_text(view: View) -> str:
    """For a budget of which nothing is spent, and which is less than one request may cost: that, and what to do; otherwise ""."""
    snapshot, least = view.snapshot, _least_reserve(view)
    if least is None or snapshot.spent_usd > ROUNDING or least.usd <= snapshot.max_cost_usd:
        return ""
    lower = "a lower max_tokens" if least.limited else "--max-tokens N"
    cap = format(Decimal(repr(snapshot.max_cost_usd)), "f").removesuffix(".0")
    cost = f"nothing was sent: --max-cost {cap} does not cover one request, which may cost {money(least.usd)}"
    return f"{cost}: raise it, or set {lower}"


def _least_reserve(view: View) -> Reserve | None:
    """The smallest reserve of a lane with waiting units; None without one, or without a budget."""
    short = [lane.reserve for lane in view.snapshot.lanes if lane.reserve is not None and lane.remaining]
    if not short or not view.snapshot.max_cost_usd:
        return None
    return min(short, key=lambda reserve: reserve.usd)


def budget_line(view: View) -> str:
    """Why a run could not continue within its budget; "" if no request has an estimate."""
    snapshot, least = view.snapshot, _least_reserve(view)
    if least is None:
        return ""
    if too_small_text(view):
        why = "max_tokens" if least.limited else "max_tokens is not set"
        return f"{least.output_tokens:,.0f} output tokens are reserved for an answer ({why})"
    left = max(0.0, snapshot.max_cost_usd - snapshot.spent_usd)
    if not least.usd:  # The cost of a function call is known only when it ends: nothing is reserved before.
        over = snapshot.spent_usd - snapshot.max_cost_usd
        passed = f"exceeded by {money(over)}" if over > ROUNDING else "reached"
        return f"the cap of {money(snapshot.max_cost_usd)} was {passed}: the cost of a call is known only when it ends"
    return f"{money(left)} of {money(snapshot.max_cost_usd)} is left, and the next request may cost more: {reserve_text(least)}"


def _unmeasured(lane: LaneView, top: LimitUsage | None) -> bool:
    """Whether the lane was refused by a limit that it has not learned yet. A full window is a learned limit."""
    searching = any(meter.name == LEARNED for meter in lane.meters) and not any(
        share.found for share in lane.shares
    )
    return searching and lane.refused > 0 and (top is None or top.used < FULL)


def _limit(share: LimitUsage) -> str:
    if share.name == CONCURRENCY:
        return f"{share.limit:,.0f} in flight"
    if share.found:
        return f"about {share.limit:,.0f} {share.dimension.replace('_', ' ')} per minute, learned by the lane"
    if share.name == "minimum gap":
        return f"a minimum gap of {duration(share.limit)}"
    return f"{share.limit:,.0f} {share.name}"
