"""Reports as JSON values: the fields of typed records, with instants as text.

A field whose name ends in `_utc` is a number of seconds in the records and ISO 8601 in what is printed. Data of users and
providers (plain dicts inside a report, raw JSON) is never changed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headway.display.formatting import FAR_OFF, iso

_SUFFIX = "_utc"


def report_json(value: Any) -> Any:
    """The value, ready to be encoded as JSON: records become dicts."""
    if isinstance(value, msgspec.Struct):
        return _record(value)
    if isinstance(value, dict):
        return {key: report_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [report_json(each) for each in value]
    return value


def fields_json(fields: dict[str, Any]) -> dict[str, Any]:
    """The same of a dict whose keys are fields of reports."""
    return {name: _field(name, value) for name, value in fields.items()}


def _record(record: msgspec.Struct) -> Any:
    config = record.__struct_config__
    if config.array_like:
        return msgspec.to_builtins(record)
    names = zip(record.__struct_fields__, record.__struct_encode_fields__, strict=True)
    values = {encoded: _field(name, getattr(record, name)) for name, encoded in names}
    if config.omit_defaults:
        kept = msgspec.json.decode(msgspec.json.encode(record)).keys()
        values = {name: value for name, value in values.items() if name in kept}
    if config.tag is not None and config.tag_field is not None:
        values = {config.tag_field: config.tag, **values}
    return {name: value for name, value in values.items() if value is not msgspec.UNSET}


def _field(name: str, value: Any) -> Any:
    if name.endswith(_SUFFIX) and type(value) in (int, float):
        text = iso(value)
        return None if text == FAR_OFF else text
    return report_json(value)
