"""The ids of units: `fetch`, `review[3]`, `stage#7`, `stage#7[2]`, `sub[3]/fetch[0]`, `sub#1/x`.

A part is a node of the flow that it is in, the item or iteration of the node's pipeline or loop (`#7`), and the iteration of
its `for_each` (`[3]`). What follows a slash is in the flow that the node runs. Without numbers it is the path of the node:
`sub/fetch`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_NUMBERS: Final = re.compile(r"#\d+|\[\d+\]")


class UnitId(NamedTuple):
    """The first part of an id, and the rest. `turn` and `iteration` are -1 without a number."""

    node: str
    turn: int
    iteration: int
    rest: str


def node_path(unit: str) -> str:
    """The node of a unit."""
    return _NUMBERS.sub("", unit)


def parse_unit(unit: str) -> UnitId:
    """The parts of an id."""
    turn = iteration = -1
    node, _, rest = unit.partition("/")
    if node[-1] == "]":
        node, _, number = node[:-1].rpartition("[")
        iteration = int(number)
    if "#" in node:
        node, _, number = node.partition("#")
        turn = int(number)
    return UnitId(node, turn, iteration, rest)
