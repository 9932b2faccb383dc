"""Which calls of an `AgentWorker` run one at a time: those whose agents may write to one directory, or to one inside of the other.

Items arrive one by one, so a group is given when its first directory is seen. The worker's own directory is the first one. A directory
above two groups joins the first of them, and so do later items below it; what was submitted before keeps its group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any


class DirectoryGroups:
    """The groups (`Unit.exclusive`) of one `map` or pool. `writes_to` returns the real path for a row; "" if its agent only reads."""

    def __init__(self, writes_to: Callable[[Mapping[str, Any]], str]) -> None:
        self._writes_to = writes_to
        self._groups: dict[str, int] = {}
        #: For each directory above one that has a group: that group.
        self._above: dict[str, int] = {}
        self.of({})

    def of(self, row: object) -> int:
        """The group of an item or of a unit's payload; 0 if it may run beside everything."""
        directory = self._writes_to(row if isinstance(row, Mapping) else {})
        if not directory:
            return 0
        parents = [str(each) for each in PurePath(directory).parents]
        outer = next((self._groups[each] for each in reversed(parents) if each in self._groups), 0)
        group = outer or self._groups.get(directory) or self._above.get(directory) or len(self._groups) + 1
        self._groups[directory] = group
        for each in parents:
            self._above.setdefault(each, group)
        return group


def groups_of(worker: object) -> DirectoryGroups | None:
    """The groups of an `AgentWorker`; None for any other worker or function."""
    make = None if isinstance(worker, type) else getattr(worker, "directory_groups", None)
    groups = make() if callable(make) else None
    return groups if isinstance(groups, DirectoryGroups) else None
