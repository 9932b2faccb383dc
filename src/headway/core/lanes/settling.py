"""What an attempt turned out to take, put right in the meters that were charged for it.

Reported levels know what was used before we do. So whatever a meter was told since an attempt began is not told to it again; only
the account of who used it (`used_s`, `foreign_s`) is kept straight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headway.core.lanes.meter import MINIMUM_GAP
from headway.core.model import DIMENSIONS, Dimension, Usage

if TYPE_CHECKING:
    from headway.core.lanes.lane import Lane
    from headway.core.lanes.queueing.queue import Entry

_INPUT_PLACES: Final = (DIMENSIONS.index(Dimension.TOKENS), DIMENSIONS.index(Dimension.INPUT))


def settle(lane: Lane, entry: Entry, usage: Usage) -> None:
    """Replace the reservation by what was really used. Reported levels have that already."""
    costs = None
    for meter in entry.meters:
        costs = costs or lane.spec.counting.settled(entry.estimate, usage)
        more = costs[meter.place] - entry.charged[meter.place]
        if more and meter.synced_seq >= 0:
            meter.foreign_s -= more / meter.rate  # The reports have it, and it was not somebody else.
            meter.used_s += more / meter.rate
        elif more:
            meter.adjust(more)
    if lane.finder is not None and costs is not None:
        before = entry.charged
        grown = (0.0, costs[1] - before[1], costs[2] - before[2], costs[3] - before[3])
        lane.finder.settled(grown, entry.seq)


def correct_input(lane: Lane, entry: Entry, usage: Usage) -> None:
    """The input is counted before the output is there: put right what was estimated for it.

    A level that was reported since then has it right already.
    """
    more = usage.input_tokens - entry.estimate.input_tokens
    _recharge(entry, more)
    if lane.finder is not None:
        lane.finder.settled((0.0, more, more, 0.0), entry.seq)
    for meter in entry.meters:
        if meter.place in _INPUT_PLACES and meter.synced_seq < entry.seq:
            meter.adjust(more)


def credit_cached(lane: Lane, entry: Entry, cached: float, now: float) -> None:
    """The provider gives back what it found in its cache, now and not later."""
    _recharge(entry, -cached)
    if lane.finder is not None:
        lane.finder.credited((0.0, cached, cached, 0.0), entry.seq)
    for meter in entry.meters:
        if meter.place in _INPUT_PLACES:
            meter.credit(cached, now)


def refund(lane: Lane, entry: Entry) -> None:
    """The provider did nothing for this attempt; a level reported since then knows that already."""
    for meter in entry.meters:
        if meter.name == MINIMUM_GAP:
            continue
        if meter.synced_seq < entry.seq:
            meter.adjust(-entry.charged[meter.place])
        else:
            meter.used_s -= entry.charged[meter.place] / meter.rate
    if lane.finder is not None:
        lane.finder.turned_back(entry.charged, entry.seq)


def _recharge(entry: Entry, more: float) -> None:
    """Note that the meters hold `more` input for this attempt than they did."""
    requests, tokens, tokens_in, tokens_out = entry.charged
    entry.charged = (requests, tokens + more, tokens_in + more, tokens_out)
