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
#: The most tokens that a character can be: rare letters are up to four bytes, and a token has at least one.
MOST_TOKENS: Final = 4.0
#: The weight of one report in the ratio; the first reports count in full.
SMOOTHING: Final = 0.05
#: Outputs that are kept for each family, and how many a family needs before they are used.
KEPT: Final = 256
ENOUGH: Final = 8
#: So many new outputs are sorted in one by one: more take longer than sorting all of them.
FEW_NEW: Final = 16
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
    """The last outputs of one family. They are sorted only when a quantile is wanted: many arrive together."""

    __slots__ = ("_new", "_recent", "_sorted")

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=KEPT)
        self._sorted: list[float] = []
        #: Not sorted yet.
        self._new: deque[float] = deque(maxlen=KEPT)

    def __len__(self) -> int:
        return min(KEPT, len(self._recent) + len(self._new))

    def add(self, tokens: float) -> None:
        """Add one; the oldest is dropped."""
        self._new.append(tokens)

    def copy(self) -> Outputs:
        """The same outputs, to go on apart."""
        other = Outputs()
        other._recent.extend(self._recent)
        other._sorted = self._sorted.copy()
        other._new.extend(self._new)
        return other

    def quantile(self, share: float) -> float:
        """The quantile of this share."""
        if self._new:
            self._sort()
        return self._sorted[min(len(self._sorted) - 1, int(share * len(self._sorted)))]

    def _sort(self) -> None:
        recent, new = self._recent, self._new
        if len(new) > FEW_NEW:
            recent.extend(new)
            self._sorted = sorted(recent)
        else:
            for tokens in new:
                if len(recent) == KEPT:
                    del self._sorted[bisect_left(self._sorted, recent[0])]
                recent.append(tokens)
                insort(self._sorted, tokens)
        new.clear()


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
        #: The median and the high quantile of each family that was asked for since the last report; None: not known.
        self._usual: dict[str, tuple[float, float] | None] = {}

    def estimate(self, chars: int, max_tokens: float = 0.0, family: str = "", usd: float = 0.0) -> Estimate:
        """The estimate for a unit of this length and family."""
        try:
            usual = self._usual[family]
        except KeyError:
            usual = self._usual[family] = self._usual_outputs(family)
        if usual is None:
            expected = max_tokens * FIRST_SHARE if max_tokens else FIRST_OUTPUT
            most = max_tokens or FIRST_OUTPUT
        else:
            expected, most = usual
            if max_tokens:
                most = max_tokens
                if expected > max_tokens:
                    expected = max_tokens
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
        seen = self._earlier(family)
        self._usual = {}
        for tokens in outputs:
            seen.add(tokens)

    def _earlier(self, family: str) -> Outputs:
        """The outputs of a family, for those of earlier runs to be added."""
        seen = self._families.setdefault(family, Outputs())
        if self._latest.get(family) is seen:
            self._latest[family] = seen.copy()
        return seen

    def learn(self, chars: int, family: str, usage: Usage, input_most: float = 0.0) -> None:
        """Learn the usage of an attempt; `input_most` is the most input tokens that it could have."""
        self._usual = {}
        if usage.input_tokens > 0.0:
            if input_most > 0.0 and (inputs := _outputs_of(self._inputs, family)) is not None:
                inputs.add(usage.input_tokens / input_most)
            if chars > 0:
                self.reports += 1
                weight = max(SMOOTHING, 1.0 / self.reports)
                self.chars_per_token += weight * (chars / usage.input_tokens - self.chars_per_token)
        if usage.output_tokens > 0.0:
            self._all.add(usage.output_tokens)
            if (outputs := _outputs_of(self._families, family)) is not None:
                latest = self._latest.get(family)
                if latest is None:
                    # Without outputs of earlier runs, both are the same.
                    latest = self._latest[family] = Outputs() if outputs else outputs
                outputs.add(usage.output_tokens)
                if latest is not outputs:
                    latest.add(usage.output_tokens)

    def _usual_outputs(self, family: str) -> tuple[float, float] | None:
        own = self._families.get(family)
        outputs = own if own is not None and len(own) >= ENOUGH else self._all
        return (outputs.quantile(0.5), outputs.quantile(HIGH)) if len(outputs) >= ENOUGH else None

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
        self._usual = {}
        for family, quantiles in record.outputs.items():
            outputs = self._earlier(family) if family else self._all
            for tokens in quantiles:
                outputs.add(tokens)


def _outputs_of(known: dict[str, Outputs], family: str) -> Outputs | None:
    """Those of a family; None if too many families are known already."""
    outputs = known.get(family)
    if outputs is None and family and len(known) < MOST_FAMILIES:
        outputs = known[family] = Outputs()
    return outputs
