"""The check that a text must pass."""

from __future__ import annotations

from typing import Any

MOST_WORDS = 40


def main(call: dict[str, Any]) -> dict[str, Any]:
    """Whether the text is short enough, and what is wrong with it."""
    words = len(call["state"]["text"].split())
    message = "good" if words <= MOST_WORDS else f"{words} words; at most {MOST_WORDS} are wanted"
    return {"report": {"passed": words <= MOST_WORDS, "message": message}}
