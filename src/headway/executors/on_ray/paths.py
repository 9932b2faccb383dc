"""Paths of the machine that runs Headway → paths on a node, for files that Ray has brought there."""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

import msgspec

from headway.executors.on_ray.messages import HostSetup, PoolSetup


class PathMap:
    """Below `root` everything is below `here`; other paths stay as they are."""

    def __init__(self, root: str, here: str) -> None:
        self._root, self._here = root.rstrip(os.sep), here

    def there(self, path: str) -> str:
        """The path on this node."""
        if path == self._root:
            return self._here
        if self._root and path.startswith(self._root + os.sep):
            return self._here + path[len(self._root) :]
        return path

    def found(self, path: str) -> str:
        """The path on this node, if it is there: a virtual environment in the folder does not travel."""
        there = self.there(path)
        return there if os.path.exists(there) else path

    def setup(self, setup: PoolSetup, host: HostSetup) -> PoolSetup:
        """The settings of a pool with paths of this node."""
        if host.prefix == sys.prefix:  # The same installation: its folders are the same, too.
            path = [self.found(one) for one in setup.path]
        else:
            own = [self.found(one) for one in setup.path if self.found(one) != one]
            path = [*(one for one in sys.path if one not in own), *own]
        main = setup.main
        if main is not None and main[0] == "path":
            main = ("path", self.there(main[1]))
        return msgspec.structs.replace(
            setup,
            path=path,
            main=main,
            logs_root=self.there(setup.logs_root),
            arguments=setup.arguments if setup.has_callable else self._arguments(setup.arguments),
        )

    def _arguments(self, packed: bytes) -> bytes:
        """The arguments of our own functions have paths. Those of a user's callable cannot be unpickled here."""
        try:
            arguments: Any = pickle.loads(packed)
        except Exception:
            return packed
        if not isinstance(arguments, tuple):
            return packed
        return pickle.dumps(tuple(self.there(one) if isinstance(one, str) else one for one in arguments))
