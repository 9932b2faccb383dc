"""The .gitignore files that apply to a folder, and what they say of its entries.

The rules of a deeper folder come first; a rule that begins with `!` takes a path back. Rules from outside of the tree count as
well, if the tree is a folder of a git repository, and so does the repository's own list, .git/info/exclude. Git's lists for a whole
account are not read: a review finds the same files on every machine.

pathspec makes the regular expressions. Its own verdict on a path counts folders above the path as well, and then reads `*`, `!*/`, `!*.py`
differently than git does. Here a folder that is ignored is not entered, so a rule has to match the path itself, and the last one wins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

from headway.reviews.files.path_patterns import readable_lines

FILE: Final = ".gitignore"
#: A longer file is not read: git's own limit is 100 MB, and a list of patterns has a few KB.
_MOST_BYTES: Final = 1_000_000
#: The group of pathspec's expressions that is the slash after the name of a folder.
_SLASH: Final = "ps_d"
#: pathspec lets `x/**` match x itself, and git does not; the same rule in other words.
_BELOW: Final = re.compile(r"(?<=[^/])/\*\*(/?)\s*$")

#: An expression, and whether it ignores what it matches.
Rule = tuple[re.Pattern[str], bool]


class IgnoreRules:
    """The rules of one folder. `above` has those of the folders above it, which count less.

    A rule sees paths from its own folder: `cut` characters of a path in the tree are removed, or `before` is put in front of it.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        name: str,
        *,
        cut: int = 0,
        before: str = "",
        above: IgnoreRules | None = None,
    ) -> None:
        self._latest_first = tuple(reversed(rules))
        self._any = _any_of([expression.pattern for expression, _ in rules])
        self._name, self._cut, self._before, self._above = name, cut, before, above

    def source(self, path: str, *, is_folder: bool) -> str:
        """The file that ignores a path of the tree; "" if none does."""
        rules: IgnoreRules | None = self
        while rules is not None:
            verdict = rules._verdict(path, is_folder)
            if verdict is not None:
                return rules._name if verdict else ""
            rules = rules._above
        return ""

    def _verdict(self, path: str, is_folder: bool) -> bool | None:
        """Whether the rules of this folder ignore a path; None if they do not mention it."""
        seen = self._before + path[self._cut :] + ("/" if is_folder and path else "")
        if self._any.match(seen) is None:
            return None
        for expression, ignores in self._latest_first:
            if _matches(expression, seen):
                return ignores
        return None


def _any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    """One expression that matches at the start of every text that one of these is found in: most paths are in no rule."""
    unnamed = (pattern.replace(f"(?P<{_SLASH}>", "(?:") for pattern in patterns)
    return re.compile("|".join(one if one.startswith("^") else f"[^\0]*?(?:{one})" for one in unnamed))


def _matches(expression: re.Pattern[str], seen: str) -> bool:
    """Whether a rule matches the path itself, not only a folder above it."""
    if _SLASH not in expression.groupindex:
        return expression.search(seen) is not None
    return any(match.start(_SLASH) in (-1, len(seen) - 1) for match in expression.finditer(seen))


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
    patterns = readable_lines(_BELOW.sub(r"/**/*\1", line) for line in lines).patterns
    rules = [
        (pattern.regex, pattern.include)
        for pattern in patterns
        if pattern.regex is not None and pattern.include is not None
    ]
    return IgnoreRules(rules, name, cut=cut, before=before, above=above)


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
