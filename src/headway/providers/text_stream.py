"""The text of an answer while it arrives: piece by piece, without secrets.

A secret may be cut into pieces. So an end of the text that may be the beginning of a secret waits for the next piece.
"""

from __future__ import annotations

from headway.providers.adapter import OnText
from headway.providers.scrubber import Scrubber


class TextStream:
    """Passes pieces of a text on to `on_text`."""

    def __init__(self, scrub: Scrubber, on_text: OnText) -> None:
        self._scrub, self._on_text = scrub, on_text
        self._held = ""

    def add(self, piece: str) -> None:
        """The next piece."""
        text = self._held + piece
        cut = len(text) - self._scrub.unfinished(text)
        self._held = text[cut:]
        if cut:
            self._on_text(self._scrub.text(text[:cut]))

    def end(self) -> None:
        """The text is complete: what was held back is no secret."""
        held, self._held = self._held, ""
        if held:
            self._on_text(held)
