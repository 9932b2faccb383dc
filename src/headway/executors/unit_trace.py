"""The trace that a unit is a part of, on its way into a worker process: before the payload, and there a variable of the environment.

A worker runs one unit at a time. What the unit starts inherits the variable.
"""

from __future__ import annotations

import os
from typing import Final

#: The variable, as OpenTelemetry's conventions for environments name it.
VARIABLE: Final = "TRACEPARENT"
#: The first byte of a payload with a trace. Payloads begin with JSON, a path or a pickle's \x80.
_MARK: Final = b"\x01"
#: Version 00: "00-" + 32 + "-" + 16 + "-" + 2 characters.
_LENGTH: Final = 55


def with_trace(payload: bytes, traceparent: str) -> bytes:
    """A payload that carries a trace, if there is one."""
    return _MARK + traceparent.encode() + payload if len(traceparent) == _LENGTH else payload


def take_trace(payload: bytes) -> bytes:
    """The payload without its trace, which is in the environment now. A unit without one has no variable of the unit before."""
    if payload[:1] != _MARK:
        if VARIABLE in os.environ and _is_ours():
            del os.environ[VARIABLE]
        return payload
    global _last  # noqa: PLW0603 - one unit at a time
    _last = os.environ[VARIABLE] = payload[1 : _LENGTH + 1].decode()
    return payload[_LENGTH + 1 :]


#: What the last unit with a trace got.
_last = ""


def _is_ours() -> bool:
    return os.environ[VARIABLE] == _last
