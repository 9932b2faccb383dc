"""How deep the values of a flow may be nested. Values are read, checked and written on stacks of any depth: a fixed bound keeps all of them safe. PURE."""

from __future__ import annotations

import re
from typing import Final

#: Levels of lists and objects.
MOST_LEVELS: Final = 200
TOO_DEEP: Final = f"the answer is nested more than {MOST_LEVELS} deep"

_TEXTS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_ALIKE: Final = bytes.maketrans(b"{}", b"[]")
_OTHERS: Final = bytes(set(range(256)) - set(b"[]{}"))


def is_too_deep(json: bytes) -> bool:
    """Whether JSON is nested more than MOST_LEVELS deep. Nothing is decoded, and nothing recurses: each pass removes the innermost level."""
    if json.count(b"[") + json.count(b"{") <= MOST_LEVELS:
        return False
    left = _TEXTS.sub(b"", json).translate(_ALIKE, _OTHERS)
    for _ in range(MOST_LEVELS):
        left = left.replace(b"[]", b"")
        if not left:
            return False
    return True
