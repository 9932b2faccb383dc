"""Limits by the names of lanes, and what happens where a name in one place is not in the other.

A lane without limits may be meant: it has 64 calls at once. So may limits without a lane: a table for all accounts, of which
today's items need one. Both at once is most likely a name that was mistyped, and calls that nothing holds back: that is
told, at once where the names are alike, otherwise at the end.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from headway.config.call_settings import Limits

#: From here on two names are one that was mistyped: "opanai" for "openai" is, "gpt-4o-mini" for "gpt-4o" is not.
ALIKE: Final = 0.8


class LaneNames:
    """One run's limits, and the lanes that were met."""

    def __init__(self, limits: Mapping[str, Limits]) -> None:
        self._limits = limits
        self._met: set[str] = set()
        self._bare: list[str] = []
        self._told: set[str] = set()
        self._where = caller()

    def met(self, lane: str) -> None:
        """A lane is used for the first time."""
        self._met.add(lane)
        if lane in self._limits:
            return
        self._bare.append(lane)
        meant = alike(lane, self._limits)
        if meant is not None and meant not in self._met:
            self._told.add(meant)
            self._warn(f"the lane {lane!r} has no limits; did you mean {meant!r}, which has?")

    def end(self) -> None:
        """Every lane has been met."""
        unused = [name for name in self._limits if name not in self._met and name not in self._told]
        if unused and self._bare and len(self._told) < len(self._bare):
            self._warn(
                f"limits has {_listed(unused)}, and no item was in such a lane; "
                f"{_listed(self._bare)} had no limits"
            )

    def _warn(self, text: str) -> None:
        warnings.warn_explicit(text, UserWarning, *self._where)


def alike(name: str, names: Mapping[str, object]) -> str | None:
    """The one of the names that may have been meant."""
    folded = {each.casefold(): each for each in names}
    found = get_close_matches(name.casefold(), folded, 1, ALIKE)
    return folded[found[0]] if found else None


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")


def caller() -> tuple[str, int]:
    """The line of the program that called Headway: warnings come later, and from elsewhere."""
    frame = sys._getframe()
    while frame.f_globals.get("__name__", "").startswith("headway.") and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
