"""How long the units of a lane take, learned by family and size from those that have ended.

Units of one *family* (the same prompt with other contents) and of the same size take about equally long. A size is two
numbers: the length of the input and the limit of the answer, each as a power of two. The expected duration is the mean of such
units.

If no unit of that family and size has ended, the nearest size of the family is used, and if the family is new, the
mean of the lane. Both are corrected for the difference in size: in full for the limit of an answer, since most of a unit's
time is its output, and by the square root for the length of its input, which makes some answers longer (a translation) and
others not (a classification). Before any unit has ended, the same rule orders units by their size alone.

Expectations are rounded to powers of √2. Units that differ by less keep the order of the input.
"""

from __future__ import annotations

from math import log2
from typing import Final

import msgspec

from headway.core.lanes.estimate import ENOUGH, FIRST_RATIO
from headway.core.model import Unit

#: Families and sizes that are remembered; others are estimated from those.
MOST_SIZES: Final = 1000
#: How much one unit moves the mean of its size, once there have been a few.
SMOOTHING: Final = 0.1
FEW: Final = 10
#: Twice the input, or twice the `max_tokens`, multiplies the duration by 2 to this power.
INPUT_POWER: Final = 0.5
OUTPUT_POWER: Final = 1.0
#: The power of two for an answer without a limit: 1,024 tokens, which is what a budget reserves.
OPEN_OUTPUT: Final = 11
#: Steps per power of two that expected durations are rounded to.
STEPS: Final = 2.0

#: The powers of two of the input's characters and of `max_tokens`.
Size = tuple[int, int]


def size_of(chars: int, max_tokens: float) -> Size:
    """The size of a unit, by its input and the limit of its answer (0: no limit; negative: hardly any answer)."""
    return chars.bit_length(), max(0, int(max_tokens)).bit_length() or OPEN_OUTPUT


def unit_size(unit: Unit) -> Size:
    """The size of a unit."""
    estimate = unit.estimate
    chars = unit.chars or int(FIRST_RATIO * estimate.input_tokens)
    return chars.bit_length(), int(estimate.max_output_tokens).bit_length() or OPEN_OUTPUT


class LengthTable(msgspec.Struct, frozen=True):
    """The expected durations at one moment. Immutable, because another thread may read it."""

    #: The mean duration by family and size.
    families: dict[str, dict[Size, float]] = {}
    #: The mean duration and the mean size of all units that have ended; 0: none has.
    mean_s: float = 0.0
    mean_size: tuple[float, float] = (0.0, 0.0)

    def expected_s(self, family: str, size: Size) -> float:
        """The expected duration of a unit of this family and size. Until a unit has ended, only the proportions mean anything."""
        seen = self.families.get(family)
        if seen is None:
            return _rounded((self.mean_s or 1.0) * _ratio(size, self.mean_size))
        mean_s = seen.get(size)
        if mean_s is None:
            near = min(seen, key=lambda other: abs(other[0] - size[0]) + abs(other[1] - size[1]))
            mean_s = seen[near] * _ratio(size, near)
        return _rounded(mean_s)

    def of(self, unit: Unit) -> float:
        """The expected duration of a unit."""
        return unit.expected_s or self.expected_s(unit.family, unit_size(unit))


NOTHING_KNOWN: Final = LengthTable()


class UnitLengths:
    """Learns how long the units of one lane take."""

    __slots__ = ("_means", "count")

    def __init__(self) -> None:
        #: How many units it has learned from.
        self.count = 0
        #: How many units of a family and size have ended, and their mean duration.
        self._means: dict[tuple[str, Size], list[float]] = {}

    @property
    def known(self) -> bool:
        """Whether enough units have ended for an expectation."""
        return self.count >= ENOUGH

    def learn(self, family: str, size: Size, took_s: float) -> int:
        """A unit of this family and size took this long. Returns how many units it has learned from."""
        self.count = learned = self.count + 1
        seen = self._means.get((family, size))
        if seen is None:
            if len(self._means) < MOST_SIZES:
                self._means[family, size] = [1, took_s]
            return learned
        count, mean_s = seen
        count += 1
        seen[0] = count
        seen[1] = mean_s + (took_s - mean_s) * (SMOOTHING if count > FEW else 1.0 / count)
        return learned

    def table(self) -> LengthTable:
        """The expected durations now."""
        families: dict[str, dict[Size, float]] = {}
        ended, total_s, chars, tokens = 0.0, 0.0, 0.0, 0.0
        for (family, size), (count, mean_s) in self._means.items():
            families.setdefault(family, {})[size] = mean_s
            ended += count
            total_s += count * mean_s
            chars += count * size[0]
            tokens += count * size[1]
        if not ended:
            return NOTHING_KNOWN
        return LengthTable(families, total_s / ended, (chars / ended, tokens / ended))


def _ratio(size: Size, other: tuple[float, float]) -> float:
    """The expected duration of a unit of this size, relative to the other size."""
    return float(2.0 ** (INPUT_POWER * (size[0] - other[0]) + OUTPUT_POWER * (size[1] - other[1])))


def _rounded(expected_s: float) -> float:
    return float(2.0 ** (round(STEPS * log2(expected_s)) / STEPS)) if expected_s > 0.0 else 0.0
