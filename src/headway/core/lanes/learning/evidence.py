"""The largest requests that a lane's provider accepted, and which reported limits they contradict.

Headers may be wrong: a limit of one token a minute may come with the answer to a request of a thousand tokens. Two rules apply.
A reported limit below the size of an accepted request makes no unit too large: the provider itself decides. A limit far below it is
ignored, because the lane would wait for hours. Configured limits belong to the user and are not judged here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headway.core.lanes.meters.meter import Meter
from headway.core.model import Costs, Dimension, LimitReport

#: A limit this many times smaller than one accepted request is a mistake. Some gateways count tokens only afterwards, and
#: accept a request of a few minutes' worth.
FAR_BELOW: Final = 10.0
#: What the provider has certainly counted of a request, by dimension: the request, its input, and the expected output. What is
#: reserved for a longer answer may not be counted.
_SURE: Final = {Dimension.REQUESTS: 0, Dimension.TOKENS: 1, Dimension.INPUT: 1, Dimension.OUTPUT: 2}


class Evidence:
    """The largest accepted request, by dimension."""

    __slots__ = ("_sure", "largest")

    def __init__(self) -> None:
        #: By dimension, as units are estimated before they start.
        self.largest: Costs = (0.0, 0.0, 0.0, 0.0)
        #: Requests, input, output. Every provider allows at least one request a minute.
        self._sure = (1.0, 0.0, 0.0)

    def accepted(self, costs: Costs, sure_in: float) -> None:
        """The provider accepted a request of this size, and certainly counted `sure_in` of its input."""
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
        """Whether a reported limit is too far below an accepted request to be true."""
        return self._sure[_SURE[report.dimension]] > FAR_BELOW * report.limit

    def exceeds(self, meter: Meter) -> bool:
        """Whether a request larger than a reported limit was accepted."""
        return meter.reported and self.largest[meter.place] > meter.limit
