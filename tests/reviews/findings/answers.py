"""A file with faults, and answers of models about it."""

from __future__ import annotations

import json
from typing import Any, Final

TEXT: Final = """\
import os
import subprocess

VAT = 1.19


def remove(name):
    try:
        os.system("rm " + name)
    except Exception:
        pass


def show(name):
    try:
        os.system("cat " + name)
    except Exception:
        pass


def total(items):
    result = 0
    for place in range(1, len(items)):
        result += items[place].price
    return result * VAT
"""
PATH: Final = "shop/tools.py"


def item(**changes: Any) -> dict[str, Any]:
    """A finding as a model writes it."""
    return {
        "rule": "command-injection",
        "severity": "high",
        "confidence": 0.9,
        "start_line": 9,
        "end_line": 9,
        "quote": 'os.system("rm " + name)',
        "message": "The name reaches a shell.",
        "suggestion": "Use os.remove(name).",
        **changes,
    }


def answer(*items: dict[str, Any]) -> str:
    """An answer with these findings."""
    return json.dumps({"findings": list(items)})
