"""Statements that take several rows at once. Pure."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

#: `VALUES (…)` with numbered parameters: `?1` or `$1`.
_VALUES: Final = re.compile(r"(.*\bVALUES )(\([?$]1\b[^()]*\))(.*)", re.DOTALL)


@cache
def for_several(sql: str, n: int, mark: str = "?") -> str | None:
    """The statement with `n` rows of values instead of one; None if it has no numbered `VALUES (…)`. `mark` begins a parameter."""
    match = _VALUES.fullmatch(sql)
    if match is None:
        return None
    before, row, after = match.groups()
    parameter = re.compile(re.escape(mark) + r"(\d+)")
    width = len(set(parameter.findall(row)))
    if parameter.search(after):
        return None
    rows = (parameter.sub(lambda match, k=k: f"{mark}{int(match[1]) + k * width}", row) for k in range(n))
    return before + ", ".join(rows) + after
