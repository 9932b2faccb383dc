"""The .gitignore files that apply to a folder, and what they say of its entries.

The rules of a deeper folder come first; a rule that begins with `!` takes a path back. Rules from outside of the tree count as
well, if the tree is a folder of a git repository, and so does the repository's own list, .git/info/exclude. Git's lists for a whole
account are not read: a review finds the same files on every machine.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from headway.reviews.files.path_patterns import readable_lines

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

FILE: Final = ".gitignore"
#: A longer file is not read: git's own limit is 100 MB, and a list of patterns has a few KB.
_MOST_BYTES: Final = 1_000_000


class IgnoreRules:
    """The rules of one folder. `above` has those of the folders above it, which count less.

    A rule sees paths from its own folder: `cut` characters of a path in the tree are removed, or `before` is put in front of it.
    """

    def __init__(
        self,
        spec: GitIgnoreSpec,
        name: str,
        *,
        cut: int = 0,
        before: str = "",
        above: IgnoreRules | None = None,
    ) -> None:
        self._spec, self._name, self._cut, self._before, self._above = spec, name, cut, before, above

    def source(self, path: str, *, is_folder: bool) -> str:
        """The file that ignores a path of the tree; "" if none does."""
        rules: IgnoreRules | None = self
        while rules is not None:
            seen = rules._before + path[rules._cut :] + ("/" if is_folder and path else "")
            verdict = rules._spec.check_file(seen).include
            if verdict is not None:
                return rules._name if verdict else ""
            rules = rules._above
        return ""


def rules_above(root: str) -> IgnoreRules | None:
    """The rules of the repository that apply to all of a tree: those of the folders above it, and .git/info/exclude."""
    top = _repository_top(root)
    if top is None:
        return None
    below = os.path.relpath(root, top)
    folders = [] if below == "." else below.split(os.sep)
    rules = _rules(os.path.join(top, ".git", "info", "exclude"), before=_joined(folders), above=None)
    for depth in range(len(folders)):
        place = os.path.join(top, *folders[:depth], FILE)
        rules = _rules(place, before=_joined(folders[depth:]), above=rules)
    if rules is not None and folders and rules.source("", is_folder=True):
        return None  # The tree itself is ignored, and is reviewed because the user names it.
    return rules


def rules_in(root: str, folder: str, above: IgnoreRules | None) -> IgnoreRules | None:
    """The rules for a folder of the tree ("" or a path that ends in a slash)."""
    return _rules(os.path.join(root, folder, FILE), cut=len(folder), shown=folder + FILE, above=above)


def _rules(
    place: str, *, cut: int = 0, before: str = "", shown: str = "", above: IgnoreRules | None
) -> IgnoreRules | None:
    lines = _lines(place)
    if not lines:
        return above
    name = shown or os.path.basename(place)
    return IgnoreRules(readable_lines(lines), name, cut=cut, before=before, above=above)


def _lines(place: str) -> list[str]:
    """The lines of a regular file; none if it cannot be read. Git does not follow a link to a .gitignore either."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8-sig", errors="surrogateescape").splitlines()
    except OSError:
        return []


def _repository_top(root: str) -> str | None:
    """The folder with .git at or above the root; None if there is none."""
    place = os.path.realpath(root)
    while not os.path.lexists(os.path.join(place, ".git")):
        parent = os.path.dirname(place)
        if parent == place:
            return None
        place = parent
    return place


def _joined(folders: list[str]) -> str:
    return "".join(f"{folder}/" for folder in folders)
