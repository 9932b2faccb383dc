"""The text of a file by lines, and where a quote is in it.

A quote is compared without regard to white space: models change indentation, and a function that moves into a class is indented differently. So a quote is
looked for in the words of the file, joined by single blanks. A quote that is there stands for the whole lines that it touches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import Final

import msgspec

#: Longest quote that is widened to whole lines. Longer lines are rarely code that a person wrote.
MOST_WIDENED: Final = 2_000


class QuotePlace(msgspec.Struct, frozen=True):
    """The lines that a quote touches."""

    start_line: int
    end_line: int


def squeezed(text: str) -> str:
    """The words of a text, with single blanks between them."""
    return " ".join(text.split())


def lines_of(text: str) -> list[str]:
    """The lines of a text as git counts them: a line feed ends a line, with or without a carriage return before it."""
    lines = text.split("\n")
    if "\r" in text:
        lines = [line.removesuffix("\r") for line in lines]
    if lines[-1] == "":
        lines.pop()
    return lines


class _LineWords:
    """The words of each line that has any: the lines' numbers, and where they start in the joined text."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.starts: list[int] = []
        self.numbers: list[int] = []

    @cached_property
    def text(self) -> str:
        return " ".join(self.parts)


class SourceText:
    """A file, or a part of one: its path in reports, and its lines. Made once, asked for every finding."""

    def __init__(self, path: str, text: str, first_line: int = 1) -> None:
        self.path = path
        self.lines = lines_of(text)
        self.first_line = first_line
        self.last_line = first_line + len(self.lines) - 1

    @cached_property
    def _words(self) -> _LineWords:
        """Made for the first search: most files have no finding."""
        words = _LineWords()
        place = 0
        for number, line in enumerate(self.lines, self.first_line):
            own = squeezed(line)
            if own:
                words.starts.append(place)
                words.numbers.append(number)
                words.parts.append(own)
                place += len(own) + 1
        return words

    def has_lines(self, start_line: int, end_line: int) -> bool:
        """Whether both lines exist. An empty file has none."""
        return self.first_line <= start_line <= end_line <= self.last_line

    def excerpt(self, start_line: int, end_line: int) -> str:
        """Whole lines, as they are in the file."""
        return "\n".join(self.between(start_line, end_line))

    def between(self, start_line: int, end_line: int) -> list[str]:
        """The lines from `start_line` to `end_line`, as many of them as there are."""
        first = max(start_line, self.first_line)
        return self.lines[first - self.first_line : max(0, end_line - self.first_line + 1)]

    def find(self, quote: str, near: int) -> QuotePlace | None:
        """The place of a quote that is nearest to a line; None if the file does not have it."""
        wanted = squeezed(quote)
        if not wanted:
            return None
        words = self._words
        middle = (
            words.starts[min(bisect_left(words.numbers, near), len(words.starts) - 1)] if words.starts else 0
        )
        places = (
            words.text.rfind(wanted, 0, middle + len(wanted) - 1),
            words.text.find(wanted, middle),
        )
        found = [self._at(place, len(wanted)) for place in places if place >= 0]
        return min(found, key=lambda one: abs(one.start_line - near), default=None)

    def _at(self, place: int, length: int) -> QuotePlace:
        first = bisect_right(self._words.starts, place) - 1
        last = bisect_right(self._words.starts, place + length - 1) - 1
        return QuotePlace(self._words.numbers[first], self._words.numbers[last])

    def occurrence(self, place: QuotePlace) -> int:
        """1 if no earlier lines have the same words as these, 2 if one place has, and so on."""
        wanted = squeezed(self.excerpt(place.start_line, place.end_line))
        first = self._words.starts[bisect_left(self._words.numbers, place.start_line)]
        count, found = 1, self._words.text.find(wanted, 0, first + len(wanted) - 1)
        while found >= 0:
            count += self._has_line_at(found) and self._ends_line(found + len(wanted))
            found = self._words.text.find(wanted, found + 1, first + len(wanted) - 1)
        return count

    def _has_line_at(self, place: int) -> bool:
        number = bisect_left(self._words.starts, place)
        return number < len(self._words.starts) and self._words.starts[number] == place

    def _ends_line(self, end: int) -> bool:
        return end == len(self._words.text) or self._has_line_at(end + 1)

    def widened(self, quote: str, place: QuotePlace) -> str:
        """The whole lines of a quote, or the quote itself where these are very long."""
        lines = self.excerpt(place.start_line, place.end_line)
        return lines if len(lines) <= MOST_WIDENED else quote
