"""Limits by the names of lanes, and warnings if names of lanes and limits do not match.

A lane without limits may be intended: it has 64 calls at once. Limits without a lane may be, too: a table for all accounts, of
which today's items use one. Both at once is most likely a typing error, and calls that nothing limits. That gets a warning: at
once if two names are alike, otherwise at the end.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from headway.config.call_settings import Limits

#: Two names this similar are one with a typing error: "opanai" and "openai" are, "gpt-4o-mini" and "gpt-4o" are not.
ALIKE: Final = 0.8


class LaneNames:
    """The limits of one run, and the lanes that it has used."""

    def __init__(self, limits: Mapping[str, Limits]) -> None:
        self._limits = limits
        self._met: set[str] = set()
        #: Lanes without limits, and names of limits that were suggested for one.
        self._bare: list[str] = []
        self._suggested: set[str] = set()
        self._where = caller()

    def met(self, lane: str) -> None:
        """A lane is used for the first time."""
        self._met.add(lane)
        if lane in self._limits:
            return
        self._bare.append(lane)
        meant = alike(lane, self._limits)
        if meant is not None and meant not in self._met:
            self._suggested.add(meant)
            self._warn(f"the lane {lane!r} has no limits; did you mean {meant!r}, which has?")

    def end(self) -> None:
        """Every item has been read: warn of limits without a lane."""
        unused = [name for name in self._limits if name not in self._met and name not in self._suggested]
        if unused and self._bare and len(self._suggested) < len(self._bare):
            self._warn(
                f"limits names {_listed(unused)}, but no item is in that lane; "
                f"{_listed(self._bare)} had no limits"
            )

    def _warn(self, text: str) -> None:
        warnings.warn_explicit(text, UserWarning, *self._where)


def alike(name: str, names: Mapping[str, object]) -> str | None:
    """The name that may have been meant, if any is similar."""
    folded = {each.casefold(): each for each in names}
    matches = get_close_matches(name.casefold(), folded, 1, ALIKE)
    return folded[matches[0]] if matches else None


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")


def caller() -> tuple[str, int]:
    """The line of the program that called Headway, for warnings that come later and from elsewhere."""
    frame = sys._getframe()
    while frame.f_globals.get("__name__", "").startswith("headway.") and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
