"""Writes the finished text."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def main(call: dict[str, Any]) -> str:
    """Write improved.txt in the working directory, and return its name."""
    path = Path("improved.txt")
    path.write_text(call["state"]["text"], encoding="utf-8")
    return str(path)
