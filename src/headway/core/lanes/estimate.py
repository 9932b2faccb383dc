"""What a unit will take, from its length and from what units like it took before.

Tokens are characters divided by a ratio, four to begin with and then whatever the reported usage says. The output
to be expected is the median of what units of the same *family* (the same prompt with other contents) produced, or
of the whole lane while a family is new. The most to be expected is a high quantile: it stands in for `max_tokens`
where none is sent. Both feed the reservation, and the expected output orders longest-first.

Money is set aside by what answers of the same family were like, and by nothing else: what another prompt is answered with
says nothing about this one. For the input it is set aside by the bytes of the text, since no tokenizer makes more tokens than
that, and by less once this run has seen how many tokens its texts have. Pacing goes by the likely size, not by the most.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from headway.core.model import Estimate, Usage

#: Characters a token before anything was reported: English prose and code are between 3 and 5.
FIRST_RATIO: Final = 4.0
#: How much one report moves the ratio, once there have been a few; the first ones count in full.
SMOOTHING: Final = 0.05
#: Outputs that are remembered a family, and how many it takes before a family speaks for itself.
KEPT: Final = 256
ENOUGH: Final = 8
#: Expected output before anything was seen, as a share of `max_tokens`, or this many tokens.
FIRST_SHARE: Final = 0.25
FIRST_OUTPUT: Final = 256.0
#: The quantile that stands in for a missing `max_tokens`.
HIGH: Final = 0.95
#: What money is set aside for, where nothing limits an answer: so much more than this quantile of what was seen of its family
#: (of fewer than fifty answers that is the longest), and this many tokens until there are enough of them.
LONG: Final = 0.98
MARGIN: Final = 1.25
FIRST_RESERVE: Final = 1_024.0
#: Input is set aside for so many times what this run has seen of it: English is followed by Chinese.
INPUT_MARGIN: Final = 2.0
#: Families beyond this many share the lane's memory: a family a row would be no family.
MOST_FAMILIES: Final = 1000
#: Families that a record takes along: those that were learned of last.
LASTING_FAMILIES: Final = 64


class Outputs:
    """The last outputs of one family, sorted."""

    __slots__ = ("_recent", "_sorted")

    def __init__(self) -> None:
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []

    def __len__(self) -> int:
        return len(self._sorted)

    def add(self, tokens: float) -> None:
        """One more; the oldest is forgotten."""
        if len(self._recent) == KEPT:
            del self._sorted[bisect_left(self._sorted, self._recent.popleft())]
        self._recent.append(tokens)
        insort(self._sorted, tokens)

    def quantile(self, share: float) -> float:
        """The value that this share of them stays below."""
        return self._sorted[min(len(self._sorted) - 1, int(share * len(self._sorted)))]


class EstimatorRecord(msgspec.Struct, frozen=True):
    """What an estimator takes along: the ratio, and a few quantiles a family."""

    chars_per_token: float
    reports: int
    outputs: dict[str, tuple[float, ...]]


class Estimator:
    """Learns one lane's ratio and outputs."""

    def __init__(self) -> None:
        self.chars_per_token = FIRST_RATIO
        self.reports = 0
        self._all = Outputs()
        self._families: dict[str, Outputs] = {}
        #: Those that were learned of in this run, by its own answers.
        self._latest: dict[str, Outputs] = {}
        #: Their input tokens in this run, as a share of the most that they could have.
        self._inputs: dict[str, Outputs] = {}

    def estimate(self, chars: int, max_tokens: float = 0.0, family: str = "", usd: float = 0.0) -> Estimate:
        """What a unit of this length and family is expected to take."""
        outputs = self._outputs(family)
        if outputs is None:
            expected = max_tokens * FIRST_SHARE if max_tokens else FIRST_OUTPUT
            most = max_tokens or FIRST_OUTPUT
        else:
            expected = outputs.quantile(0.5)
            most = max_tokens or outputs.quantile(HIGH)
        if max_tokens:
            expected = min(expected, max_tokens)
        return Estimate(chars / self.chars_per_token, expected, most, usd)

    def knows(self, family: str) -> bool:
        """Whether enough answers of this family were seen to set money aside by them."""
        own = self._families.get(family)
        return own is not None and len(own) >= ENOUGH

    def proven(self, family: str) -> bool:
        """Whether this run has seen enough of them itself: what earlier jobs taught may be of other questions."""
        own = self._latest.get(family)
        return own is not None and len(own) >= ENOUGH

    def reserve(self, family: str) -> float:
        """The output tokens to set money aside for, of a unit whose answer nothing limits. A longer answer may come."""
        known, own = self._families.get(family), self._latest.get(family)
        if known is None or not known:
            return FIRST_RESERVE
        seen = MARGIN * max(known.quantile(LONG), own.quantile(LONG) if own else 0.0)
        return seen if len(known) >= ENOUGH else max(seen, FIRST_RESERVE)

    def inputs_seen(self, family: str) -> int:
        """How many inputs of this family this run has seen."""
        return len(self._inputs.get(family, ()))

    def input_reserve(self, family: str, most: float, *, exact: bool) -> float:
        """The input tokens to set money aside for. `exact`: a text, which cannot have more than `most`."""
        own = self._inputs.get(family)
        if own is None or not own:
            return most
        seen = INPUT_MARGIN * own.quantile(LONG) * most
        if exact:
            return min(seen, most) if len(own) >= ENOUGH else most
        return seen if len(own) >= ENOUGH else max(seen, most)

    def saw(self, family: str, outputs: Iterable[float]) -> None:
        """What answers of a family were like in earlier jobs, the oldest first."""
        seen = self._families.setdefault(family, Outputs())
        for tokens in outputs:
            seen.add(tokens)

    def learn(self, chars: int, family: str, usage: Usage, input_most: float = 0.0) -> None:
        """An attempt of this length and family really took so much; `input_most` is the most input that it could have."""
        if usage.input_tokens > 0.0 and input_most > 0.0 and self._remembered(self._inputs, family):
            self._inputs.setdefault(family, Outputs()).add(usage.input_tokens / input_most)
        if usage.input_tokens > 0.0 and chars > 0:
            self.reports += 1
            weight = max(SMOOTHING, 1.0 / self.reports)
            self.chars_per_token += weight * (chars / usage.input_tokens - self.chars_per_token)
        if usage.output_tokens > 0.0:
            self._all.add(usage.output_tokens)
            if self._remembered(self._families, family):
                for known in (self._families, self._latest):
                    known.setdefault(family, Outputs()).add(usage.output_tokens)

    @staticmethod
    def _remembered(known: dict[str, Outputs], family: str) -> bool:
        return bool(family) and (family in known or len(known) < MOST_FAMILIES)

    def _outputs(self, family: str) -> Outputs | None:
        own = self._families.get(family)
        if own is not None and len(own) >= ENOUGH:
            return own
        return self._all if len(self._all) >= ENOUGH else None

    def export(self) -> EstimatorRecord:
        """As a plain record: eleven quantiles a family say enough."""
        lasting = [*(name for name in self._families if name not in self._latest), *self._latest]
        known = {"": self._all, **{name: self._families[name] for name in lasting[-LASTING_FAMILIES:]}}
        shares = [1.0 - HIGH, *(place / 10.0 for place in range(1, 10)), HIGH]
        outputs = {
            family: tuple(one.quantile(share) for share in shares)
            for family, one in known.items()
            if len(one) >= ENOUGH
        }
        return EstimatorRecord(self.chars_per_token, self.reports, outputs)

    def recall(self, record: EstimatorRecord) -> None:
        """Go on from an earlier run's record; what is seen now soon outweighs it."""
        self.chars_per_token = record.chars_per_token
        self.reports = min(record.reports, int(1.0 / SMOOTHING))
        for family, quantiles in record.outputs.items():
            outputs = self._families.setdefault(family, Outputs()) if family else self._all
            for tokens in quantiles:
                outputs.add(tokens)
