"""How Headway makes files and folders: their modes, no symbolic links, and how a file is replaced.

A folder that Headway makes for itself is 0700, a file in it 0600. The folder of the database is the user's choice, and links
on the way to it are followed; below it the names are Headway's own (`levels` counts these), and a link there is an error.

A file is replaced by a temporary file in the same folder. The temporary file is made exclusively, has a random name, and is
locked while its process writes it. A process that is killed leaves its temporary file behind: the next replacement of the same
file removes the ones without a lock. The new file gets the mode of the old one. Other files are never touched.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
#: The usual mode of a new file, before the umask.
USUAL_MODE: Final = 0o666

#: The longest file name that file systems allow, in bytes.
_NAME_BYTES: Final = 255
_TEMPORARY: Final = "headway-tmp"
#: Enough to go through a folder; O_PATH (Linux) needs no permission to list it.
_FOLDER: Final = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_FILE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class ForeignFile(OSError):
    """Something else is in the place of a file or folder of Headway: `filename` says where, `strerror` what."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(errno.EINVAL, what, str(path))


_LINK: Final = "is a symbolic link, which Headway does not follow"


# -- folders -----------------------------------------------------------------------------------------------------


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents, readable by their owner only, and sync them to disk."""
    missing = [place for place in (path, *path.parents) if not place.exists()]
    for place in reversed(missing):
        try:
            place.mkdir(FOLDER_MODE)
        except FileExistsError:
            continue  # Another process has made it.
        sync_folder(place.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable, if its file system supports that."""
    with suppress(OSError):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def open_folder(path: Path, levels: int, *, make: bool = False) -> int:
    """Open a folder to reach files in it. The last `levels` names of its path are Headway's own: they may not be links, and
    `make` creates them.
    """
    parts = path.absolute().parts
    split = len(parts) - levels
    folder = os.open(Path(*parts[:split]), _FOLDER)
    for depth in range(split, len(parts)):
        try:
            inner = _open_level(folder, parts[depth], make=make)
        except OSError as error:
            raise _explained(error, folder, parts, depth) from None
        finally:
            os.close(folder)
        folder = inner
    return folder


def _open_level(folder: int, name: str, *, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, FOLDER_MODE, dir_fd=folder)
    return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)


def _explained(error: OSError, folder: int, parts: tuple[str, ...], depth: int) -> OSError:
    """If a link is the cause, an error that names it. The system only says "not a directory"."""
    with suppress(OSError):
        if stat.S_ISLNK(os.stat(parts[depth], dir_fd=folder, follow_symlinks=False).st_mode):
            return ForeignFile(Path(*parts[: depth + 1]), _LINK)
    return error


# -- files -------------------------------------------------------------------------------------------------------


def open_own(path: Path, levels: int, flags: int, *, make: bool = False) -> int:
    """Open a file of Headway (0600 if it is new). Neither the file nor the last `levels` folders above it may be links, and
    the file may have no second name.
    """
    folder = open_folder(path.parent, levels, make=make)
    try:
        file = os.open(path.name, flags | _FILE, FILE_MODE, dir_fd=folder)
    except OSError as error:
        raise ForeignFile(path, _LINK) if error.errno == errno.ELOOP else error from None
    finally:
        os.close(folder)
    try:
        must_be_plain(file, path)
    except BaseException:
        os.close(file)
        raise
    return file


def must_be_no_link(path: Path, levels: int) -> None:
    """Raise if something else than a regular file is in the place of a file of Headway, or a link above it. For files of SQLite: nothing
    is opened, because closing a file would drop the locks that SQLite has on it.
    """
    folder = open_folder(path.parent, levels, make=True)
    try:
        mode = os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    finally:
        os.close(folder)
    if stat.S_ISLNK(mode):
        raise ForeignFile(path, _LINK)
    if not stat.S_ISREG(mode):
        raise ForeignFile(path, "is not a regular file")


def must_be_plain(file: int, path: Path) -> None:
    """Raise unless an open file is a regular file with a single name: writing to it must not change another file."""
    info = os.fstat(file)
    if not stat.S_ISREG(info.st_mode):
        raise ForeignFile(path, "is not a regular file")
    if info.st_nlink > 1:
        raise ForeignFile(path, "is a hard link to another file")


def read_own(path: Path, levels: int) -> bytes:
    """The content of a file of Headway."""
    with open(open_own(path, levels, os.O_RDONLY), "rb") as file:
        return file.read()


def write_own(path: Path, levels: int, data: bytes, *, make: bool = False) -> None:
    """Replace a file of Headway without a sync: for content that can be made again."""
    with Replacement(path, FILE_MODE, levels=levels, make=make) as fresh:
        fresh.file.write(data)
        fresh.commit(durable=False)


def beside(name: str, end: str) -> str:
    """The name of a hidden file that belongs to the file `name`."""
    hidden = f".{name}.{end}"
    if len(os.fsencode(hidden)) > _NAME_BYTES:
        hidden = f".{hashlib.sha256(os.fsencode(name)).hexdigest()}.{end}"
    return hidden


def readable_by_others(path: Path) -> bool:
    """Whether users other than the owner can read a file, by its mode and the modes of the folders above it."""
    real = Path(os.path.realpath(path))
    mode = real.stat().st_mode
    above = [folder.stat().st_mode for folder in real.parents]
    if mode & stat.S_IROTH and all(each & stat.S_IXOTH for each in above):
        return True
    return bool(mode & stat.S_IRGRP) and all(each & (stat.S_IXGRP | stat.S_IXOTH) for each in above)


# -- replacing ---------------------------------------------------------------------------------------------------


class Replacement:
    """A file that is written beside `path`. `commit` puts it in the place of `path`; without a commit it is removed.

    `mode` is the mode of a new file, before the umask. `levels` and `make` are as in `open_folder`.
    """

    file: BinaryIO

    def __init__(self, path: Path, mode: int = USUAL_MODE, *, levels: int = 0, make: bool = False) -> None:
        self._target, self._mode, self._levels, self._make = path, mode, levels, make
        #: Its path until the commit.
        self.path = path.with_name(_temporary(path.name, os.urandom(8).hex()))
        self._committed = False

    def __enter__(self) -> Self:
        self._folder = open_folder(self._target.parent, self._levels, make=self._make)
        try:
            self._before = self._replaced()
            _sweep(self._target, self._folder)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE
            mode = self._mode if self._before is None else FILE_MODE
            file = os.open(self.path.name, flags, mode, dir_fd=self._folder)
        except BaseException:
            os.close(self._folder)
            raise
        with suppress(OSError):  # Not every file system has locks.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.file = open(file, "wb")
        return self

    def _replaced(self) -> os.stat_result | None:
        """The regular file that will be replaced, if there is one. A device or a pipe is never replaced."""
        try:
            info = os.stat(self._target.name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not (stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)):
            raise ForeignFile(self._target, "is not a regular file")
        return info if stat.S_ISREG(info.st_mode) else None

    def commit(self, *, durable: bool = True) -> None:
        """Replace the target. `durable`: sync the content to disk first."""
        self.file.flush()
        if self._before is not None:
            _keep_mode(self.file.fileno(), self._before)
        if durable:
            os.fsync(self.file.fileno())
        os.replace(self.path.name, self._target.name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._committed = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._committed:
                with suppress(FileNotFoundError):
                    os.unlink(self.path.name, dir_fd=self._folder)
            self.file.close()
        finally:
            os.close(self._folder)


def _keep_mode(file: int, before: os.stat_result) -> None:
    """Give a file the mode of the file that it replaces, and its owner and group if that is allowed."""
    mode = stat.S_IMODE(before.st_mode) & 0o777
    now = os.fstat(file)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(file, before.st_uid, before.st_gid)
        except OSError:
            if now.st_gid != before.st_gid:
                mode &= ~0o070  # These were rights of another group.
    os.fchmod(file, mode)


def _temporary(name: str, token: str) -> str:
    return beside(name, f"{token}.{_TEMPORARY}")


def _sweep(target: Path, folder: int) -> None:
    """Remove the temporary files of `target` whose process is gone."""
    token = "0" * 16
    start, end = _temporary(target.name, token).rsplit(token, 1)
    pattern = re.compile(re.escape(start) + "[0-9a-f]{16}" + re.escape(end))
    with suppress(OSError):
        for name in filter(pattern.fullmatch, os.listdir(target.parent)):
            with suppress(OSError):
                _remove_if_abandoned(name, folder)


def _remove_if_abandoned(name: str, folder: int) -> None:
    file = os.open(name, os.O_RDWR | _FILE, dir_fd=folder)
    try:
        info = os.fstat(file)
        if stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid():
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(file)
