"""Joins the chapters."""

from __future__ import annotations

from typing import Any


def main(call: dict[str, Any]) -> str:
    """The pages, in the order of the chapters."""
    return "\n\n".join(str(page) for page in call["state"]["pages"])
