"""Which `headway.toml` is used, and whether another user may have made it or the database.

A config names addresses that get keys and programs that are run, so it is code. The search goes from the working
directory upwards and ends at the root of a repository or at the home directory. A config above that is an error, and is not
ignored: its store may have results that were paid for. A config of another user is refused; in a parent directory also
one that every user, or a group with other users, may write. The same holds for the `.env` beside it, which has keys and
addresses. `--config` accepts any file.

The database in `.headway` has a fixed place, too, and another user can create that folder first in a directory that
every user may write. It supplies results, prices and holds, and receives every prompt. `--db` accepts any database.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from headway.errors import ConfigError

FILE_NAME: Final = "headway.toml"
#: Entries that the root of a repository has.
_REPOSITORY: Final = (".git", ".hg", ".jj")


def nearest(start: Path) -> Path | None:
    """The config of a directory, or of the nearest parent that has one, trusted or not."""
    start = start.absolute()
    candidates = (directory / FILE_NAME for directory in (start, *start.parents))
    # os.path.isfile, because Path.is_file raises if a parent may not be read.
    return next((path for path in candidates if os.path.isfile(path)), None)


def find(start: Path) -> Path | None:
    """The config that a command in this directory uses; None if there is none."""
    start = start.absolute()
    path = nearest(start)
    if path is None:
        return None
    end = _end_of_search(start)
    if end is not None and path.parent in end[0].parents:
        raise ConfigError(
            f"{path}: it is above {end[0]}, {end[1]}, where the search for a {FILE_NAME} ends",
            hint=f"to use it: --config {path}; 'headway init' writes one for this directory",
        )
    if reason := _reason_to_refuse(path, start):
        raise ConfigError(
            f"{path}: {reason}, and a config can send your keys anywhere and run programs",
            hint=f"if you trust it: --config {path}",
        )
    return path


def check_env_file(path: Path, start: Path) -> None:
    """Raise ConfigError if another user may have written a `.env` that was found by itself. `start` is the working directory."""
    if not os.path.isfile(path) or not (reason := _reason_to_refuse(path, start)):
        return
    config = path.parent / FILE_NAME
    if os.path.isfile(config):
        hint = f"if you trust it, name the config beside it: --config {config}"
    else:
        hint = f"remove it or make it your own, or use a {FILE_NAME} elsewhere: --config FILE"
    raise ConfigError(f"{path}: {reason}, and it decides which key goes to which address", hint=hint)


def _reason_to_refuse(path: Path, start: Path) -> str:
    return _foreign_here(path) if path.parent == start.absolute() else _untrusted(path)


def _end_of_search(start: Path) -> tuple[Path, str] | None:
    """The directory where the search ends, and what it is; None if it goes up to the root."""
    home = os.path.realpath(os.path.expanduser("~"))
    for directory in (start, *start.parents):
        if any(os.path.lexists(directory / name) for name in _REPOSITORY):
            return directory, "the root of the repository"
        if os.path.realpath(directory) == home:
            return directory, "your home directory"
    return None


def _foreign_here(path: Path) -> str:
    """Why a file in the working directory is another user's. Its mode does not count: some file systems show every file as
    writable for all."""
    owner = _untrusted_owner(_statuses(path), path.parent)
    return "" if owner is None else f"it belongs to another user ({user_name(owner)})"


def _untrusted(path: Path) -> str:
    """Why another user may have written a file in a parent directory; "" if none can have."""
    try:
        statuses = [os.lstat(path), os.stat(path)]  # A link, and its target.
        folder = os.stat(path.parent)
    except OSError as error:
        return f"it cannot be checked ({(error.strerror or str(error)).lower()})"
    for status in statuses:
        if status.st_uid != os.geteuid():
            return f"it belongs to another user ({user_name(status.st_uid)})"
    if statuses[1].st_mode & stat.S_IWOTH:
        return "every user may write it"
    if _is_shared_by_group(statuses[1]):
        return f"its group ({_group_name(statuses[1].st_gid)}) may write it"
    if folder.st_mode & stat.S_ISVTX:
        return ""  # Only the owner of a file can replace it.
    if folder.st_mode & stat.S_IWOTH:
        return "every user may replace it"
    if _is_shared_by_group(folder):
        return f"its group ({_group_name(folder.st_gid)}) may replace it"
    return ""


def _is_shared_by_group(status: os.stat_result) -> bool:
    """Whether other users may write a file or folder because they are in its group."""
    return bool(status.st_mode & stat.S_IWGRP) and not _is_private_group(status.st_gid)


def _is_private_group(group: int) -> bool:
    """Whether it is our own primary group and, as far as the system knows, has no other user."""
    import grp
    import pwd

    try:
        me = pwd.getpwuid(os.geteuid())
        members = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        return False
    if me.pw_gid != group or not members <= {me.pw_name}:
        return False
    return not any(user.pw_gid == group and user.pw_uid != me.pw_uid for user in pwd.getpwall())


def _group_name(number: int) -> str:
    import grp

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return f"number {number}"


def foreign(path: Path, directory: Path) -> str:
    """Why a file or folder in a directory, or further below, is another user's; "" if it is not, or does not exist."""
    statuses = _statuses(path)
    owner = _untrusted_owner(statuses, directory)
    if owner is not None:
        return f"belongs to another user ({user_name(owner)})"
    # A link has no mode of its own. The mode of our own files is our choice, and root treats files of trusted users as its own.
    open_to_all = len(statuses) == 2 and statuses[1].st_mode & stat.S_IWOTH
    if open_to_all and os.geteuid() not in (0, statuses[1].st_uid):
        return f"belongs to {user_name(statuses[1].st_uid)}, and every user may write it"
    return ""


def _statuses(path: Path) -> list[os.stat_result]:
    """The status of a link and of its target (of a file twice), as far as they exist and can be read."""
    statuses: list[os.stat_result] = []
    with suppress(OSError):
        statuses.append(os.lstat(path))
        statuses.append(os.stat(path))
    return statuses


def _untrusted_owner(statuses: list[os.stat_result], directory: Path) -> int | None:
    """The owner of one of these files who is not trusted in this directory, if there is one."""
    users = _trusted_users(directory)
    return next((status.st_uid for status in statuses if status.st_uid not in users), None)


def _trusted_users(directory: Path) -> set[int]:
    """This user and root. For root also the user who called sudo, and the owner of the directory: a checkout mounted into a
    container belongs to a user of the host.
    """
    users = {os.geteuid(), 0}
    if os.geteuid() == 0:
        if (caller := os.environ.get("SUDO_UID", "")).isdecimal():
            users.add(int(caller))
        with suppress(OSError):
            users.add(os.stat(directory).st_uid)
    return users


def user_name(number: int) -> str:
    """The name of a user, for messages."""
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"number {number}"
