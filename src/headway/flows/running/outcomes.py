"""How steps and members of pipelines and loops end, and why something is skipped whose predecessors have ended. PURE.

Something is skipped if a step before it failed, or was skipped, and an edge leads here. It is also skipped if that step writes
a field that it reads. A writer that only a condition skipped does no harm as long as the field has a value without it. So a
skip cascades, with the reason of the step before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from headway.flows.expressions import parse_expression
from headway.flows.spec import Dependency

#: An outcome is one byte, so that a million of them are one array. 0: not over yet.
GOOD: Final = 1
FAILED: Final = 2
#: Skipped because something failed.
SKIPPED: Final = 3
#: Skipped because a condition was false, and nothing failed.
BY_CONDITION: Final = 4


def skip_reason(
    after: tuple[Dependency, ...],
    outcome_of: Callable[[str], int],
    state: Mapping[str, Any],
    when: str,
) -> tuple[int, str] | None:
    """SKIPPED or BY_CONDITION with the reason; None if it starts."""
    for one in after:
        before = outcome_of(one.id)
        if before == GOOD:
            continue
        if before == BY_CONDITION and not one.edge and all(name in state for name in one.fields):
            continue
        if before == FAILED:
            return SKIPPED, f"{one.id} failed"
        return before, f"{one.id} was skipped"
    for one in after:
        if one.when and not parse_expression(one.when).is_true(state):
            return BY_CONDITION, f"the condition of the edge from {one.id} is false: {one.when}"
    if when and not parse_expression(when).is_true(state):
        return BY_CONDITION, f"its condition is false: {when}"
    return None
