"""Every exception that Headway raises on purpose. Imports nothing of Headway.

    HeadwayError            1   something a user can act on went wrong
    ├── UsageError          2   the command or call asks for what cannot be done
    │   └── OutputBusy      2   another job writes to the output file
    ├── ConfigError         2   a file or an environment variable says what cannot be meant
    │   └── InputError      2   rows of a batch are wrong; every one is named
    ├── UnitError           1   a Python call could not finish, and raised nothing itself
    └── StoreError          1   the records cannot be read or written
        ├── NoRecords       2   there is nothing to look at yet
        ├── ForeignRecords  2   another user may have made the records
        ├── DuplicateId     2   two units of a job have the same id
        ├── JobBusy         2   somebody else is running the job
        └── JobTaken        1   another process has taken over the job while it ran here

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


class OutputBusy(UsageError):
    """Another process writes to the output file."""


class ConfigError(HeadwayError):
    """A configuration file, an input file or an environment variable is wrong."""

    exit_code = 2


class InputError(ConfigError):
    """Rows of an input file are wrong. `problems` are lines for people, one a row."""

    def __init__(self, message: str, problems: tuple[str, ...] = (), *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems


class StoreError(HeadwayError):
    """The store cannot be opened, read or written."""


class NoRecords(StoreError):
    """There is no store where one was to be looked at."""

    exit_code = 2


class ForeignRecords(StoreError):
    """The records that were found may be another user's."""

    exit_code = 2


class DuplicateId(StoreError):
    """Two units of one job have the same id."""

    exit_code = 2

    def __init__(self, custom_id: str) -> None:
        super().__init__(f"the id {custom_id!r} occurs twice")
        self.custom_id = custom_id


class JobBusy(StoreError):
    """Another process is running this job."""

    exit_code = 2


class JobTaken(StoreError):
    """Another process has begun to run this job: what is done here is recorded no more."""


class UnitError(HeadwayError):
    """A unit that could not finish and raised nothing itself: its lane stopped, a deadline, an interruption.

    `code` is one of the error kinds, or `interrupted`, `deadline`, `budget`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
