"""Arguments that stand for a set of files: a pattern (`docs/*.txt`, `docs/**/*.md`), a directory, several files.

`*` and `?` match within a name, `**` any number of folders. Names that begin with a dot are matched only by a pattern that begins with
one, as in a shell. A link to a folder is followed only if it stands before the first wildcard: it may lead anywhere, also back. A name that exists is taken literally, also with a `*` in it.

Files come in the order of their paths, folder by folder, each of them once. Only the names of the folders that are being read are in
memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from heapq import merge
from itertools import groupby
from pathlib import Path
from typing import Final

from headway.batch.file_types import ROWS, is_table
from headway.errors import UsageError

_WILD: Final = frozenset("*?[")
_ANY_FOLDERS: Final = "**"


def is_file_set(arguments: Sequence[str], prompt: str | None) -> bool:
    """Whether the arguments stand for files that are one text each. A single file does if there is a question about it."""
    if len(arguments) > 1:
        return True
    [path] = arguments
    if path == "-" or not path:
        return False
    if os.path.isdir(path):
        return True
    if os.path.lexists(path):
        return prompt is not None and not is_rows_or_table(path)
    return not _WILD.isdisjoint(path)


def is_rows_or_table(path: str) -> bool:
    """Whether Headway reads this file row by row."""
    return is_table(path) or path.removesuffix(".gz").endswith(ROWS)


def results_place(arguments: Sequence[str]) -> Path:
    """The path, without an end, of the default results: in the working directory, with the name of the folder of the files."""
    folders = {_folder(argument) for argument in arguments}
    [folder] = folders if len(folders) == 1 else [os.curdir]
    return Path(os.path.basename(os.path.abspath(folder)) or "files")


def _folder(argument: str) -> str:
    if os.path.isdir(argument):
        return os.path.abspath(argument)
    if os.path.lexists(argument):
        return os.path.abspath(os.path.dirname(argument) or os.curdir)
    return os.path.abspath(_split(argument)[0] or os.curdir)


def files_of(arguments: Sequence[str]) -> Iterator[str]:
    """The paths of all files, in order, relative to the working directory if they are below it."""
    named = [_shown(path) for path in arguments if os.path.lexists(path) and not os.path.isdir(path)]
    others = [path for path in arguments if not os.path.lexists(path) or os.path.isdir(path)]
    streams: list[Iterable[str]] = [sorted(named, key=_order), *(_matching(path) for path in others)]
    return (path for path, _ in groupby(merge(*streams, key=_order)))


def _order(path: str) -> list[str]:
    return path.split("/")


def _shown(path: str) -> str:
    """The shortest form of a path, which is also the id of the file."""
    here, full = os.getcwd(), os.path.abspath(path)
    return full[len(here) + 1 :] if full.startswith(f"{here}/") else os.path.normpath(path)


def _split(pattern: str) -> tuple[str, list[str]]:
    """The folder in front of the first part with a wildcard, and the parts from there on."""
    parts = os.path.expanduser(pattern).split("/")
    first = next((place for place, part in enumerate(parts) if not _WILD.isdisjoint(part)), len(parts))
    return "/".join(parts[:first]) or ("/" if parts[0] == "" and first else ""), parts[first:]


def _matching(argument: str) -> Iterator[str]:
    if os.path.isdir(argument):
        folder, parts = argument, [_ANY_FOLDERS, "*"]
    else:
        folder, parts = _split(argument)
        parts = [part for part in parts if part]
        if parts and parts[-1] == _ANY_FOLDERS:
            parts.append("*")
    if not parts:
        raise UsageError(f"{argument}: no such file", hint="check its name")
    base = _shown(folder) if folder else ""
    if folder and not os.path.isdir(folder):
        raise UsageError(f"{argument}: there is no directory {folder}", hint="check its name")
    yield from _walk("" if base == os.curdir else base, parts, _closure({0}, parts))


def _walk(folder: str, parts: Sequence[str], states: frozenset[int]) -> Iterator[str]:
    """The matching files below a folder. `states` are the parts of the pattern that the next name may match."""
    try:
        with os.scandir(folder or os.curdir) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"{folder}: cannot be read: {why}", hint="check its permissions") from None
    prefix = folder if not folder or folder.endswith("/") else f"{folder}/"
    for entry in entries:
        after = _after(entry, parts, states)
        if not after:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(prefix + entry.name, parts, after)
        elif len(parts) in after and not entry.is_dir():
            yield prefix + entry.name


def _after(entry: os.DirEntry[str], parts: Sequence[str], states: frozenset[int]) -> frozenset[int]:
    """The states after a name has been matched; none if it does not fit the pattern."""
    name = entry.name
    after = set()
    for state in states:
        if state == len(parts):
            continue
        if parts[state] != _ANY_FOLDERS:
            hidden = name.startswith(".") and not parts[state].startswith(".")
            if not hidden and fnmatchcase(name, parts[state]):
                after.add(state + 1)
        elif not name.startswith(".") and entry.is_dir(follow_symlinks=False):
            after.add(state)
    return _closure(after, parts)


def _closure(states: set[int], parts: Sequence[str]) -> frozenset[int]:
    """`**` also matches no folder at all."""
    reached = set(states)
    for state in range(len(parts)):
        if state in reached and parts[state] == _ANY_FOLDERS:
            reached.add(state + 1)
    return frozenset(reached)
