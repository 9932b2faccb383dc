"""Patterns of paths, in the language of .gitignore: `*.py` anywhere, `src/*.py` in one folder, `tests/**` below a folder."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from headway.errors import UsageError
from headway.install_hint import install_command
from headway.safe_text import one_line

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


class PathPatterns:
    """Matches paths with slashes that are relative to the root of the tree. `!` before a pattern takes matches back."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(patterns)
        self._spec = compiled(self._patterns) if self._patterns else None

    def __bool__(self) -> bool:
        return self._spec is not None

    def matches(self, path: str) -> bool:
        """Whether a file is meant. Without patterns: no."""
        return self._spec is not None and self._spec.check_file(path).include is True


@cache
def compiled(patterns: tuple[str, ...]) -> GitIgnoreSpec:
    """The patterns, ready to match. A wrong one raises, and is named."""
    spec_class = _spec_class()
    for pattern in patterns:
        try:
            spec_class.from_lines((pattern,))
        except ValueError:
            raise UsageError(
                f"'{one_line(pattern)}' is not a pattern of paths",
                hint="write it as in .gitignore: '*.py', 'src/**', '!src/old.py'",
            ) from None
    return spec_class.from_lines(patterns)


def readable_lines(lines: Iterable[str]) -> GitIgnoreSpec:
    """The lines of a .gitignore file, without those that are no patterns: git passes over them too."""
    spec_class = _spec_class()
    lines = list(lines)
    try:
        return spec_class.from_lines(lines)
    except ValueError:
        return spec_class.from_lines([line for line in lines if _is_pattern(line)])


def _is_pattern(line: str) -> bool:
    try:
        _spec_class().from_lines((line,))
    except ValueError:
        return False
    return True


def _spec_class() -> type[GitIgnoreSpec]:
    try:
        from pathspec import GitIgnoreSpec
    except ImportError:
        raise UsageError("reviews need pathspec", hint=install_command("review")) from None
    return GitIgnoreSpec
