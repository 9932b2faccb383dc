"""Generates docs/reference/states.md from the table of a unit's states in headway.core.unit_states.

python tools/draw_states.py           writes the page
python tools/draw_states.py --check   exits 1 if the page differs from what it would write
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from pages import ROOT, write_or_check

from headway.core.unit_states import ENDED, GOOD, MOVES, Move, Status

PAGE = ROOT / "docs" / "reference" / "states.md"
COMMAND = "python tools/draw_states.py"

HEAD = f"""\
# The states of a unit

Generated from `MOVES` in `src/headway/core/unit_states.py` by `{COMMAND}`; a test fails when this page is stale.
A move that is not in this table is an error.
"""
ONE_RUN = """\
## In one run

A unit returns to `pending` on every retry, and when its lane or the run stops before the unit has ended.
"""
LATER_RUN = """\
## In a later run

Units that succeeded stay; all others can run again.
"""
ALL_MOVES = """\
## Every move

`·` marks an impossible move.
"""


def page() -> str:
    """The whole page."""
    resumed = {key: target for key, target in MOVES.items() if key[1] is Move.RESUME}
    in_one_run = {key: target for key, target in MOVES.items() if key not in resumed}
    parts = (
        HEAD,
        ONE_RUN,
        "\n".join(_diagram(in_one_run, ends=True)),
        "",
        LATER_RUN,
        "\n".join(_diagram(resumed, ends=False)),
        "",
        ALL_MOVES,
        "\n".join(_table()),
    )
    return "\n".join(parts) + "\n"


def _diagram(moves: dict[tuple[Status, Move], Status], *, ends: bool) -> Iterator[str]:
    yield "```mermaid"
    yield "stateDiagram-v2"
    if ends:
        yield f"    [*] --> {Status.PENDING}"
    for (origin, move), target in moves.items():
        yield f"    {origin} --> {target}: {move}"
    if ends:
        yield from (f"    {status} --> [*]" for status in Status if status in ENDED)
    yield "```"


def _table() -> Iterator[str]:
    """A row for each state, a column for each move."""
    yield f"| state | end | {' | '.join(f'`{move}`' for move in Move)} |"
    yield f"|---|---|{'---|' * len(Move)}"
    for status in Status:
        targets = (MOVES.get((status, move), "·") for move in Move)
        yield f"| `{status}` | {_end(status)} | {' | '.join(targets)} |"


def _end(status: Status) -> str:
    if status in GOOD:
        return "good"
    return "yes" if status in ENDED else ""


if __name__ == "__main__":
    sys.exit(write_or_check(sys.argv[1:], PAGE, page(), __doc__ or "", COMMAND))
