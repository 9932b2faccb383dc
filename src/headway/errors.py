"""Every exception that Headway raises on purpose. Imports nothing of Headway.

    HeadwayError            1   something a user can act on went wrong
    ├── UsageError          2   the command or call asks for what cannot be done
    └── ConfigError         2   a file or an environment variable says what cannot be meant

The number is the exit code of a command that ends with it. A bug is none of these: it keeps its own
type and its traceback.
"""

from __future__ import annotations

from typing import ClassVar


class HeadwayError(Exception):
    """A failure with a message for the user and, where there is one, a hint at what to do about it."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} — {self.hint}" if self.hint else self.message


class UsageError(HeadwayError):
    """The command line, or a call, asks for something that cannot be done."""

    exit_code = 2


class ConfigError(HeadwayError):
    """A configuration file, an input file or an environment variable is wrong."""

    exit_code = 2
