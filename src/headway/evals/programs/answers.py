"""The answers of programs and of code: all have the same body, `{"output": …}`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


def output_of(body: bytes) -> Any:
    """The output of a provider, or the value that code returned."""
    return _decode(body)["output"]
