"""Estimates what a unit will use, from its length and from what similar units used.

Input tokens are characters divided by a ratio: four at first, then what the reported usage shows. The expected output is the
median of what units of the same *family* (the same prompt with other contents) produced, or of the whole lane while a family
is new. The largest expected output is a high quantile; it stands for `max_tokens` if a request has none. Meters reserve both.

Money for the output is reserved by earlier answers of the same family only: the answers to another prompt say nothing about
this one. Money for the input is reserved by the bytes of the text, since no tokenizer makes more tokens than that, and by less
once this run has seen how many tokens its texts have. Pacing uses the likely size, not the largest.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from headway.core.model import Estimate, Usage

#: Characters a token before any usage was reported: English prose and code have between 3 and 5.
FIRST_RATIO: Final = 4.0
#: The weight of one report in the ratio; the first reports count in full.
SMOOTHING: Final = 0.05
#: Outputs that are kept for each family, and how many a family needs before they are used.
KEPT: Final = 256
ENOUGH: Final = 8
#: The expected output before any answer: a share of `max_tokens`, or this many tokens.
FIRST_SHARE: Final = 0.25
FIRST_OUTPUT: Final = 256.0
#: The quantile that stands for a missing `max_tokens`.
HIGH: Final = 0.95
#: Money for an answer without a limit is reserved for so many times this quantile of its family (with fewer than fifty
#: answers that is the longest), and for this many tokens until there are enough answers.
LONG: Final = 0.98
MARGIN: Final = 1.25
FIRST_RESERVE: Final = 1_024.0
#: Input is reserved for so many times what this run has seen: Chinese may follow English.
INPUT_MARGIN: Final = 2.0
#: Further families use the outputs of the whole lane: with one family a row there is nothing to learn.
MOST_FAMILIES: Final = 1000
#: Families that a record keeps: the latest ones.
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
        """Add one; the oldest is dropped."""
        if len(self._recent) == KEPT:
            del self._sorted[bisect_left(self._sorted, self._recent.popleft())]
        self._recent.append(tokens)
        insort(self._sorted, tokens)

    def quantile(self, share: float) -> float:
        """The quantile of this share."""
        return self._sorted[min(len(self._sorted) - 1, int(share * len(self._sorted)))]


class EstimatorRecord(msgspec.Struct, frozen=True):
    """What is stored of an estimator: the ratio, and some quantiles for each family."""

    chars_per_token: float
    reports: int
    outputs: dict[str, tuple[float, ...]]


class Estimator:
    """Learns the ratio and the outputs of one lane."""

    def __init__(self) -> None:
        self.chars_per_token = FIRST_RATIO
        self.reports = 0
        self._all = Outputs()
        self._families: dict[str, Outputs] = {}
        #: The outputs of this run alone.
        self._latest: dict[str, Outputs] = {}
        #: The input tokens of this run, as a share of the most that each text could have.
        self._inputs: dict[str, Outputs] = {}

    def estimate(self, chars: int, max_tokens: float = 0.0, family: str = "", usd: float = 0.0) -> Estimate:
        """The estimate for a unit of this length and family."""
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
        """Whether enough answers of this family are known to reserve money by them."""
        own = self._families.get(family)
        return own is not None and len(own) >= ENOUGH

    def proven(self, family: str) -> bool:
        """Whether this run has enough answers of its own: those of earlier jobs may be to other questions."""
        own = self._latest.get(family)
        return own is not None and len(own) >= ENOUGH

    def reserve(self, family: str) -> float:
        """The output tokens to reserve money for, for a unit whose answer has no limit. The answer may be longer."""
        known, own = self._families.get(family), self._latest.get(family)
        if known is None or not known:
            return FIRST_RESERVE
        seen = MARGIN * max(known.quantile(LONG), own.quantile(LONG) if own else 0.0)
        return seen if len(known) >= ENOUGH else max(seen, FIRST_RESERVE)

    def inputs_seen(self, family: str) -> int:
        """How many inputs of this family this run has seen."""
        return len(self._inputs.get(family, ()))

    def input_reserve(self, family: str, most: float, *, exact: bool) -> float:
        """The input tokens to reserve money for. `exact`: a text, which cannot have more than `most`."""
        own = self._inputs.get(family)
        if own is None or not own:
            return most
        seen = INPUT_MARGIN * own.quantile(LONG) * most
        if exact:
            return min(seen, most) if len(own) >= ENOUGH else most
        return seen if len(own) >= ENOUGH else max(seen, most)

    def add_outputs(self, family: str, outputs: Iterable[float]) -> None:
        """Add the outputs of a family in earlier jobs, the oldest first."""
        seen = self._families.setdefault(family, Outputs())
        for tokens in outputs:
            seen.add(tokens)

    def learn(self, chars: int, family: str, usage: Usage, input_most: float = 0.0) -> None:
        """Learn the usage of an attempt; `input_most` is the most input tokens that it could have."""
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
        """A record with eleven quantiles for each family."""
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
        """Continue from the record of an earlier run; new reports soon outweigh it."""
        self.chars_per_token = record.chars_per_token
        self.reports = min(record.reports, int(1.0 / SMOOTHING))
        for family, quantiles in record.outputs.items():
            outputs = self._families.setdefault(family, Outputs()) if family else self._all
            for tokens in quantiles:
                outputs.add(tokens)
