"""Durations in a file or on a command line: `10m`, `250ms`, `1h30m`, `0.5s`, `90`.

Stricter than the reader of providers' durations (`providers.limits.durations`): a user can correct a file, so whatever
is not clearly a duration is refused. Units go from long to short, each at most once.
"""

from __future__ import annotations

import re
from typing import Final

from headway.core.model import DAY_S, MINUTE_S
from headway.lazy_pattern import lazy_pattern

HOUR_S: Final = 3600.0
#: Headway waits for nothing longer than a (leap) year.
LONGEST_S: Final = 366 * DAY_S
#: A duration, in error messages.
EXPECTED: Final = 'a duration such as "10m", "250ms" or "1h30m"'

_FIGURE: Final = r"\d{1,12}(?:\.\d{1,12})?"
_PARTS: Final = lazy_pattern(
    rf"(?:({_FIGURE})d)?\s?(?:({_FIGURE})h)?\s?(?:({_FIGURE})m)?\s?(?:({_FIGURE})s)?\s?(?:({_FIGURE})ms)?",
    re.ASCII,
)
_PLAIN: Final = lazy_pattern(_FIGURE, re.ASCII)
#: Factor and divisor of each unit: 250 ms are 250 ÷ 1000 s, exact to the last bit.
_WORTH: Final = ((DAY_S, 1.0), (HOUR_S, 1.0), (MINUTE_S, 1.0), (1.0, 1.0), (1.0, 1000.0))


def parse_duration(value: str | float) -> float:
    """Seconds. A plain number is in seconds. A ValueError says what was expected."""
    if isinstance(value, bool):
        raise ValueError(f"expected {EXPECTED}")
    if isinstance(value, str):
        return _in_range(_seconds(value.strip()))
    return _in_range(float(value))


def _seconds(text: str) -> float:
    if _PLAIN.fullmatch(text):
        return float(text)
    parts = _PARTS.fullmatch(text)
    if not text or parts is None:
        raise ValueError(f"expected {EXPECTED} (units: d, h, m, s, ms, long to short)")
    return sum(
        float(figure) * times / over
        for figure, (times, over) in zip(parts.groups(), _WORTH, strict=True)
        if figure
    )


def _in_range(seconds: float) -> float:
    if not 0 <= seconds <= LONGEST_S:
        raise ValueError(f"expected {EXPECTED}, from 0 to {LONGEST_S / DAY_S:g} days")
    return seconds
