"""The account of a run in words and as data: what was spent and saved, by job and by lane, and what held each lane back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headway.core.finder import LEARNED
from headway.core.shares import CONCURRENCY, Share
from headway.core.snapshot import LaneView, Reserve
from headway.display.words import count, duration, money, short, tokens
from headway.engine.observer import View
from headway.stores.records import Job, Use

#: Lanes that have a line of their own at the end of a run.
MOST_LANES: Final = 12
#: Whose part of a limit was less than this had others beside it.
SHARED: Final = 0.99
#: A window of which so much was used was full.
FULL: Final = 0.9


def saved(job: Job) -> str:
    """What is not sent again, before the first request of a run."""
    text = f"{job.good:,} of {job.total:,} are done already"
    spared = [money(job.saved_usd)] if job.saved_usd else []
    if job.saved_tokens > 0:
        spared.append(tokens(job.saved_tokens))
    return f"{text}: {' and '.join(spared)} not spent again" if spared else text


def saved_facts(job: Job) -> dict[str, Any]:
    """The same as data."""
    return {
        "units": job.good,
        "cost_usd": None if job.known_usd is None else job.saved_usd,
        "tokens": job.saved_tokens,
    }


def spent(use: Job | Use) -> str:
    """Tokens, refusals and money, with what of it was paid for nothing, and what nobody knows."""
    parts = [f"{count(use.input_tokens, 'token')} in", f"{use.output_tokens:,} out", f"{use.refused:,} × 429"]
    return ", ".join(parts + ([cost] if (cost := cost_of(use)) else []))


def cost_of(use: Job | Use) -> str:
    """The money alone; "" where there is nothing to say about it."""
    if not use.cost_usd and not use.unsure_usd:
        return ""
    text = money(use.cost_usd)
    if use.repeated_usd:
        text += f", of which {money(use.repeated_usd)} in {count(use.repeated, 'attempt')} that failed or were repeated"
    if use.unsure_usd:
        text += f", and at most {money(use.unsure_usd)} more in {count(use.unsure, 'attempt')} that did not say what they took"
    if use.unpriced:
        text += f" (without {count(use.unpriced, 'attempt')} whose price is not known)"
    return text


def use_facts(use: Job | Use) -> dict[str, Any]:
    """What attempts came to, as data: a cost of null is one that nobody knows."""
    return {
        "attempts": use.attempts,
        "refused": use.refused,
        "input_tokens": use.input_tokens,
        "output_tokens": use.output_tokens,
        "cost_usd": use.known_usd,
        "unpriced_attempts": use.unpriced,
        "repeated": {
            "attempts": use.repeated,
            "tokens": use.repeated_tokens,
            "cost_usd": None if use.known_usd is None else use.repeated_usd,
        },
        "unsure": {"attempts": use.unsure, "most_usd": use.unsure_usd},
    }


def lane_lines(view: View, uses: Mapping[str, Use]) -> list[str]:
    """A line for each lane that did anything or was held: what it cost, and what held it back. `uses` are by the lane's key."""
    worked = [lane for lane in view.snapshot.lanes if lane.started or lane.holds]
    lines = []
    for lane in sorted(worked, key=lambda lane: view.names[lane.key])[:MOST_LANES]:
        use = uses.get(lane.key)
        parts = [f"{lane.succeeded:,} succeeded"]
        if len(worked) > 1 and use is not None and (use.cost_usd or use.unsure_usd):
            parts.append(money(use.cost_usd))
        lines.append(f"{view.names[lane.key]}: {', '.join(parts)}; {held_back(lane)}")
    if len(worked) > MOST_LANES:
        lines.append(f"… and {len(worked) - MOST_LANES} more: 'headway status' has them all")
    return lines


def held_back(lane: LaneView) -> str:
    """Which limit the lane ran against over a run, and how much of it was used."""
    top, cap, hold = lane.shares[0] if lane.shares else None, lane.cap, _hold(lane)
    if (reserve := lane.reserve) is not None and reserve.binds:
        return f"the money set aside for {reserve.in_flight:,} in flight held it back: {aside(reserve)}"
    if hold and not lane.started:
        return hold
    if not (lane.succeeded or lane.failed or lane.refused):
        text = "nothing was answered"
    elif _unmeasured(lane, top):
        text = f"a limit was met ({lane.refused:,} × 429) and not measured yet"
    elif cap is not None and cap.binds and (top is None or cap.used > top.used):
        text = f"{cap.limit:,.0f} at once over all lanes was the limit, {cap.used:.0%} of it used"
    elif top is not None and top.binds:
        of = "it" if top.part > SHARED else f"the {top.part:.0%} that were this job's"
        text = f"{_limit(top)}{',' if top.found else ''} was the limit, {top.used:.0%} of {of} used"
    elif hold:
        return hold
    elif top is None:
        text = "no limit was met"
    else:
        text = f"no limit held it back ({top.used:.0%} used of {_limit(top)})"
    return f"{text}; {hold}" if hold else text


def _hold(lane: LaneView) -> str:
    """How long the lane was held over a run, and why; "" where it was not."""
    if lane.holds:
        return held(lane.held_s, lane.holds, lane.held_for)
    if lane.held_for:
        return "held for longer than --max-hold"
    return ""


def held(held_s: float, holds: int, reason: str) -> str:
    """Holds in words: "held 2m 03s: You've hit your limit"."""
    times = f" in {holds:,} holds" if holds > 1 else ""
    return f"held {duration(held_s)}{times}: {short(reason)}"


def hold_facts(held_s: float, holds: int, reason: str) -> dict[str, Any]:
    """The same as data."""
    return {"held_s": round(held_s, 3), "holds": holds, "reason": reason}


def aside(reserve: Reserve) -> str:
    """What is set aside for a request, and what would make it less."""
    text = f"up to {money(reserve.usd)} a request, with {reserve.output_tokens:,.0f} output tokens"
    if reserve.limited:
        return f"{text}, its max_tokens"
    return f"{text} because it has no max_tokens; --max-tokens N sets a limit"


def budget_line(view: View) -> str:
    """Why a run that is out of money could not go on; "" where no request says what it would have taken."""
    snapshot = view.snapshot
    short = [lane.reserve for lane in snapshot.lanes if lane.reserve is not None and lane.remaining]
    if not short or not snapshot.max_cost_usd:
        return ""
    least = min(short, key=lambda reserve: reserve.usd)
    left = max(0.0, snapshot.max_cost_usd - snapshot.spent_usd)
    return f"{money(left)} of {money(snapshot.max_cost_usd)} is left, and the next request may cost more: {aside(least)}"


def budget_facts(view: View) -> dict[str, Any] | None:
    """The cap of a run, what is spent of it or may be, and what the next request of each lane would have taken."""
    snapshot = view.snapshot
    if not snapshot.max_cost_usd:
        return None
    return {"max_cost_usd": snapshot.max_cost_usd, "spent_usd": snapshot.spent_usd}


def _unmeasured(lane: LaneView, top: Share | None) -> bool:
    """Whether it was refused by a limit that it has not found yet; a window that was really full is one that it has."""
    searching = any(meter.name == LEARNED for meter in lane.meters) and not any(
        share.found for share in lane.shares
    )
    return searching and lane.refused > 0 and (top is None or top.used < FULL)


def _limit(share: Share) -> str:
    if share.name == CONCURRENCY:
        return f"{share.limit:,.0f} at once"
    if share.found:
        return f"a pace of about {share.limit:,.0f} {share.dimension.replace('_', ' ')} per minute, which the lane found"
    if share.name == "minimum gap":
        return f"a minimum gap of {duration(share.limit)}"
    return f"{share.limit:,.0f} {share.name}"


def limit_facts(view: View) -> dict[str, Any]:
    """What held each lane back over the run, as data."""
    return {
        view.names[lane.key]: {
            "held_s": round(lane.held_s, 3),
            "holds": lane.holds,
            "held_for": lane.held_for or None,
            "reserve": None
            if lane.reserve is None
            else {
                "usd": lane.reserve.usd,
                "output_tokens": round(lane.reserve.output_tokens),
                "max_tokens_set": lane.reserve.limited,
                "in_flight": lane.reserve.in_flight,
                "held_s": round(lane.reserve.held_s, 3),
                "held_it_back": lane.reserve.binds,
            },
            "limits": [
                {"name": share.name, "limit": share.limit, "used": round(share.used, 4), "found": share.found}
                for share in lane.shares
            ],
        }
        for lane in view.snapshot.lanes
    }
