"""The files of a tree that differ from a git revision, or that are staged, and their diffs.

One git command lists the files and their diffs together, so the two fit each other even if the tree changes meanwhile. Programs that a
repository names for diffs (`diff.external`, `textconv`) are not run. A revision is compared from where the branch left it: what others
committed there since is no change of ours.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, Literal

import msgspec

from headway.errors import UsageError
from headway.executors.worktrees.git_command import GitError, git
from headway.executors.worktrees.repository import Repository, commit_of, repository_of
from headway.lazy_pattern import lazy_pattern
from headway.reviews.files.source_bytes import SourceBytes, UnreadableSource, hashed
from headway.safe_text import one_line

ChangeKind = Literal["added", "changed", "renamed", "deleted"]
_KINDS: Final[dict[str, ChangeKind]] = {"A": "added", "C": "added", "D": "deleted", "R": "renamed"}
_SUBMODULE: Final = "160000"
_OPTIONS: Final = (
    *(
        "--raw",
        "--patch",
        "-z",
        "--find-renames",
        "--relative",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
    ),
    *("--src-prefix=a/", "--dst-prefix=b/", "--unified=3", "--ignore-submodules=all", "--submodule=short"),
    *("--inter-hunk-context=0", "--abbrev=12", "-O/dev/null"),
)
_SECTION: Final = lazy_pattern(r"^diff --(?:git|cc|combined) ", re.MULTILINE)
_HUNK: Final = lazy_pattern(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


class UnmergedFiles(GitError):
    """A merge is open: git shows its files without their diffs."""


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that differs, and its diff as git writes it. `before`: its old path, if it was renamed. Added files have no diff."""

    path: str
    kind: ChangeKind
    before: str = ""
    diff: str = ""


class ChangedFiles(msgspec.Struct, frozen=True):
    """All differences, by path. `base` is the commit that the tree is compared with; "": there is none yet."""

    base: str
    files: dict[str, ChangedFile]

    @property
    def paths(self) -> frozenset[str]:
        """The files that can be reviewed: all but deleted ones."""
        return frozenset(path for path, file in self.files.items() if file.kind != "deleted")

    def diff_of(self, path: str, first_line: int, last_line: int, most_chars: int) -> str:
        """The hunks of a file that touch some of its lines; "" for an added file. What does not fit is counted at the end."""
        file = self.files.get(path)
        hunks = [] if file is None else list(_hunks(file.diff, first_line, last_line))
        shown: list[str] = []
        for hunk in hunks:
            most_chars -= len(hunk)
            if most_chars < 0:
                break
            shown.append(hunk)
        hidden = len(hunks) - len(shown)
        return "".join(shown) + (f"[{hidden} more hunks are not shown]\n" if hidden else "")

    def overview(self) -> list[str]:
        """A line for each file: how it changed, and how many lines were added and removed."""
        return [_overview(file) for _, file in sorted(self.files.items())]


def changed_files(root: str, base: str = "", *, staged: bool = False) -> ChangedFiles:
    """The differences of a tree from a revision (HEAD without one), untracked files included; or what is staged."""
    flag = "--staged" if staged else "--changed"
    try:
        repository = repository_of(root)
        if staged:
            commit = commit_of(repository, "HEAD")
            return ChangedFiles(commit, _differences(root, ("--cached",)))
        commit = _base(root, repository, base)
        files = _differences(root, (commit or _empty_tree(root),))
        return ChangedFiles(commit, {**files, **_untracked(root)})
    except UnmergedFiles as error:
        raise UsageError(f"{flag}: {error}", hint="end it first: 'git status' names what is open") from None
    except GitError as error:
        raise UsageError(f"{flag}: {one_line(str(error))}", hint="run it in a git repository") from None


def read_staged(root: str, path: str, most_bytes: int) -> SourceBytes:
    """The content of a file as it is staged. Raises `UnreadableSource`."""
    try:
        return hashed(git(("cat-file", "blob", f":./{path}"), directory=root), most_bytes)
    except GitError as error:
        raise UnreadableSource(f"cannot be read: {one_line(str(error))}") from None


def _base(root: str, repository: Repository, base: str) -> str:
    """The commit to compare with; "" if nothing is committed yet."""
    if base.startswith("-") or (base and not commit_of(repository, base)):
        raise UsageError(
            f"--changed: '{one_line(base)}' is no commit", hint="name a branch, a tag or a commit"
        )
    head = commit_of(repository, "HEAD")
    if not base or not head:
        return head if not base else commit_of(repository, base)
    try:
        return git(("merge-base", base, "HEAD"), directory=root).decode().strip()
    except GitError:  # Two histories without a common commit.
        return commit_of(repository, base)


def _empty_tree(root: str) -> str:
    return git(("hash-object", "-t", "tree", "--stdin"), directory=root).decode().strip()


def _differences(root: str, against: tuple[str, ...]) -> dict[str, ChangedFile]:
    output = git(("diff", *_OPTIONS, *against, "--"), directory=root)
    raw, _, patch = output.partition(b"\0\0")
    changes = list(_raw_changes(raw))
    text = patch.decode(errors="replace").lstrip("\0")
    at = [match.start() for match in _SECTION.finditer(text)]
    sections = [text[start:end] for start, end in pairwise((*at, len(text)))]
    if len(sections) != len(changes):
        raise UnmergedFiles("git diff: its list of files and its diffs differ; is a merge open?")
    return {
        change.path: change if change.kind == "added" else msgspec.structs.replace(change, diff=section)
        for (mode, change), section in zip(changes, sections, strict=True)
        if mode != _SUBMODULE
    }


def _raw_changes(raw: bytes) -> Iterator[tuple[str, ChangedFile]]:
    """The list of git, with the new mode of each file: `:MODE MODE HASH HASH LETTER`, a path, and for a rename a second one, all ended by zero bytes."""
    fields = iter(os.fsdecode(raw).split("\0"))
    for field in fields:
        if not field.startswith(":"):
            continue
        _, mode, _, _, letter = field.split(" ")
        path, before = next(fields), ""
        if letter[0] in "RC":
            path, before = next(fields), path
        kind = _KINDS.get(letter[0], "changed")
        yield mode, ChangedFile(path=path, kind=kind, before=before if kind == "renamed" else "")


def _untracked(root: str) -> dict[str, ChangedFile]:
    """Files that git does not know yet, and does not ignore."""
    listing = git(("ls-files", "-z", "--others", "--exclude-standard"), directory=root)
    paths = [path for path in os.fsdecode(listing).split("\0") if path and not path.endswith("/")]
    return {path: ChangedFile(path=path, kind="added") for path in paths}


def _hunks(diff: str, first_line: int, last_line: int) -> Iterator[str]:
    """The hunks of a diff whose lines in the new file are among these."""
    starts = list(_HUNK.finditer(diff))
    if not starts:
        return
    for match, following in zip(starts, [*starts[1:], None], strict=True):
        first = int(match[1])
        last = first + max(1, int(match[2] or 1)) - 1
        if first <= last_line and last >= first_line:
            hunk = diff[match.start() : following.start() if following else len(diff)]
            yield hunk if hunk.endswith("\n") else hunk + "\n"


def _overview(file: ChangedFile) -> str:
    name = f"{file.before} → {file.path}" if file.before else file.path
    body = file.diff[match.start() :] if (match := _HUNK.search(file.diff)) else ""
    lines = body.split("\n")
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    counts = f" (+{added} -{removed})" if added or removed else ""
    return f"{file.kind}: {one_line(name)}{counts}"
