"""Counts labels."""

from __future__ import annotations

from collections import Counter
from typing import Any


def main(call: dict[str, Any]) -> dict[str, dict[str, int]]:
    """How often each label was given."""
    return {"counts": dict(Counter(str(label).strip().lower() for label in call["state"]["labels"]))}
