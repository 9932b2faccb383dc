"""Decodes JSON as providers really send it, so that no good answer is lost, within bounds on memory. Pure.

Half an emoji and a NaN are not valid JSON, and providers send both.
"""

from __future__ import annotations

import json
import sys
from math import inf
from typing import Any, Final

import msgspec

from headway.providers.dialects.answer_errors import AnswerTooComplex, size_text

#: JSON of up to so many bytes is always decoded.
LIGHT: Final = 4_000_000
#: The largest memory of decoded JSON: embeddings up to the ceiling of an answer take 240 MB.
HEAVY: Final = 300_000_000


class AnyObject(msgspec.Struct, gc=False):
    """Any object; no field is read."""


def is_heavy(data: bytes, most: int | None = None) -> bool:
    """Whether JSON of this many lists, objects and values would take too much memory as Python objects.

    Sixty million bytes of "[]," are 1.4 GB of empty lists. The figures are the memory of CPython for one of each. An object of
    up to five fields takes 240 bytes if other objects have the same names; each further field takes 120 bytes.
    """
    if len(data) <= LIGHT:
        return False
    objects_in = data.count(b"{")
    further_fields = max(0, data.count(b'":') - 5 * objects_in)
    weight = 240 * objects_in + 120 * further_fields + 72 * data.count(b"[") + 40 * data.count(b",")
    return weight > (HEAVY if most is None else most)


def check_objects(data: bytes) -> None:
    """Raise `AnswerTooComplex` for JSON with so many objects that even empty ones would take too much memory."""
    if len(data) > LIGHT and 32 * data.count(b"{") > HEAVY:
        raise _too_heavy()


def _too_heavy() -> AnswerTooComplex:
    return AnswerTooComplex(f"values than fit into {size_text(HEAVY)} of memory")


def decoded(data: bytes) -> Any:
    """Decode, with NaN as null and lone surrogates unchanged. Raises ValueError, and `AnswerTooComplex` if it `is_heavy`."""
    if is_heavy(data):
        raise _too_heavy()
    try:
        return msgspec.json.decode(data)
    except ValueError:
        return _lenient(data)
    except RecursionError as deep:
        raise ValueError("nested too deeply") from deep


def _lenient(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8-sig", "replace"), parse_constant=_no_number)
    except RecursionError as deep:
        raise ValueError("nested too deeply") from deep


def _no_number(_name: str) -> None:
    """JSON has no NaN and no infinities."""
    return


def encoded(value: Any) -> bytes:
    """Encode. Surrogate pairs are joined; a lone surrogate is replaced."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeError, OverflowError):  # The latter: an integer of more than 64 bits.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, otherwise an empty object."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; none if it is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def index_of(item: dict[str, Any]) -> int:
    """The index of an item; 0 if it has none."""
    index = item.get("index")
    return index if type(index) is int else 0


def counts(usage: Any) -> dict[str, Any]:
    """The numbers of a usage object, and of its details. A negative number becomes infinite: it is as impossible."""
    sound: dict[str, Any] = {}
    for name, value in mapping(usage).items():
        if name.endswith("_details"):
            sound[name] = counts(value)
        elif type(value) in (int, float):
            sound[name] = value if 0 <= value <= sys.float_info.max else inf
    return sound
