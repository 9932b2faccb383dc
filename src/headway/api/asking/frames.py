"""Frames of pandas and polars: the texts of their columns, and a new frame with more columns.

Neither library is imported: a caller who has a frame has imported its library.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from headway.batch.tables.answer_columns import FieldKind
from headway.batch.tables.cell_text import text_of
from headway.config.argument_checks import named
from headway.errors import UsageError


class NewColumn(msgspec.Struct, frozen=True):
    """A column of answers: a value for each row, None where there is none. `kind` is known from the schema."""

    values: list[Any]
    kind: FieldKind | None = None


class FrameAdapter(Protocol):
    """A frame of one library."""

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""

    @property
    def rows(self) -> int:
        """How many rows it has."""

    def texts(self, columns: Sequence[str]) -> Iterator[Sequence[str]]:
        """The texts of these columns, row by row."""

    def extended(self, new: Mapping[str, NewColumn]) -> Any:
        """A new frame with further columns. The rows keep their order and their index."""


def frame_adapter(frame: Any) -> FrameAdapter:
    """The adapter of a frame. Raises `UsageError` for anything else."""
    for library, adapter in (("pandas", _PandasFrame), ("polars", _PolarsFrame)):
        kind = getattr(sys.modules.get(library), "DataFrame", None)
        if kind is not None and isinstance(frame, kind):
            return adapter(frame)
    hint = "a DataFrame of pandas or polars is expected"
    if type(frame).__name__ == "LazyFrame":
        hint = "collect it first: frame.collect()"
    raise UsageError(f"the frame is {named(frame)}", hint=hint)


def _text(value: object) -> str:
    """The text of a cell. A missing value is empty, and a type that JSON does not have is written as Python writes it."""
    if value is None or value != value or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    try:
        return text_of(value)
    except TypeError:
        return str(value)


class _PandasFrame:
    """A frame of pandas. An integer or boolean column with missing values gets pandas' own type for that."""

    _WITH_MISSING: Final = {"integer": "Int64", "boolean": "boolean"}

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.columns = [str(name) for name in frame.columns]
        self.rows = len(frame)
        for name in self.columns:
            if self.columns.count(name) > 1:
                raise UsageError(f"two columns are called '{name}'", hint="give each a name of its own")

    def texts(self, columns: Sequence[str]) -> Iterator[Sequence[str]]:
        places = [self.columns.index(name) for name in columns]
        if not places:
            return iter(() for _ in range(self.rows))
        return zip(*(map(_text, self._frame.iloc[:, place]) for place in places), strict=True)

    def extended(self, new: Mapping[str, NewColumn]) -> Any:
        pandas = sys.modules["pandas"]
        made = self._frame.copy(deep=False)
        for name, column in new.items():
            missing = any(value is None for value in column.values)
            kind = self._WITH_MISSING.get(column.kind or "") if missing else None
            if missing and all(value is None for value in column.values):
                kind = "object"
            made[name] = pandas.Series(column.values, index=self._frame.index, dtype=kind)
        return made


class _PolarsFrame:
    """A frame of polars."""

    _TYPES: Final = {"string": "String", "integer": "Int64", "number": "Float64", "boolean": "Boolean"}

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.columns = list(frame.columns)
        self.rows = frame.height

    def texts(self, columns: Sequence[str]) -> Iterator[Sequence[str]]:
        if not columns:
            return iter(() for _ in range(self.rows))
        rows = self._frame.select(list(columns)).iter_rows()
        return ([_text(value) for value in row] for row in rows)

    def extended(self, new: Mapping[str, NewColumn]) -> Any:
        polars = sys.modules["polars"]
        series = []
        for name, column in new.items():
            kind = None if column.kind is None else getattr(polars, self._TYPES[column.kind])
            series.append(polars.Series(name, column.values, dtype=kind, strict=False))
        return self._frame.with_columns(series)
