"""Bounds the work of one template, so that none hangs a run or fills the memory. PURE: work is counted, not timed."""

from __future__ import annotations

from typing import Any, Final

from headway.errors import ConfigError

#: Characters that a template may read and write, in all. Half a million steps cost the same.
MOST_WORK: Final = 20_000_000
#: What one step of the evaluation costs, in characters.
STEP: Final = 40
#: A value is measured to this depth.
_DEEPEST: Final = 100


class TemplateProblem(ConfigError):
    """A template that cannot be read or rendered."""


class WorkLimit:
    """The work that is left for one rendering."""

    __slots__ = ("_left",)

    def __init__(self, most: int = MOST_WORK) -> None:
        self._left = most

    def spend(self, amount: int) -> None:
        """Take work away. Raises TemplateProblem when none is left."""
        self._left -= amount
        if self._left < 0:
            raise TemplateProblem(
                "the template takes too long or prints too much", hint="shorten its loops or its values"
            )

    def spend_on(self, value: Any, depth: int = 0) -> None:
        """Take away what reading a value costs: its characters, and a step for each item."""
        self.spend(STEP)
        if isinstance(value, str):
            self.spend(len(value))
        elif depth > _DEEPEST:
            raise TemplateProblem(f"a value is nested more than {_DEEPEST} deep")
        elif isinstance(value, dict):
            for key, item in value.items():
                self.spend_on(key)
                self.spend_on(item, depth + 1)
        elif isinstance(value, list | tuple):
            for item in value:
                self.spend_on(item, depth + 1)
