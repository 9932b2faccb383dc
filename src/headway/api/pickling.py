"""Pickles what goes to a worker process, and explains what cannot be pickled.

A worker imports what it calls. A function or class that is defined where no other process can import it (`python -c`, standard
input, a notebook, inside a function) may pickle here, by its name, and fail there. That is reported here, before a worker
starts.
"""

from __future__ import annotations

import io
import pickle
import sys
from types import FunctionType
from typing import Any, Final

from headway.api.progress_bar import in_a_notebook
from headway.errors import UsageError
from headway.executors.entry_point import main_script
from headway.providers.error_messages import describe_exception

#: Hints: for a definition in the wrong place, and for an object that cannot be pickled (a lock, an open file).
MOVE: Final = 'define it at the top level of a module and import it from there, or use isolation="thread"'
LEAVE: Final = 'create it inside the call, or use isolation="thread"'


class _NotImportable(Exception):
    """A function or class that a worker could not import."""


class _CheckingPickler(pickle.Pickler):
    """Checks that a worker can import every function and class that it pickles."""

    def __init__(self, into: io.BytesIO, *, no_main: bool) -> None:
        super().__init__(into, pickle.HIGHEST_PROTOCOL)
        self._no_main = no_main

    def reducer_override(self, thing: Any) -> Any:
        """Check, and pickle as usual."""
        if isinstance(thing, type | FunctionType):
            why = self._why(thing)
            if why:
                raise _NotImportable(why)
        return NotImplemented

    def _why(self, thing: Any) -> str:
        name = thing.__qualname__
        if name.rpartition(".")[2] == "<lambda>":
            return "a lambda has no name that a worker could import"
        if "<locals>" in name:
            outer, _, inner = name.rpartition(".<locals>.")
            return f"{inner} is defined inside {outer}, from where a worker cannot import it"
        if self._no_main and thing.__module__ == "__main__":
            return f"{name} is defined in {_main()}, from where a worker cannot import it"
        return ""


class Packer:
    """Pickles for the workers of one run."""

    def __init__(self) -> None:
        self._no_main = main_script() is None

    def pack(self, thing: Any, what: str = "item") -> bytes:
        """The pickled bytes. If the main script can be imported, a worker finds what is defined in it."""
        why, hint = "", MOVE
        try:
            packed = pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            why = self._unfound(thing)
            if not why:
                why, hint = describe_exception(error), LEAVE
        else:
            if self._no_main and b"__main__" in packed:
                why = self._unfound(thing)
        if why:
            raise UsageError(f"the {what} cannot be sent to a worker process: {why}", hint=hint)
        return packed

    def _unfound(self, thing: Any) -> str:
        try:
            _CheckingPickler(io.BytesIO(), no_main=self._no_main).dump(thing)
        except _NotImportable as error:
            return str(error)
        except Exception:
            return ""  # The fault is another one.
        return ""


def _main() -> str:
    """What kind of program has no script file."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if in_a_notebook():
        return "a notebook"
    if spec is not None and spec.name:
        return str(spec.name)
    if hasattr(sys, "ps1"):
        return "an interactive session"
    if getattr(main, "__file__", None):
        return "a script on standard input"
    return "'python -c'"
