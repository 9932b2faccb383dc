"""What the workers of a pool run: a function by its import name, its arguments, and the caller's script where that is needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Final

import msgspec

from headway.executors.worker_protocol import WorkerSetup, encode_setup

#: What to do about a script that starts workers when a worker imports it.
GUARD: Final = 'put what starts work below: if __name__ == "__main__"'


class EntryPoint(msgspec.Struct, frozen=True):
    """A function that makes the function which serves units, and its pickled arguments.

    `name` is "package.module:name". `main`: what is pickled may be defined in the script that runs.
    """

    name: str
    arguments: bytes
    main: bool = False

    def encoded_setup(self) -> bytes:
        """The first message to every worker."""
        script = main_script() if self.main else None
        return encode_setup(WorkerSetup(self.name, self.arguments, list(sys.path), list(sys.argv), script))


def entry_name(function: Callable[..., Any]) -> str:
    """The name of a function that can be imported, for `EntryPoint`."""
    return f"{function.__module__}:{function.__qualname__}"


def main_script() -> tuple[str, str] | None:
    """How a worker can import the script that runs: by its module's name, or by its path. None: it cannot."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        # multiprocessing does not import the `__main__` of a package: it would run there as a program.
        return None if spec.name.rpartition(".")[2] == "__main__" else ("name", spec.name)
    path = getattr(main, "__file__", None)
    if path is None or not os.path.isfile(path):  # "<stdin>"
        return None
    return "path", os.path.abspath(path)
