"""How long to wait before a unit is tried again where the provider gives no hint.

`min(base × 2^attempt, cap) × (1 ± jitter)`, or `base × (attempt + 1)` if the policy is linear. The jitter comes after the cap, so
that capped waits spread too.
The core draws no random numbers; the spread is a hash of the unit and the attempt. It scatters as well as
chance does and a replayed run waits exactly as long as the first one.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headway.core.model import Kind, Outcome, RetryPolicy

#: A hint above this closes the whole lane instead of delaying one unit (DESIGN §2).
LONGEST_HINT_S: Final = 60.0

#: A longer wait is a mistake of the provider, or an attack: no quota lasts longer than a year.
LONGEST_BELIEVED_S: Final = 366 * 86_400.0

#: Refusals that say "later", not "no": they spend none of a unit's attempts.
THROTTLES: Final = frozenset({Kind.RATE, Kind.CONCURRENCY, Kind.HOLD})

#: These stop the lane; its units stay pending.
LANE_STOPPERS: Final = frozenset({Kind.QUOTA, Kind.AUTH})

#: The unit itself is at fault; a retry would give the same answer.
HOPELESS: Final = frozenset({Kind.TOO_LARGE, Kind.INVALID})

#: The provider refused before it did any work, so nothing was charged.
REFUSED: Final = THROTTLES | LANE_STOPPERS | HOPELESS | {Kind.OVERLOAD}

#: A unit whose worker died this often while running it is a suspect: it runs once more, alone in a fresh process. If that
#: dies too, the unit is quarantined.
SUSPECT_CRASHES: Final = 2
#: A suspect waits until its lane has no other work, but no longer than this.
SUSPECT_WAIT_S: Final = 60.0


def believed(outcome: Outcome) -> Outcome:
    """The outcome without an impossible wait: not a number, negative, or longer than a year."""
    hint = outcome.hint
    if hint is None or hint.retry_after_s is None or 0.0 <= hint.retry_after_s <= LONGEST_BELIEVED_S:
        return outcome
    return msgspec.structs.replace(outcome, hint=msgspec.structs.replace(hint, retry_after_s=None))


def is_lanes_fault(outcome: Outcome) -> bool:
    """Whether the failure is certainly not the unit's: the provider was overloaded, or nothing of the request was sent."""
    return outcome.kind is Kind.OVERLOAD or not outcome.sent


def unpaid(outcome: Outcome) -> bool:
    """Whether an attempt with this outcome certainly cost nothing: it was never sent, or refused before any work.

    The one rule for budgets, records and totals. What was sent and did not say what it took is unsure.
    """
    refused = outcome.kind in REFUSED and not outcome.worked
    return outcome.usage is None and (not outcome.sent or refused)


def spread(index: int, attempt: int) -> float:
    """A number in [-1, 1) that depends only on the unit and the attempt, spread evenly over both."""
    mixed = (index * 0x9E3779B1 + attempt * 0x85EBCA6B) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    mixed ^= mixed >> 13
    return mixed / 0x80000000 - 1.0


def backoff_s(retry: RetryPolicy, index: int, attempt: int) -> float:
    """The wait before try number `attempt + 1`, where attempt counts from 0."""
    factor = attempt + 1.0 if retry.linear else 2.0 ** min(attempt, 60)
    capped = min(retry.base_s * factor, retry.cap_s)
    return float(capped * (1.0 + retry.jitter * spread(index, attempt)))
