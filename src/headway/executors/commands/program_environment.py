"""The environment of programs, made once for many of them: copying and encoding it takes longer than starting a short program."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping

from headway.executors.process_tree import VARIABLE, limited_environment


class ProgramEnvironment:
    """The named variables (None: all but the withheld ones), and those that `more` adds to them. A change of this process's environment
    is noticed.
    """

    def __init__(
        self,
        names: Collection[str] | None,
        withheld: Collection[str],
        more: Callable[[Mapping[str, str]], Mapping[str, str]] | None = None,
    ) -> None:
        self._names, self._withheld, self._more = names, frozenset(withheld), more
        self._seen: dict[bytes, bytes] | None = None
        self._made: dict[bytes, bytes] = {}
        self._marks = b""

    def withhold(self, names: Collection[str]) -> None:
        """Programs do not get these variables, unless they are among the named ones."""
        self._withheld |= frozenset(names)
        self._seen = None

    def marked(self, mark: str) -> dict[bytes, bytes]:
        """With a mark, after those of this process."""
        # A dictionary of bytes behind os.environ in CPython. Where it is missing, the environment is made anew each time.
        present: dict[bytes, bytes] | None = getattr(os.environ, "_data", None)
        if present is None or present != self._seen:
            self._made = self._make()
            self._marks = os.fsencode(os.environ.get(VARIABLE, ""))
            self._seen = None if present is None else dict(present)
        return {**self._made, os.fsencode(VARIABLE): self._marks + f"{mark};".encode()}

    def plain(self) -> dict[str, str]:
        """Without a mark."""
        environ = limited_environment(self._names)
        if self._names is None:
            environ = {name: value for name, value in environ.items() if name not in self._withheld}
        return environ if self._more is None else {**environ, **self._more(environ)}

    def _make(self) -> dict[bytes, bytes]:
        return {os.fsencode(name): os.fsencode(value) for name, value in self.plain().items()}
