"""Files of a unit's directory that are kept with its result (`--collect 'out/**'`).

They are copied when the attempt ends, before the worktree may be removed, to a folder of Headway's. Links are not followed and
special files are left out. What is too much is left out and named in a remark.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from headway.stores.files import make_folder

#: For one unit.
MOST_FILES: Final = 1_000
MOST_BYTES: Final = 200 * 1024 * 1024
_ANY: Final = "**"


class Collected(NamedTuple):
    """The paths of the files that were kept, and remarks on those that were not."""

    files: list[str]
    remarks: list[str]


def collect_files(directory: str, patterns: Sequence[str], target: Path) -> Collected:
    """Copy the files that match to `target`, which has no other files afterwards."""
    shutil.rmtree(target, ignore_errors=True)
    files: list[str] = []
    remarks: list[str] = []
    size = 0
    for path in _matching(directory, patterns):
        if len(files) >= MOST_FILES:
            remarks.append(f"only the first {MOST_FILES:,} files were collected")
            break
        source = os.path.join(directory, path)
        length = os.lstat(source).st_size
        if size + length > MOST_BYTES:
            remarks.append(f"{path} was not collected: a unit keeps at most {MOST_BYTES:,} bytes of files")
            continue
        try:
            _copy(source, target / path)
        except OSError as error:
            remarks.append(f"{path} was not collected: {(error.strerror or str(error)).lower()}")
            continue
        size += length
        files.append(path)
    return Collected(files, remarks)


def _copy(source: str, target: Path) -> None:
    make_folder(target.parent)
    file = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(file, "rb") as reading, target.open("wb") as writing:
        shutil.copyfileobj(reading, writing)
        os.fchmod(writing.fileno(), stat.S_IMODE(os.fstat(reading.fileno()).st_mode) & 0o700 | 0o600)


def _matching(directory: str, patterns: Sequence[str]) -> Iterator[str]:
    """The regular files below a directory that match a pattern, by path. Folders that are links are not entered."""
    parted = [tuple(part for part in pattern.split("/") if part not in ("", ".")) for pattern in patterns]
    found = []
    for folder, names, files in os.walk(directory):
        names[:] = sorted(name for name in names if name != ".git")
        below = os.path.relpath(folder, directory)
        for name in files:
            if name == ".git":  # Of a worktree it is a file.
                continue
            path = name if below == "." else f"{below}/{name}"
            if any(_fits(path.split("/"), pattern) for pattern in parted) and stat.S_ISREG(
                os.lstat(os.path.join(folder, name)).st_mode
            ):
                found.append(path)
    return iter(sorted(found))


def _fits(path: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether the parts of a path match those of a pattern; `**` stands for any number of folders."""
    if not pattern:
        return not path
    if pattern[0] == _ANY:
        return (len(pattern) == 1 and bool(path)) or any(
            _fits(path[n:], pattern[1:]) for n in range(len(path) + 1)
        )
    return bool(path) and fnmatchcase(path[0], pattern[0]) and _fits(path[1:], pattern[1:])
