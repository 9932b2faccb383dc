"""The ids of a review's units, and their places in the job.

| id | unit |
|---|---|
| `src/a.py:correctness` | one axis of a file |
| `src/a.py:correctness:2` | the same for the second part of a file that is split |
| `src/a.py:verify` | the question whether the findings of the file are right |

The units of a file are next to each other: all axes of its first part, then those of the second. Units that verify come after all others.
"""

from __future__ import annotations

from typing import Final

#: The axis of the units that verify, in ids and in the states of a file.
VERIFY: Final = "verify"


def axis_unit(path: str, axis: str, part: int) -> str:
    """`part` counts from 0."""
    return f"{path}:{axis}" + (f":{part + 1}" if part else "")


def verify_unit(path: str) -> str:
    return f"{path}:{VERIFY}"


def verified_path(unit: str) -> str | None:
    """The file that a unit verifies; None for another unit."""
    path, _, axis = unit.rpartition(":")
    return path if axis == VERIFY else None
