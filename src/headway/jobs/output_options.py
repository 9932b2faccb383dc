"""Where the results of a job go, and in which form: a file, a folder with a file for each answer, or a stream.

A job records its output as text, so that `resume` finds it: a folder ends with "/", and standard output is "-".
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, Self, cast

import msgspec

from headway.errors import UsageError
from headway.stores.output_lock import real_path

#: The order of rows in an output file.
Order = Literal["input", "completion"]
#: A stream is standard output, a device or a pipe: it is written once, and never read, locked or replaced. "none": results stay in the database.
OutputForm = Literal["file", "folder", "stream", "none"]

STDOUT: Final = "-"
#: Other names of standard output.
_STDOUT_NAMES: Final = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


class OutputOptions(msgspec.Struct, frozen=True):
    """Where results go, and how. `force` replaces a file of another job."""

    path: Path
    order: Order = "input"
    force: bool = False
    #: Whether cells are escaped so that a spreadsheet treats none of them as a formula.
    safe_cells: bool = False
    #: Whether rows have only the id and the text of the answer.
    text_only: bool = False
    form: OutputForm = "file"
    #: Whether the user has named no output. A job that exists keeps its own.
    is_default: bool = False
    #: The folder of files that `--collect` has kept, with a folder for each unit.
    collected: Path | None = None
    #: Further files with the same results, where a kind of job has several formats.
    more: tuple[Path, ...] = ()
    #: The report or job whose findings are left out of the results of a review; "": none. None: as in the last run of the job.
    baseline: str | None = None

    @property
    def recorded(self) -> str:
        """The output in the job's record; "": there is none."""
        if self.form == "none":
            return ""
        return f"{self.path}/" if self.form == "folder" else str(self.path)

    @property
    def lock_path(self) -> Path:
        """The path that is locked while results are written. The lock of a folder is inside it."""
        return self.path / "answers" if self.form == "folder" else self.path

    @property
    def is_stdout(self) -> bool:
        """Whether rows go to standard output."""
        return self.form == "stream" and str(self.path) == STDOUT

    def to(self, recorded: str) -> Self:
        """The same options with another output, as a job records it."""
        if recorded.endswith("/"):
            return msgspec.structs.replace(self, path=Path(recorded).absolute(), form="folder")
        if recorded in _STDOUT_NAMES:
            return msgspec.structs.replace(self, path=Path(STDOUT), form="stream")
        path = Path(recorded)
        if _is_stream(path):
            return msgspec.structs.replace(self, path=path.absolute(), form="stream")
        return msgspec.structs.replace(self, path=real_path(path), form="file")


#: The results of a job that an engine runs: 'headway export' writes them, on any machine.
IN_DATABASE: Final = OutputOptions(Path(), form="none")


class _ReplacedStdout(io.RawIOBase):
    """Writes to `sys.stdout`, and leaves it open."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return len(data)


def opened_stream(path: Path) -> BinaryIO:
    """A stream to write to: standard output (which stays open), a device or a pipe. A pipe without a reader is an error: to open it would
    wait for one.
    """
    if str(path) == STDOUT:
        sys.stdout.flush()
        try:
            return os.fdopen(os.dup(sys.stdout.fileno()), "wb")
        except io.UnsupportedOperation:  # A program has put something else in the place of standard output.
            return cast(BinaryIO, _ReplacedStdout())
    try:
        file = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise UsageError(
                f"--out {path} is a pipe without a reader", hint="start its reader first"
            ) from None
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"--out {path} cannot be written: {why}", hint="name another file") from None
    os.set_blocking(file, True)
    return os.fdopen(file, "wb")


def _is_stream(path: Path) -> bool:
    """Whether there is a device or a pipe under this name."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
