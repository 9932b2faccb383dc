"""Names that are probably spelling mistakes of other names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

#: More edits than this make another word.
MOST_EDITS: Final = 2


def near_name(name: str, names: Iterable[str]) -> str | None:
    """The name that `name` is at most two edits away from, and shares a character with; None without one."""
    near = [(edits, one) for one in names if 0 < (edits := edits_between(name, one)) <= MOST_EDITS]
    near = [(edits, one) for edits, one in near if edits < min(len(name), len(one))]
    return min(near)[1] if near else None


def edits_between(one: str, other: str) -> int:
    """How many characters must be inserted, removed or replaced. Above `MOST_EDITS` if the lengths alone differ by more."""
    if abs(len(one) - len(other)) > MOST_EDITS:
        return MOST_EDITS + 1
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        left, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            left, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, left + (a != b))
    return row[-1]
