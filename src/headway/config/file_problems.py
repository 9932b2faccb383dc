"""What is wrong with a file that a user wrote: collected, so that all of it is reported at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from headway.config.near_names import near_name
from headway.errors import InputError
from headway.safe_text import one_line


class FileProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One problem. A warning does not stop a run. Line 0: no line is to blame."""

    line: int
    message: str
    hint: str = ""
    severity: Literal["error", "warning"] = "error"

    def text(self, file: str) -> str:
        """A line for the terminal: `flow.yaml:12: …`."""
        place = f"{file}:{self.line}" if self.line else file
        kind = "" if self.severity == "error" else "warning: "
        return one_line(f"{place}: {kind}{self.message}" + (f" — {self.hint}" if self.hint else ""))


class FileErrors(InputError):
    """Several errors of a file. Its text has them all, one a line, for a program that shows only the exception."""

    def __str__(self) -> str:
        return "\n  ".join((f"{self.message}:", *self.problems))


class ProblemList:
    """Collects problems in any order; `found` sorts them by line."""

    def __init__(self) -> None:
        self._problems: dict[FileProblem, None] = {}

    def error(self, line: int, message: str, hint: str = "") -> None:
        self._problems[FileProblem(line=line, message=message, hint=hint)] = None

    def warning(self, line: int, message: str, hint: str = "") -> None:
        self._problems[FileProblem(line=line, message=message, hint=hint, severity="warning")] = None

    def unknown(self, line: int, message: str, name: str, known: Iterable[str]) -> None:
        """An unknown word, with the nearest valid one or all of them."""
        names = list(known)
        near = near_name(name, names)
        listed = f"there are {', '.join(names[:20])}" if 0 < len(names) <= 20 else ""
        self.error(line, message, f"did you mean '{near}'?" if near else listed)

    def found(self) -> tuple[FileProblem, ...]:
        return tuple(sorted(self._problems, key=lambda problem: problem.line))

    @property
    def has_errors(self) -> bool:
        return any(problem.severity == "error" for problem in self._problems)
