"""Values of labels: safe to show, short, and of a bounded number. Names of lanes and jobs contain text of input files."""

from __future__ import annotations

from typing import Final

from headway.safe_text import one_line

#: A longer name is cut. Models have names of up to 60 characters, and a file may contain any.
LONGEST: Final = 120
#: Each lane makes about 30 series. A file that names more models than this gets one lane more, `OTHER`, with their sums.
MOST_LANES: Final = 200
OTHER: Final = "(other lanes)"


class LabelValues:
    """Names → values of a label. A name keeps its value, so a counter never goes back; names beyond `most` share `other`."""

    __slots__ = ("_most", "_other", "_values")

    def __init__(self, most: int = MOST_LANES, other: str = OTHER) -> None:
        self._most, self._other = most, other
        self._values: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The value for a name."""
        value = self._values.get(name)
        if value is None:
            if len(self._values) >= self._most:
                return self._other  # Not kept: the number of names has no bound.
            value = self._values[name] = short(name)
        return value


def short(name: str) -> str:
    """A name on one line, without control characters, and not too long."""
    text = one_line(name)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
