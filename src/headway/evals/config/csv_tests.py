"""Tests in a table: a row is a test, a column a variable, and columns whose names begin with `__` are assertions and settings.

Columns are understood once, and an assertion that many rows share is read once.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec

from headway.config.yaml_file import LARGEST, Marked, marked
from headway.evals.config.assertion_types import WRITTEN
from headway.evals.config.source_file import SCHEME, SourceFile

EXPECTED: Final = "__expected"
_METADATA: Final = "__metadata:"
_CONFIG: Final = "__config:"
_OPTIONS: Final = {"__prefix": "prefix", "__suffix": "suffix"}
_SINGLE: Final = tuple(
    f"_{name}"
    for name in ("expected", "prefix", "suffix", "description", "metric", "threshold", "metadata", "config")
)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_ASSERTION: Final = re.compile(
    r"(not-)?("
    + "|".join(re.escape(name) for name in sorted(WRITTEN, key=len, reverse=True))
    + r")(?:\((\d+(?:\.\d+)?)\))?(?::(.*))?",
    re.DOTALL,
)
_LISTS: Final = ("contains-any", "contains-all", "icontains-any", "icontains-all")
#: Types that get a threshold in a table even if none is written.
_WITH_THRESHOLD: Final = {
    "cost": 0.75, "latency": 0.75, "levenshtein": 0.75, "rouge-n": 0.75, "similar": 0.8,
}  # fmt: skip
_UNSPLIT: Final = ("is-json", "contains-json")
_CODE_PREFIXES: Final = {
    "javascript:": "javascript",
    "fn:": "javascript",
    "eval:": "javascript",
    "python:": "python",
}
_RUBRICS: Final = ("llm-rubric:", "grade:")


class TableRow(msgspec.Struct, frozen=True):
    """A row: its line, the variables as texts, and everything else as a test would have it."""

    line: int
    vars: dict[str, str]
    asserts: tuple[str, ...] = ()
    #: By the place of an assertion.
    thresholds: dict[int, float] = {}
    metric: str = ""
    description: str = ""
    threshold: float | None = None
    options: dict[str, str] = {}
    metadata: dict[str, Any] = {}


def table_rows(source: SourceFile) -> Iterator[TableRow]:
    """The rows of a .csv file. Errors are reported with their lines."""
    text = source.read_text()
    if text is None:
        return
    csv.field_size_limit(LARGEST)  # Python's own limit is shorter than a long document.
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        columns = [name.strip() for name in next(reader, [])]
        takers = _takers(columns, source)
        line = reader.line_num + 1
        for cells in reader:
            if len(cells) == len(columns):
                yield _row(line, takers, cells, source)
            elif any(cell.strip() for cell in cells):
                source.error(line, f"expected {len(columns)} cells, not {len(cells)}")
            line = reader.line_num + 1
    except csv.Error as error:
        source.error(reader.line_num, f"not CSV: {error}")


class _Draft:
    """A row that is being read."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.vars: dict[str, str] = {}
        self.asserts: list[str] = []
        self.thresholds: dict[int, float] = {}
        self.texts: dict[str, str] = {}
        self.options: dict[str, str] = {}
        self.metadata: dict[str, Any] = {}
        self.threshold: float | None = None


_Taker = Callable[[_Draft, str, SourceFile], None]


def _row(line: int, takers: list[_Taker], cells: list[str], source: SourceFile) -> TableRow:
    draft = _Draft(line)
    for take, cell in zip(takers, cells, strict=True):
        take(draft, cell, source)
    return TableRow(
        line,
        draft.vars,
        tuple(draft.asserts),
        draft.thresholds,
        draft.texts.get("__metric", ""),
        draft.texts.get("__description", ""),
        draft.threshold,
        draft.options,
        draft.metadata,
    )


def _takers(columns: list[str], source: SourceFile) -> list[_Taker]:
    """What each column does with a cell."""
    for name in {one for one in columns if columns.count(one) > 1}:
        source.error(1, f"there are two columns '{name}'")
    return [_taker(name, source) for name in columns]


def _taker(name: str, source: SourceFile) -> _Taker:
    if name.startswith(EXPECTED):
        return _take_assertion
    if name in _OPTIONS:
        return lambda draft, cell, _: draft.options.__setitem__(_OPTIONS[name], cell) if cell else None
    if name in ("__description", "__metric"):
        return lambda draft, cell, _: draft.texts.__setitem__(name, cell)
    if name == "__threshold":
        return lambda draft, cell, file: setattr(draft, "threshold", _number(cell, name, draft.line, file))
    if name.startswith(_METADATA):
        return _metadata_taker(name.removeprefix(_METADATA))
    if name.startswith(_CONFIG):
        return _config_taker(name, source)
    if name == "__providerOutput":
        source.refuse(1, name, "an answer is not written in a test", "use the provider echo")
    elif name.startswith("__"):
        known = (
            EXPECTED,
            *_OPTIONS,
            "__description",
            "__metric",
            "__threshold",
            "__metadata:KEY",
            "__config:__expected:threshold",
        )
        source.unknown(1, f"unknown column '{name}'", name, known)
    elif name.startswith(_SINGLE):
        source.warning(1, f"the column '{name}' is a variable", f"did you mean '_{name}'?")
    return lambda draft, cell, _: draft.vars.__setitem__(name, cell)


def _take_assertion(draft: _Draft, cell: str, source: SourceFile) -> None:
    if text := cell.strip():
        draft.asserts.append(text)


def _metadata_taker(key: str) -> _Taker:
    if not key.endswith("[]"):
        return lambda draft, cell, _: draft.metadata.__setitem__(key, cell) if cell.strip() else None

    def take(draft: _Draft, cell: str, source: SourceFile) -> None:
        if cell.strip():
            parts = re.split(r"(?<!\\),", cell)
            draft.metadata[key[:-2]] = [part.strip().replace("\\,", ",") for part in parts]

    return take


def _config_taker(name: str, source: SourceFile) -> _Taker:
    match = re.fullmatch(r"__config:__expected(\d*):(\w+)", name)
    if match is None or match[2] != "threshold" or match[1] == "0":
        source.error(1, f"the column '{name}' is not understood", "write __config:__expected1:threshold")
        return lambda draft, cell, _: None
    place = int(match[1] or 1) - 1

    def take(draft: _Draft, cell: str, file: SourceFile) -> None:
        number = _number(cell, name, draft.line, file)
        if number is not None:
            draft.thresholds[place] = number

    return take


def _number(cell: str, name: str, line: int, source: SourceFile) -> float | None:
    text = cell.strip()
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        source.error(line, f"{name}: expected a number, not '{text[:40]}'")
        return None
    return float(text)


def assertion_node(text: str, line: int, threshold: float | None, metric: str) -> Marked:
    """A cell as the assertion that it stands for, in the form that a file would have it."""
    fields = dict(_assertion_fields(text))
    if threshold is not None:
        fields["threshold"] = threshold
    if metric:
        fields["metric"] = metric
    return marked(fields, line)


@lru_cache(4096)
def _assertion_fields(text: str) -> tuple[tuple[str, Any], ...]:
    """`contains: Paris` → type and value. A text that names no type is what the output must equal."""
    for prefix, kind in _CODE_PREFIXES.items():
        if text.startswith(prefix):
            return ("type", kind), ("value", text.removeprefix(prefix).strip())
    for prefix in _RUBRICS:
        if text.startswith(prefix):
            return ("type", "llm-rubric"), ("value", text.removeprefix(prefix))
    if text.startswith(SCHEME):
        path = text.removeprefix(SCHEME)
        kind = "python" if ".py" in path else "javascript" if re.search(r"\.[cm]?js(:|$)", path) else ""
        if kind:
            return ("type", kind), ("value", text)
    match = _ASSERTION.fullmatch(text)
    if match is None:
        return ("type", "equals"), ("value", text)
    kind = match[2]
    fields: list[tuple[str, Any]] = [("type", (match[1] or "") + kind)]
    if match[4] is not None:
        fields.append(("value", _cell_value(kind, match[4])))
    if match[3] or kind in _WITH_THRESHOLD:
        fields.append(("threshold", float(match[3]) if match[3] else _WITH_THRESHOLD[kind]))
    return tuple(fields)


def _cell_value(kind: str, text: str) -> Any:
    if kind in _LISTS:
        cells = next(csv.reader([text.strip()], skipinitialspace=True), [])
        return [cell.strip() for cell in cells if cell.strip()]
    return text if kind in _UNSPLIT else text.strip()
