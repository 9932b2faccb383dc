"""Reads YAML into values that know their lines.

Stricter than YAML: keys are texts and occur once, there are no tags, and only true, false, null and numbers are not texts
(`no` and `12:30` are). Nesting, size and aliases are bounded, so that no file takes more time or memory than its size
suggests. The tree is built from the parser's events in a loop: PyYAML's own composer is recursive, and its C version crashes
on deeply nested input.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from headway.errors import ConfigError

#: In bytes: ten times what 10,000 long nodes take.
LARGEST: Final = 64_000_000
DEEPEST: Final = 60
#: Values that aliases may add.
MOST_REPEATED: Final = 100_000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER: Final = re.compile(r"[-+]?\d{1,30}", re.ASCII)
_NUMBER: Final = re.compile(r"[-+]?(\d{1,30}(\.\d*)?|\.\d+)([eE][-+]?\d{1,3})?", re.ASCII)
_WORDS: Final[dict[str, Any]] = {
    "true": True, "True": True, "false": False, "False": False, "null": None, "~": None, "": None,
}  # fmt: skip


class YamlError(ConfigError):
    """A file that is not YAML, or not this kind of YAML. `line` counts from 1; 0 if no line is to blame."""

    def __init__(self, message: str, line: int, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.line = line


class Marked:
    """A value and its line. `value` is a scalar, a list of `Marked`, or a dict of them; `key_lines` has the keys' lines."""

    __slots__ = ("key_lines", "line", "size", "value")

    def __init__(self, value: Any, line: int) -> None:
        self.value = value
        self.line = line
        self.key_lines: dict[str, int] = {}
        #: How many values it has, itself included, aliases counted in full.
        self.size = 1

    def plain(self) -> Any:
        """The value without lines."""
        if isinstance(self.value, dict):
            return {key: inner.plain() for key, inner in self.value.items()}
        if isinstance(self.value, list):
            return [inner.plain() for inner in self.value]
        return self.value


def marked(value: Any, line: int = 0) -> Marked:
    """A plain value as if it had been read from a file."""
    if isinstance(value, dict):
        result = Marked({str(key): marked(inner, line) for key, inner in value.items()}, line)
        result.key_lines = dict.fromkeys(result.value, line)
        return result
    if isinstance(value, list | tuple):
        return Marked([marked(inner, line) for inner in value], line)
    return Marked(value, line)


def read_yaml(path: Path) -> Marked:
    """Read a file. Raises `YamlError`."""
    try:
        status = path.stat()
        if stat.S_ISFIFO(status.st_mode):  # To open it would wait for a writer.
            raise YamlError("is a pipe, not a file", 0)
        if status.st_size > LARGEST:
            raise YamlError(f"larger than {LARGEST // 1_000_000} MB", 0)
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise YamlError("no such file", 0) from None
    except UnicodeDecodeError:
        raise YamlError("not a text file in UTF-8", 0) from None
    except OSError as error:
        raise YamlError(f"cannot be read: {(error.strerror or str(error)).lower()}", 0) from None
    return parse_yaml(text)


def parse_yaml(text: str) -> Marked:
    """Read a text. Raises `YamlError`."""
    try:
        return _Builder().build(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = mark.line + 1 if mark else 0
        raise YamlError(f"not YAML: {error.problem}", place, hint=_usual_cause(str(error.problem))) from None
    except yaml.YAMLError as error:
        raise YamlError(f"not YAML: {str(error).splitlines()[0]}", 0) from None


def _usual_cause(problem: str) -> str | None:
    """What to check after an error of the parser that comes of wrong indentation."""
    if "did not find expected" in problem or "expected <block end>" in problem or "mapping values" in problem:
        return "check the indentation of this line and the one before"
    return None


class _Builder:
    """Builds the tree from events. `_open` has the containers that are not closed yet."""

    def __init__(self) -> None:
        self._open: list[Marked] = []
        #: The key that waits for its value, for each open container; None in a list and before a key.
        self._keys: list[tuple[str, int] | None] = []
        self._anchors: dict[str, Marked] = {}
        self._anchor_names: list[str | None] = []
        self._repeated = 0
        self._root: Marked | None = None

    def build(self, events: Iterator[yaml.Event]) -> Marked:
        for event in events:
            self._take(event)
        return self._root if self._root is not None else Marked(None, 1)

    def _take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.ScalarEvent):
            _refuse_tag(event, line)
            if self._wants_key():
                self._keys[-1] = self._new_key(event.value, line)
            else:
                self._add(Marked(_scalar(event), line), event.anchor)
        elif isinstance(event, yaml.AliasEvent):
            self._add_alias(event, line)
        elif isinstance(event, yaml.CollectionStartEvent):
            _refuse_tag(event, line)
            self._start({} if isinstance(event, yaml.MappingStartEvent) else [], event.anchor, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()
        elif isinstance(event, yaml.DocumentStartEvent) and self._root is not None:
            raise YamlError("a second document", line, hint="the file is one document: remove the '---'")

    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._keys[-1] is None

    def _new_key(self, key: str, line: int) -> tuple[str, int]:
        first = self._open[-1].key_lines.get(key)
        if first is not None:
            raise YamlError(f"'{key}' is here twice", line, hint=f"the first is in line {first}")
        return key, line

    def _add_alias(self, event: yaml.AliasEvent, line: int) -> None:
        if self._wants_key():
            raise YamlError("a key must be a text", line)
        known = self._anchors.get(event.anchor or "")
        if known is None:
            raise YamlError(f"there is no anchor '&{event.anchor}' before it", line)
        self._repeated += known.size
        if self._repeated > MOST_REPEATED:
            raise YamlError("the aliases repeat too much", line, hint="write the values out")
        self._add(known, None)

    def _start(self, value: Any, anchor: str | None, line: int) -> None:
        if self._wants_key():
            raise YamlError("a key must be a text", line)
        if len(self._open) >= DEEPEST:
            raise YamlError(f"nested more than {DEEPEST} deep", line)
        self._open.append(Marked(value, line))
        self._keys.append(None)
        self._anchor_names.append(anchor)

    def _end(self) -> None:
        self._keys.pop()
        self._add(self._open.pop(), self._anchor_names.pop())

    def _add(self, item: Marked, anchor: str | None) -> None:
        """Put a finished value into its container."""
        if anchor:
            self._anchors[anchor] = item
        if not self._open:
            self._root = item
            return
        container, key = self._open[-1], self._keys[-1]
        container.size += item.size
        if key is None:
            container.value.append(item)
        else:
            container.value[key[0]] = item
            container.key_lines[key[0]] = key[1]
            self._keys[-1] = None


def _refuse_tag(event: Any, line: int) -> None:
    if event.tag is not None and event.tag not in ("!", "tag:yaml.org,2002:str"):
        raise YamlError(f"the tag '{event.tag}' is not allowed", line)


def _scalar(event: yaml.ScalarEvent) -> Any:
    text: str = event.value
    if not event.implicit[0] or event.style:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
