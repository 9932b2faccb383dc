"""The paths that a user names, by what they are: files, folders and patterns, all relative to the root of the tree."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from headway.errors import UsageError
from headway.reviews.files.path_patterns import PathPatterns
from headway.safe_text import one_line

_PATTERN_MARKS: Final = frozenset("*?[")


class NamedPaths(msgspec.Struct, frozen=True):
    """Files and folders without slashes at their ends. `all`: nothing is named, so the whole tree is meant."""

    all: bool
    files: frozenset[str]
    folders: frozenset[str]
    patterns: PathPatterns
    #: The folders above the named files and folders.
    above: frozenset[str]


def named_paths(root: str, paths: Iterable[str]) -> NamedPaths:
    """Find out what each path is. Raises if one does not exist, lies outside of the tree, or is no pattern."""
    files, folders, patterns = set(), set(), []
    for written in paths:
        path = _in_tree(root, written)
        place = os.path.join(root, path)
        if os.path.isdir(place) and (path == "" or not os.path.islink(place)):
            folders.add(path)
        elif os.path.lexists(place):
            files.add(path)
        elif _PATTERN_MARKS & set(written):
            patterns.append(path)
        else:
            raise UsageError(
                f"'{one_line(written)}': no such file", hint=f"name files, folders or patterns in {root}"
            )
    whole = "" in folders or not (files or folders or patterns)
    above = frozenset(folders_above((*files, *folders)))
    return NamedPaths(whole, frozenset(files), frozenset(folders), PathPatterns(patterns), above)


def folders_above(paths: Iterable[str]) -> Iterator[str]:
    """Every folder above each of the paths, without the root."""
    for path in paths:
        above = path.rpartition("/")[0]
        while above:
            yield above
            above = above.rpartition("/")[0]


def _in_tree(root: str, written: str) -> str:
    """A path relative to the root, with slashes; "" is the root."""
    parent, name = os.path.split(os.path.normpath(os.path.join(root, written)))
    place = os.path.join(os.path.realpath(parent), name)
    path = os.path.relpath(place, root)
    if path == ".":
        return ""
    if path == os.pardir or path.startswith(os.pardir + os.sep):
        raise UsageError(
            f"'{one_line(written)}' is outside of {root}", hint="a review has the files of one tree"
        )
    return path.replace(os.sep, "/")
