"""A file that is too long for one request → parts, between which no line is lost or doubled.

Possible breaks have ranks: before a definition of the file is best, then before a definition inside of a class, then after a blank
line, and in the end before any line. A part takes as many lines as fit; then the best break of the lines since its first quarter ends it.
A break before a definition is taken even earlier, if what follows it fits into a part of its own and would otherwise be torn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final

from headway.reviews.files.definitions import definition_starts
from headway.reviews.records import SourcePart

#: Ranks of breaks. Definitions have 0 (of the file) and 1 (of a class); these are the others.
_BLANK_OUTER, _BLANK, _ANY = 2, 3, 4
#: A part is not ended before this share of it, only to end it at a good place.
_LEAST: Final = 0.25
#: If the rest is shorter than this many parts, it is shared about evenly: the first takes at most this share.
_LAST_TWO: Final = 1.5
_EVEN: Final = 0.6
#: The head of a file: as much of it as shows its imports, in lines.
_MOST_HEAD: Final = 60


def parts_of(path: str, lines: Sequence[str], most_chars: int) -> tuple[SourcePart, ...]:
    """The parts of a file with at most so many characters each; 0: one part. A longer line is a part by itself."""
    if most_chars <= 0 or sum(map(len, lines)) + len(lines) <= most_chars:
        return (SourcePart(0, 1, len(lines)),)
    sizes = [len(line) + 1 for line in lines]
    starts = _Breaks(sizes, _ranked(path, lines), most_chars).starts()
    return tuple(
        SourcePart(number, first, after - 1)
        for number, (first, after) in enumerate(pairwise((*starts, len(lines) + 1)))
    )


def part_lines(lines: Sequence[str], part: SourcePart) -> Sequence[str]:
    """The lines of one part."""
    return lines[part.first_line - 1 : part.last_line]


def head_of(path: str, lines: Sequence[str], most_chars: int) -> tuple[str, ...]:
    """The lines before the first definition, which every further part is shown as well: imports, constants."""
    starts = [line for line, rank in definition_starts(path, lines).items() if rank == 0]
    last = min([_MOST_HEAD, len(lines), *(line - 1 for line in starts)])
    head: list[str] = []
    for line in lines[:last]:
        most_chars -= len(line) + 1
        if most_chars < 0:
            break
        head.append(line)
    while head and not head[-1].strip():
        head.pop()
    return tuple(head)


def _ranked(path: str, lines: Sequence[str]) -> Mapping[int, int]:
    """The rank of each line before which the file may be broken well; lines are counted from 1."""
    ranks: dict[int, int] = {}
    for number, (before, line) in enumerate(pairwise(lines), 2):
        if line.strip() and not before.strip():
            ranks[number] = _BLANK if line[0].isspace() else _BLANK_OUTER
    return ranks | definition_starts(path, lines)


class _Breaks:
    """Chooses where the parts of one file begin."""

    def __init__(self, sizes: Sequence[int], ranks: Mapping[int, int], most_chars: int) -> None:
        #: Characters before each line; index 0 is line 1.
        self._before = [0, *accumulate(sizes)]
        self._most = most_chars
        self._lines = len(sizes)
        self._by_rank: list[list[int]] = [[] for _ in range(_ANY)]
        for line, rank in sorted(ranks.items()):
            self._by_rank[rank].append(line)

    def starts(self) -> list[int]:
        starts = [1]
        while (following := self._next(starts[-1])) <= self._lines:
            starts.append(following)
        return starts

    def _next(self, first: int) -> int:
        """The first line of the part that follows."""
        if self._past(first, self._most) > self._lines:
            return self._lines + 1
        fits = self._past(first, self._aim(first))
        outer = self._latest(0, first + 1, fits)
        if outer and self._fits_whole(outer):
            return outer
        least = max(first + 1, self._past(first, int(self._aim(first) * _LEAST)))
        for rank in range(_ANY):
            if line := self._latest(rank, least, fits):
                return line
        return fits

    def _aim(self, first: int) -> int:
        """The characters that a part may have: fewer if the last part would be left with a few lines."""
        rest = self._before[-1] - self._before[first - 1]
        return self._most if rest > _LAST_TWO * self._most else int(_EVEN * rest)

    def _past(self, first: int, chars: int) -> int:
        """The first line that no longer fits after `first` into so many characters. At least one line does."""
        return max(first + 1, bisect_right(self._before, self._before[first - 1] + chars))

    def _latest(self, rank: int, first: int, last: int) -> int:
        """The last break of a rank between two lines, both included; 0 if there is none."""
        breaks = self._by_rank[rank]
        at = bisect_right(breaks, last) - 1
        return breaks[at] if at >= 0 and breaks[at] >= first else 0

    def _fits_whole(self, line: int) -> bool:
        """Whether the definition at a line fits into one part."""
        breaks = self._by_rank[0]
        at = bisect_right(breaks, line)
        after = breaks[at] if at < len(breaks) else self._lines + 1
        return self._before[after - 1] - self._before[line - 1] <= self._most
