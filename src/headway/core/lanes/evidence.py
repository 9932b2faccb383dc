"""The largest requests that a lane's provider accepted, and which reported limits they contradict.

Headers may be wrong, or lie: a limit of one token a minute comes with the answer to a request of a thousand. Two rules. A limit
below what was accepted in one request makes no unit too large: the provider itself decides. One that is far below it is no
limit at all, because the lane would wait for hours. Configured limits are the user's, and not judged here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headway.core.lanes.meter import Meter
from headway.core.model import Costs, Dimension, LimitReport

#: A limit this many times smaller than one accepted request is a mistake. Some gateways count tokens only afterwards, and
#: accept a request of a few minutes' worth.
FAR_BELOW: Final = 10.0
#: What is certain to have been counted of a request, by dimension: itself, its input, and the output to be expected. What is set
#: aside for a longer answer may not be.
_SURE: Final = {Dimension.REQUESTS: 0, Dimension.TOKENS: 1, Dimension.INPUT: 1, Dimension.OUTPUT: 2}


class Evidence:
    """The most that one accepted request took."""

    __slots__ = ("_sure", "largest")

    def __init__(self) -> None:
        #: By dimension, as units are measured before they start.
        self.largest: Costs = (0.0, 0.0, 0.0, 0.0)
        #: Requests, input, output. No provider limits a minute to a part of one request.
        self._sure = (1.0, 0.0, 0.0)

    def accepted(self, costs: Costs, sure_in: float) -> None:
        """The provider took a request of this size, and certainly counted this much of its input."""
        _, most_in, most_out = self._sure
        if sure_in > most_in or costs[3] > most_out:
            self._sure = (1.0, max(sure_in, most_in), max(costs[3], most_out))
        _, tokens, tokens_in, tokens_out = self.largest
        if costs[1] > tokens or costs[2] > tokens_in or costs[3] > tokens_out:
            self.note(costs)

    def note(self, costs: Iterable[float]) -> None:
        """A request of this size was accepted, now or in an earlier run."""
        requests, tokens, tokens_in, tokens_out = map(max, self.largest, costs)
        self.largest = (requests, tokens, tokens_in, tokens_out)

    def disproves(self, report: LimitReport) -> bool:
        """Whether a reported limit is so far below what was accepted that it cannot be meant."""
        return self._sure[_SURE[report.dimension]] > FAR_BELOW * report.limit

    def exceeds(self, meter: Meter) -> bool:
        """Whether a larger request than the meter's limit was accepted, where that limit was only reported."""
        return meter.reported and self.largest[meter.place] > meter.limit
