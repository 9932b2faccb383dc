"""Every exception that Headway raises on purpose. Imports no other module of Headway.

    HeadwayError            1   an error that the user can act on
    ├── UsageError          2   the command or call cannot be carried out
    │   ├── OutputBusy      2   another job is writing to the output file
    │   └── MissingModel    2   neither a row nor a setting names a model
    ├── OutputClosed        1   the reader of standard output has gone
    ├── ConfigError         2   a file or an environment variable is wrong
    │   └── InputError      2   rows of a batch are wrong; each one is named
    ├── UnitError           1   a Python call could not finish and raised nothing itself
    └── StoreError          1   the records cannot be read or written
        ├── StoreAway       1   the database server does not answer
        │   └── CommitUnknown 1  … and it is not known whether it has committed
        ├── NoRecords       2   there are no records yet
        ├── ForeignRecords  2   the records may belong to another user
        ├── NewerRecords    2   a newer version has written the records
        ├── DuplicateId     2   two units of a job have the same id
        ├── JobBusy         2   another process is running the job
        └── JobTaken        1   another process took over the job while it ran here

The number is the exit code of a command that ends with this error. A bug raises none of these: it keeps its own type
and traceback.
"""

from __future__ import annotations

from typing import ClassVar


class HeadwayError(Exception):
    """An error with a message for the user and, if possible, a hint at what to do."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        #: What the user can do next, as a line of its own: the command that resumes a job.
        self.next_step = ""

    def __str__(self) -> str:
        return f"{self.message} — {self.hint}" if self.hint else self.message


class UsageError(HeadwayError):
    """The command line or the call cannot be carried out."""

    exit_code = 2


class OutputBusy(UsageError):
    """Another process is writing to the output file."""


class OutputClosed(HeadwayError):
    """The reader of the results has gone: `headway run FILE --out - | head`."""


class MissingModel(UsageError):
    """Neither a row nor a setting names a model. `of_file` is the error if that is so for every row of a file."""

    def __init__(self, message: str, of_file: UsageError, *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.of_file = of_file


class ConfigError(HeadwayError):
    """A configuration file, an input file or an environment variable is wrong."""

    exit_code = 2


class InputError(ConfigError):
    """Rows of an input file are wrong. `problems` has a readable line for each."""

    def __init__(self, message: str, problems: tuple[str, ...] = (), *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems


class StoreError(HeadwayError):
    """The store cannot be opened, read or written."""


class StoreAway(StoreError):
    """The server of the database does not answer. It may come back."""


class CommitUnknown(StoreAway):
    """The connection was lost during a commit. `transaction` is its number, to ask for its outcome later."""

    def __init__(self, error: StoreAway, transaction: int) -> None:
        super().__init__(error.message, hint=error.hint)
        self.transaction = transaction


class NoRecords(StoreError):
    """There is no store to read."""

    exit_code = 2


class ForeignRecords(StoreError):
    """The store that was found may belong to another user."""

    exit_code = 2


class NewerRecords(StoreError):
    """A newer version of Headway has written the store."""

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
    """Another process took over this job: this one records no more results."""


class UnitError(HeadwayError):
    """A unit that could not finish and raised nothing itself: its lane stopped, a deadline, an interruption.

    `code` is one of the error kinds, or `interrupted`, `deadline`, `budget`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
