"""The files of an eval: where relative paths begin, how a file is read with its lines, and how its problems are reported.

A problem of a file that the configuration names is reported at the line that names it, with the place in that file in front of
the message. Paths are relative to the configuration; a file that is not there is also looked for beside the file that names it.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from headway.config.file_problems import ProblemList
from headway.config.yaml_file import LARGEST, Marked, YamlError, marked, parse_yaml, read_yaml
from headway.evals.config.env_templates import EnvTemplates

SCHEME: Final = "file://"
_WILD: Final = frozenset("*?[")
#: Files inside files.
DEEPEST: Final = 10


class Unsupported(NamedTuple):
    """Something in a configuration that Headway knows and does not do."""

    line: int
    key: str
    why: str
    instead: str


class EvalProblems(ProblemList):
    """The problems of an eval. What is known and not supported is also kept apart, for `--check`."""

    def __init__(self) -> None:
        super().__init__()
        self.unsupported: list[Unsupported] = []

    def refuse(self, line: int, key: str, why: str, instead: str) -> None:
        self.unsupported.append(Unsupported(line, key, why, instead))


class SourceFile:
    """A file that is being read."""

    def __init__(
        self, path: Path, problems: EvalProblems, outer: SourceFile | None = None, line: int = 0
    ) -> None:
        self.path, self.problems = path, problems
        self._outer, self._line = outer, line
        self.root: Path = path.parent if outer is None else outer.root
        self.env: EnvTemplates = EnvTemplates({}) if outer is None else outer.env
        self._depth: int = 0 if outer is None else outer._depth + 1

    def error(self, line: int, message: str, hint: str = "") -> None:
        place, text = self._at(line, message)
        self.problems.error(place, text, hint)

    def warning(self, line: int, message: str, hint: str = "") -> None:
        place, text = self._at(line, message)
        self.problems.warning(place, text, hint)

    def unknown(self, line: int, message: str, name: str, known: Iterable[str]) -> None:
        place, text = self._at(line, message)
        self.problems.unknown(place, text, name, known)

    def refuse(self, line: int, key: str, why: str, instead: str = "") -> None:
        """Report a key that is known and not supported."""
        place, text = self._at(line, f"{key}: not supported: {why}")
        self.problems.error(place, text, instead)
        self.problems.refuse(place, key, why, instead)

    def _at(self, line: int, message: str) -> tuple[int, str]:
        if self._outer is None:
            return line, message
        place = f"{self.shown(self.path)}:{line}" if line else self.shown(self.path)
        return self._outer._at(self._line, f"{place}: {message}")

    def shown(self, path: Path) -> str:
        """A path for messages: relative to the configuration, if it is below it."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def inner(self, path: Path, line: int) -> SourceFile | None:
        """A file that this one names in a line; None if files name each other."""
        if self._depth >= DEEPEST:
            self.error(line, f"'{self.shown(path)}': files name each other more than {DEEPEST} deep")
            return None
        return SourceFile(path, self.problems, self, line)

    def resolve(self, name: str) -> Path:
        """The absolute path of a name, with or without file://."""
        name = os.path.expanduser(name.removeprefix(SCHEME))
        path = Path(os.path.normpath(self.root / name))
        beside = Path(os.path.normpath(self.path.parent / name))
        return beside if not path.exists() and beside.exists() else path

    def find(self, name: str, line: int, place: str) -> Path | None:
        """The path of a file that must exist."""
        path = self.resolve(name)
        if path.is_file():
            return path
        siblings = sorted(one.name for one in _siblings(path))
        self.unknown(line, f"{place}: there is no file '{name.removeprefix(SCHEME)}'", path.name, siblings)
        return None

    def matching(self, name: str, line: int, place: str) -> list[Path]:
        """The files of a name or a pattern, in order; at least one, or an error is reported."""
        path = self.resolve(name)
        if path.is_dir():
            found = sorted(one for one in _siblings(path / "-") if not one.name.startswith("."))
        elif path.is_file() or _WILD.isdisjoint(name):
            one = self.find(name, line, place)
            return [] if one is None else [one]
        else:
            found = sorted(Path(one) for one in glob.glob(str(path), recursive=True) if os.path.isfile(one))
        if not found:
            self.error(line, f"{place}: no file matches '{name.removeprefix(SCHEME)}'")
        return found

    def read_text(self) -> str | None:
        """The text of this file; None after an error was reported."""
        try:
            if self.path.stat().st_size > LARGEST:
                self.error(0, f"larger than {LARGEST // 1_000_000} MB")
                return None
            return self.path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            self.error(0, "not a text file in UTF-8")
        except OSError as error:
            self.error(0, f"cannot be read: {(error.strerror or str(error)).lower()}")
        return None

    def read_tree(self) -> Marked | None:
        """The values of a YAML or JSON file with their lines; None after an error was reported."""
        text = self.read_text()
        if text is None:
            return None
        try:
            return parse_yaml(text)
        except YamlError as error:
            if self.path.suffix == ".json" and (tree := _json_tree(text)) is not None:
                return tree
            self.error(error.line, error.message, error.hint or "")
            return None

    def read_lines(self) -> Iterator[Marked]:
        """The values of a JSONL file, each with its line."""
        for number, line in enumerate((self.read_text() or "").splitlines(), 1):
            if line.strip():
                try:
                    yield marked(msgspec.json.decode(line), number)
                except msgspec.DecodeError as error:
                    self.error(number, f"not JSON: {error}")


def split_function(name: str) -> tuple[str, str]:
    """`file://grade.py:check` → `grade.py`, `check`."""
    path, colon, function = name.removeprefix(SCHEME).rpartition(":")
    return (path, function) if colon and "/" not in function and path else (name.removeprefix(SCHEME), "")


def read_config_tree(source: SourceFile) -> Marked | None:
    """The configuration itself."""
    try:
        return read_yaml(source.path)
    except YamlError as error:
        source.error(error.line, error.message, error.hint or "")
        return None


def _json_tree(text: str) -> Marked | None:
    """JSON that is not YAML (tabs, long keys), without lines."""
    try:
        return marked(msgspec.json.decode(text), 1)
    except msgspec.DecodeError:
        return None


def _siblings(path: Path) -> list[Path]:
    try:
        return [one for one in path.parent.iterdir() if one.is_file()]
    except OSError:
        return []


def plain(node: Marked | None) -> Any:
    """The value of a node without lines."""
    return None if node is None else node.plain()
