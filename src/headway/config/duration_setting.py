"""Durations as people write them in a file or on a command line: `10m`, `250ms`, `1h30m`, `0.5s`, `90`.

Stricter than what providers write (`providers.durations`): a file is written once and can be put right, so that
whatever is not plainly a duration is refused. Units go from long to short and each comes once.
"""

from __future__ import annotations

import re
from typing import Final

from headway.core.model import DAY_S, MINUTE_S

HOUR_S: Final = 3600.0
#: Nothing that Headway waits for takes longer than a (leap) year.
LONGEST_S: Final = 366 * DAY_S
#: What an error calls a duration.
EXPECTED: Final = 'a duration such as "10m", "250ms" or "1h30m"'

_FIGURE: Final = r"\d{1,12}(?:\.\d{1,12})?"
_PARTS: Final = re.compile(
    rf"(?:({_FIGURE})d)?\s?(?:({_FIGURE})h)?\s?(?:({_FIGURE})m)?\s?(?:({_FIGURE})s)?\s?(?:({_FIGURE})ms)?",
    re.ASCII,
)
_PLAIN: Final = re.compile(_FIGURE, re.ASCII)
#: What a figure is multiplied by and divided by: 250 ms are 250 ÷ 1000 s, to the last bit.
_WORTH: Final = ((DAY_S, 1.0), (HOUR_S, 1.0), (MINUTE_S, 1.0), (1.0, 1.0), (1.0, 1000.0))


def parse_duration(value: str | float) -> float:
    """Seconds. A plain number is seconds already; a ValueError says what was expected."""
    if isinstance(value, bool):
        raise ValueError(f"expected {EXPECTED}")
    if isinstance(value, str):
        return _believed(_seconds(value.strip()))
    if not 0 <= value <= LONGEST_S:
        raise ValueError(f"expected {EXPECTED}, from 0 to {LONGEST_S / DAY_S:g} days")
    return float(value)


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


def _believed(seconds: float) -> float:
    if seconds > LONGEST_S:
        raise ValueError(f"expected {EXPECTED}, from 0 to {LONGEST_S / DAY_S:g} days")
    return seconds
