"""Reads the change that is reviewed."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def main(call: dict[str, Any]) -> str:
    """The text of the file that `args` names, beside flow.yaml."""
    return str((Path(__file__).parents[1] / call["args"]["file"]).read_text(encoding="utf-8"))
