"""Converts columns of a Parquet file to JSON values, and back to their original types.

JSON has no dates, times, decimals or bytes. The conversion goes through a *plain* type: the same nesting with texts in their
places. Arrow casts between the two exactly, including nanoseconds (except in times of the day). pyarrow is imported only here
(docs/decisions/0015).
"""

from __future__ import annotations

import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import time
from typing import Any, Final

from headway.errors import ConfigError, UsageError
from headway.install_hint import install_command

Convert = Callable[[Any], Any]

#: Parts of Arrow's errors about a file in another format.
_NOT_PARQUET: Final = ("magic bytes", "file size is 0", "smaller than the minimum")
#: Trailing zeros after the decimal point of a time.
_ZEROS: Final = re.compile(r"\.(\d*[1-9])?0+(?=$|Z|[+-])")


def pyarrow(path: object) -> Any:
    """The library. `path` is the file that needs it, for the message."""
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError:
        raise UsageError(f"'{path}' needs pyarrow", hint=install_command("parquet")) from None
    return pa


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Raise Arrow's errors about a file as errors of one line."""
    pa = pyarrow(name)
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        message = " ".join(str(error).split())
        if any(part in message for part in _NOT_PARQUET):
            raise ConfigError(f"{name} is not a Parquet file", hint="check what wrote it") from None
        raise ConfigError(
            f"{name}: cannot be read: {message[:200]}", hint="create or copy the file again"
        ) from None


# -- from a file ------------------------------------------------------------------------------------------------


def plain_values(column: Any) -> list[Any]:
    """A column as JSON values. Bytes stay bytes; the JSON encoder writes them as base64."""
    pa = pyarrow("")
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        column, kind = column.storage, kind.storage_type
    plain = _plain(kind, pa.string())
    values: list[Any] = (column if plain == kind else column.cast(plain)).to_pylist()
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return [None if value is None else _instant(value) for value in values]
    if pa.types.is_floating(kind):
        return [value if value is None or math.isfinite(value) else str(value) for value in values]
    return values


def _instant(text: str) -> str:
    """An instant in ISO 8601, without trailing zeros."""
    return _ZEROS.sub(lambda match: f".{match[1]}" if match[1] else "", text).replace(" ", "T", 1)


def _plain(kind: Any, times: Any = None) -> Any:
    """The plain type of a type. `times` is the plain type of times of the day; without it they stay unchanged."""
    pa = pyarrow("")
    types = pa.types
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_decimal(kind):
        return pa.string()
    if types.is_time(kind):
        return times or kind
    if types.is_duration(kind):
        return pa.int64()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_dictionary(kind):
        return _plain(kind.value_type, times)
    if types.is_map(kind):
        return pa.map_(_plain(kind.key_type, times), _plain(kind.item_type, times))
    if types.is_struct(kind):
        return pa.struct([pa.field(each.name, _plain(each.type, times)) for each in kind])
    if _is_list(kind):
        return pa.list_(_plain(kind.value_type, times))
    return kind


def _is_list(kind: Any) -> bool:
    types = pyarrow("").types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


# -- back to a file -----------------------------------------------------------------------------------------------


def restored(values: list[Any], kind: Any) -> Any:
    """The column from which `plain_values` was made. A value that Arrow wrote and cannot read back becomes null."""
    try:
        return _restored(values, kind)
    except pyarrow(
        ""
    ).ArrowException:  # For example the year 12000, or the smallest timestamp in nanoseconds.
        return pyarrow("").concat_arrays([_or_null(value, kind) for value in values])


def _or_null(value: Any, kind: Any) -> Any:
    try:
        return _restored([value], kind)
    except pyarrow("").ArrowException:
        return pyarrow("").nulls(1, kind)


def _restored(values: list[Any], kind: Any) -> Any:
    pa = pyarrow("")
    convert = _converter(kind)
    if convert is not None:
        values = [None if value is None else convert(value) for value in values]
    if pa.types.is_nested(kind):
        return pa.array(values, kind)
    plain = _plain(kind)
    column = pa.array(values, plain)
    return column if plain == kind else column.cast(kind)


def _converter(kind: Any) -> Convert | None:
    """Converts a JSON value to one that Arrow accepts; None: no conversion is needed."""
    types = pyarrow("").types
    if types.is_time(kind):
        return time.fromisoformat
    if types.is_floating(kind):
        return float
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return b64decode
    if types.is_map(kind):
        return _convert_pairs(_leaf_converter(kind.key_type), _leaf_converter(kind.item_type))
    if types.is_struct(kind):
        return _convert_fields({each.name: _leaf_converter(each.type) for each in kind})
    if _is_list(kind):
        inner = _leaf_converter(kind.value_type)
        return None if inner is None else lambda values: [_converted(inner, value) for value in values]
    return None


def _leaf_converter(kind: Any) -> Convert | None:
    """The same for nested values, which cannot be cast as a whole column: each is cast alone."""
    pa = pyarrow("")
    plain = _plain(kind)
    if plain == kind or pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_float16(kind):
        return _converter(kind)
    return lambda value: pa.scalar(value, plain).cast(kind)


def _converted(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _convert_pairs(key: Convert | None, item: Convert | None) -> Convert:
    return lambda pairs: [(_converted(key, first), _converted(item, second)) for first, second in pairs]


def _convert_fields(fields: dict[str, Convert | None]) -> Convert | None:
    if not any(fields.values()):
        return None
    return lambda record: {name: _converted(convert, record.get(name)) for name, convert in fields.items()}


# -- types as text ------------------------------------------------------------------------------------------------


def packed(schema: Any) -> str:
    """The names and types of columns, for the record. Extension types are recorded as their storage types."""
    pa = pyarrow("")
    fields = [pa.field(each.name, _stored(each.type)) for each in schema]
    return b64encode(pa.schema(fields).serialize().to_pybytes()).decode()


def _stored(kind: Any) -> Any:
    return kind.storage_type if isinstance(kind, pyarrow("").BaseExtensionType) else kind


def unpacked(text: str) -> Any:
    """The schema from its record."""
    pa = pyarrow("")
    return pa.ipc.read_schema(pa.py_buffer(b64decode(text)))
