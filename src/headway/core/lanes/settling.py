"""Corrects the meters when the real usage of an attempt is known.

A reported level already contains the usage. So a meter that had a report since the attempt began is not charged again; only
the record of our use and that of others (`used_s`, `foreign_s`) is corrected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headway.core.lanes.meters.meter import MINIMUM_GAP
from headway.core.model import DIMENSIONS, Dimension, Usage

if TYPE_CHECKING:
    from headway.core.lanes.lane import LaneState
    from headway.core.lanes.queueing.queue import Entry

_INPUT_PLACES: Final = (DIMENSIONS.index(Dimension.TOKENS), DIMENSIONS.index(Dimension.INPUT))


def settle(lane: LaneState, entry: Entry, usage: Usage) -> None:
    """Replace the reservation by the real usage. Reported levels contain it already."""
    costs = None
    for meter in entry.meters:
        costs = costs or lane.spec.counting.settled(entry.estimate, usage)
        more = costs[meter.place] - entry.charged[meter.place]
        if more and meter.synced_seq >= 0:
            meter.foreign_s -= more / meter.rate  # Reported, but not used by others.
            meter.used_s += more / meter.rate
        elif more:
            meter.adjust(more)
    if lane.limits.finder is not None and costs is not None:
        before = entry.charged
        grown = (0.0, costs[1] - before[1], costs[2] - before[2], costs[3] - before[3])
        lane.limits.finder.settled(grown, entry.seq)


def correct_input(lane: LaneState, entry: Entry, usage: Usage) -> None:
    """The size of the input is known before the output: correct its estimate.

    A level that was reported since then is right already.
    """
    more = usage.input_tokens - entry.estimate.input_tokens
    _recharge(entry, more)
    if lane.limits.finder is not None:
        lane.limits.finder.settled((0.0, more, more, 0.0), entry.seq)
    for meter in entry.meters:
        if meter.place in _INPUT_PLACES and meter.synced_seq < entry.seq:
            meter.adjust(more)


def credit_cached(lane: LaneState, entry: Entry, cached: float, now: float) -> None:
    """The provider refunds what it found in its cache, at once."""
    _recharge(entry, -cached)
    if lane.limits.finder is not None:
        lane.limits.finder.credited((0.0, cached, cached, 0.0), entry.seq)
    for meter in entry.meters:
        if meter.place in _INPUT_PLACES:
            meter.credit(cached, now)


def refund(lane: LaneState, entry: Entry) -> None:
    """The provider did nothing for this attempt. A level that was reported since then contains that already."""
    for meter in entry.meters:
        if meter.name == MINIMUM_GAP:
            continue
        if meter.synced_seq < entry.seq:
            meter.adjust(-entry.charged[meter.place])
        else:
            meter.used_s -= entry.charged[meter.place] / meter.rate
    if lane.limits.finder is not None:
        lane.limits.finder.turned_back(entry.charged, entry.seq, entry.started_at)


def _recharge(entry: Entry, more: float) -> None:
    """Note that the meters are charged `more` input for this attempt."""
    requests, tokens, tokens_in, tokens_out = entry.charged
    entry.charged = (requests, tokens + more, tokens_in + more, tokens_out)
