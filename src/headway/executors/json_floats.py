"""NaN and the infinities in JSON, which has none of them: the texts "NaN", "Infinity" and "-Infinity".

msgspec writes `null` for each, and what was lost is not seen any more. The texts are those of the JSON forms of Protocol
Buffers and Pydantic; `float()` reads them. Halves of surrogate pairs, which no encoding can write, are written out (`\\ud800`).
"""

from __future__ import annotations

from math import inf, isfinite
from typing import Any

import msgspec

from headway.safe_text import without_halves


def is_no_json_float(plain: Any) -> bool:
    """Whether it is a float that JSON cannot say."""
    return isinstance(plain, float) and not isfinite(plain)


def json_floats(plain: Any) -> Any:
    """The same value (of builtin types) with texts in the place of such floats."""
    if is_no_json_float(plain):
        return "Infinity" if plain == inf else "-Infinity" if plain == -inf else "NaN"
    if isinstance(plain, dict):
        return {key: json_floats(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple | set | frozenset):
        return [json_floats(value) for value in plain]
    return plain


def encode(value: Any, otherwise: Any = None) -> bytes:
    """JSON, with texts for floats that JSON cannot say; `otherwise` makes something of what is no JSON at all."""
    try:
        said = msgspec.json.encode(value, enc_hook=otherwise)
    except UnicodeEncodeError:
        plain = _whole_texts(msgspec.to_builtins(value, str_keys=True, enc_hook=otherwise))
    else:
        if b"null" not in said:
            return said  # The usual case: nothing can have been lost.
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=otherwise)
    return msgspec.json.encode(json_floats(plain), enc_hook=otherwise)


def _whole_texts(plain: Any) -> Any:
    if isinstance(plain, str):
        return without_halves(plain)
    if isinstance(plain, dict):
        return {_whole_texts(key): _whole_texts(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple | set | frozenset):
        return [_whole_texts(value) for value in plain]
    return plain
