"""Walks a tree: the files to review in order of their paths, and every other file with the reason why it is left out.

One file is read at a time, and nothing of it is kept but its hash and its parts. Links are never followed, so a walk ends and stays
inside of the tree. A folder that is left out is named once, with a slash at its end, and not entered.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from headway.reviews.files import unsuitable
from headway.reviews.files.changes import read_staged
from headway.reviews.files.ignore_rules import IgnoreRules, rules_above, rules_in
from headway.reviews.files.named_paths import folders_above, named_paths
from headway.reviews.files.path_patterns import PathPatterns
from headway.reviews.files.source_bytes import SourceBytes, UnreadableSource, read_source, source_lines
from headway.reviews.files.splitting import parts_of
from headway.reviews.records import ReviewedFile
from headway.safe_text import escape_lone_surrogates, has_lone_surrogate

#: The largest file that is reviewed. Programs that people write are smaller; a larger file is data.
MOST_BYTES: Final = 1_000_000


class FileChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which files are meant. All paths are relative to the root of the tree, or absolute.

    `paths` are files, folders and patterns; none: the whole tree. A file that is named is reviewed even if it is ignored or generated.
    `among`: the only files that count, such as those that changed; None: all. `staged`: they are read as they are staged in git.
    `never`: folders with results of Headway.
    """

    paths: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    among: frozenset[str] | None = None
    staged: bool = False
    never: frozenset[str] = frozenset()
    most_bytes: int = MOST_BYTES
    #: The longest part of a file in characters; 0: files are not split.
    part_chars: int = 0


class TreeFiles:
    """The files of a tree. `files` is read once; after its end `left_out` has every file that is not reviewed."""

    def __init__(self, root: str, choice: FileChoice) -> None:
        self.root = root
        self.left_out: dict[str, str] = {}
        self._most_bytes = choice.most_bytes
        self._read = read_staged if choice.staged else read_source
        self.files: Iterator[ReviewedFile] = _Walk(self, choice, self._leave_out).files()

    def read(self, path: str) -> SourceBytes:
        """The content of a file as it is now. Raises `UnreadableSource`."""
        return self._read(self.root, path, self._most_bytes)

    def current_hash(self, path: str) -> str:
        """The hash that a file has now; "" if it cannot be read any more. It differs if the file changed while it was reviewed."""
        try:
            return self.read(path).hash
        except UnreadableSource:
            return ""

    def _leave_out(self, path: str, reason: str) -> None:
        self.left_out[escape_lone_surrogates(path)] = reason


def select(root: str | os.PathLike[str], choice: FileChoice) -> TreeFiles:
    """The files of a tree. Raises at once if a named path does not exist, lies outside of the tree, or is no pattern."""
    return TreeFiles(os.path.realpath(root), choice)


class _Folder(msgspec.Struct, frozen=True):
    """A folder to enter. `path` ends in a slash, except the root's. `inside`: all of it is meant, not only what is named."""

    path: str
    rules: IgnoreRules | None
    inside: bool
    #: It is ignored, and entered only because of a named path in it.
    ignored: bool = False


class _Walk:
    """One walk over a tree."""

    def __init__(self, tree: TreeFiles, choice: FileChoice, leave_out: Callable[[str, str], None]) -> None:
        self._tree, self._root, self._choice = tree, tree.root, choice
        self._leave_out = leave_out
        self._named = named_paths(tree.root, choice.paths)
        self._include, self._exclude = PathPatterns(choice.include), PathPatterns(choice.exclude)
        #: Files of `among` that the walk came to.
        self._met: set[str] = set()
        self._among_above = None if choice.among is None else frozenset(folders_above(choice.among))

    def files(self) -> Iterator[ReviewedFile]:
        root = _Folder("", rules_above(self._root), self._named.all)
        stack: list[tuple[_Folder, Iterator[os.DirEntry[str]]]] = []
        self._enter(root, stack)
        while stack:
            folder, entries = stack[-1]
            entry = next(entries, None)
            if entry is None:
                stack.pop()
            elif _is_folder(entry):
                if (below := self._below(folder, entry.name)) is not None:
                    self._enter(below, stack)
            elif (file := self._file(folder, entry)) is not None:
                yield file
        for path in sorted((self._choice.among or frozenset()) - self._met):
            self._miss(path)

    def _miss(self, path: str) -> None:
        """Name a file that counts but was not met: it is gone, or in a folder that is left out."""
        above = list(folders_above((path,)))
        if not self._is_meant(path, inside=self._named.all or not self._named.folders.isdisjoint(above)):
            return
        closed = [folder + "/" for folder in above if folder + "/" in self._tree.left_out]
        self._leave_out(path, f"in {closed[0]}, which is left out" if closed else "not in the tree")

    def _is_meant(self, path: str, *, inside: bool) -> bool:
        return inside or path in self._named.files or self._named.patterns.matches(path)

    def _enter(self, folder: _Folder, stack: list[tuple[_Folder, Iterator[os.DirEntry[str]]]]) -> None:
        """Read the names of a folder, in the order that the full paths have."""
        try:
            with os.scandir(os.path.join(self._root, folder.path)) as found:
                entries = sorted(found, key=lambda entry: entry.name + ("/" if _is_folder(entry) else ""))
        except OSError as error:
            self._leave_out(folder.path or "./", f"cannot be read: {(error.strerror or str(error)).lower()}")
            return
        rules = rules_in(self._root, folder.path, folder.rules)
        stack.append((msgspec.structs.replace(folder, rules=rules), iter(entries)))

    def _below(self, folder: _Folder, name: str) -> _Folder | None:
        """The folder of this name, if it is to be entered."""
        path = folder.path + name
        is_named = path in self._named.folders
        leads = is_named or path in self._named.above
        meant = folder.inside or bool(self._named.patterns)
        if name in unsuitable.OWN_FOLDERS or path in self._choice.never or not (meant or leads):
            return None
        if self._among_above is not None and path not in self._among_above:
            return None
        reason = unsuitable.folder_reason(name) or _ignored(folder.rules, path, is_folder=True)
        if reason and not leads:
            self._leave_out(path + "/", reason)
            return None
        ignored = folder.ignored or bool(reason)
        if is_named and ignored:
            return _Folder(path + "/", None, True)
        return _Folder(path + "/", folder.rules, (folder.inside and not reason) or is_named, ignored)

    def _file(self, folder: _Folder, entry: os.DirEntry[str]) -> ReviewedFile | None:
        path = folder.path + entry.name
        is_named = path in self._named.files
        if not self._is_meant(path, inside=folder.inside):
            return None
        if self._choice.among is not None:
            if path not in self._choice.among:
                return None
            self._met.add(path)
        reason = self._unwanted(folder, entry, path, is_named)
        if reason:
            self._leave_out(path, reason)
            return None
        try:
            return self._read(path, is_named)
        except UnreadableSource as error:
            self._leave_out(path, str(error))
            return None

    def _unwanted(self, folder: _Folder, entry: os.DirEntry[str], path: str, is_named: bool) -> str:
        """Why a file is left out before it is read; "" if it is not."""
        if has_lone_surrogate(path):
            return "its name is not UTF-8"
        if self._exclude.matches(path):
            return "excluded"
        if self._include and not self._include.matches(path):
            return "not included"
        if not is_named and (reason := _ignored(folder.rules, path, is_folder=False)):
            return reason
        if entry.is_symlink():
            return _link_reason(self._root, path)
        if not entry.is_file(follow_symlinks=False):
            return "not a regular file"
        return "" if is_named else unsuitable.name_reason(path)

    def _read(self, path: str, is_named: bool) -> ReviewedFile:
        source = self._tree.read(path)
        lines = source_lines(source.data)
        if not any(line.strip() for line in lines):
            raise UnreadableSource("empty")
        if not is_named and (reason := unsuitable.text_reason(path, lines)):
            raise UnreadableSource(reason)
        parts = parts_of(path, lines, self._choice.part_chars)
        return ReviewedFile(path=path, size=len(source.data), hash=source.hash, parts=parts)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _ignored(rules: IgnoreRules | None, path: str, *, is_folder: bool) -> str:
    source = rules.source(path, is_folder=is_folder) if rules is not None else ""
    return f"ignored by {source}" if source else ""


def _link_reason(root: str, path: str) -> str:
    """What a link points to. Its target is reviewed where it is, if it is in the tree."""
    try:
        target = os.path.realpath(os.path.join(root, path), strict=True)
    except OSError as error:
        return f"a symbolic link that leads nowhere: {(error.strerror or str(error)).lower()}"
    below = os.path.relpath(target, root)
    if below == os.pardir or below.startswith(os.pardir + os.sep):
        return "a symbolic link out of the tree"
    return f"a symbolic link to {escape_lone_surrogates(below)}"
