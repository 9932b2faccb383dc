"""Columns of a Parquet file → JSON values, and back with the types that they had.

JSON has no dates, times, decimals or bytes. Between the two lies a *plain* type: the same nesting with texts in their
places, which Arrow casts to and from exactly, nanoseconds included (but for those of a time of the day). pyarrow is imported only here (docs/decisions/0015).
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

Mend = Callable[[Any], Any]

#: Zeros behind the point of a time that say nothing.
_ZEROS: Final = re.compile(r"\.(\d*[1-9])?0+(?=$|Z|[+-])")


def pyarrow(path: object) -> Any:
    """The library, for this file."""
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError:
        raise UsageError(f"'{path}' needs pyarrow: pip install 'headway[parquet]'") from None
    return pa


@contextmanager
def readable(name: str) -> Iterator[None]:
    """What Arrow says of a file, in one line."""
    pa = pyarrow(name)
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        said = " ".join(str(error).split())
        if "magic bytes" in said or "file size is 0" in said or "smaller than the minimum" in said:
            raise ConfigError(f"{name} is not a Parquet file", hint="check what wrote it") from None
        raise ConfigError(
            f"{name}: cannot be read: {said[:200]}", hint="make or copy the file again"
        ) from None


# -- out of a file ------------------------------------------------------------------------------------------------


def plain_values(column: Any) -> list[Any]:
    """A column as JSON values; bytes stay bytes, which JSON has as base64."""
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
    """As ISO 8601 has it, without zeros behind the point."""
    return _ZEROS.sub(lambda found: f".{found[1]}" if found[1] else "", text).replace(" ", "T", 1)


def _plain(kind: Any, times: Any = None) -> Any:
    """The plain type of a type. `times` is what a time of the day becomes; it stays one where none is named."""
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


# -- back into one ------------------------------------------------------------------------------------------------


def restored(values: list[Any], kind: Any) -> Any:
    """The column that `plain_values` and JSON were made of; a value that Arrow wrote and cannot read back is null."""
    try:
        return _restored(values, kind)
    except pyarrow("").ArrowException:  # The year 12000, or the first second of all nanoseconds.
        return pyarrow("").concat_arrays([_or_null(value, kind) for value in values])


def _or_null(value: Any, kind: Any) -> Any:
    try:
        return _restored([value], kind)
    except pyarrow("").ArrowException:
        return pyarrow("").nulls(1, kind)


def _restored(values: list[Any], kind: Any) -> Any:
    pa = pyarrow("")
    mend = _mend(kind)
    if mend is not None:
        values = [None if value is None else mend(value) for value in values]
    if pa.types.is_nested(kind):
        return pa.array(values, kind)
    plain = _plain(kind)
    column = pa.array(values, plain)
    return column if plain == kind else column.cast(kind)


def _mend(kind: Any) -> Mend | None:
    """What has to be done to a JSON value before Arrow takes it; None: nothing."""
    types = pyarrow("").types
    if types.is_time(kind):
        return time.fromisoformat
    if types.is_floating(kind):
        return float
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return b64decode
    if types.is_map(kind):
        return _mend_pairs(_mend_leaf(kind.key_type), _mend_leaf(kind.item_type))
    if types.is_struct(kind):
        return _mend_fields({each.name: _mend_leaf(each.type) for each in kind})
    if _is_list(kind):
        inner = _mend_leaf(kind.value_type)
        return None if inner is None else lambda values: [_mended(inner, value) for value in values]
    return None


def _mend_leaf(kind: Any) -> Mend | None:
    """The same inside of another value, where a whole column cannot be cast: one by one."""
    pa = pyarrow("")
    plain = _plain(kind)
    if plain == kind or pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_float16(kind):
        return _mend(kind)
    return lambda value: pa.scalar(value, plain).cast(kind)


def _mended(mend: Mend | None, value: Any) -> Any:
    return value if mend is None or value is None else mend(value)


def _mend_pairs(key: Mend | None, item: Mend | None) -> Mend:
    return lambda pairs: [(_mended(key, first), _mended(item, second)) for first, second in pairs]


def _mend_fields(fields: dict[str, Mend | None]) -> Mend | None:
    if not any(fields.values()):
        return None
    return lambda record: {name: _mended(mend, record.get(name)) for name, mend in fields.items()}


# -- types as texts -----------------------------------------------------------------------------------------------


def packed(schema: Any) -> str:
    """The names and types of columns, for the record. What a type cannot be kept as, its storage is."""
    pa = pyarrow("")
    fields = [pa.field(each.name, _stored(each.type)) for each in schema]
    return b64encode(pa.schema(fields).serialize().to_pybytes()).decode()


def _stored(kind: Any) -> Any:
    return kind.storage_type if isinstance(kind, pyarrow("").BaseExtensionType) else kind


def unpacked(text: str) -> Any:
    """The columns again."""
    pa = pyarrow("")
    return pa.ipc.read_schema(pa.py_buffer(b64decode(text)))
