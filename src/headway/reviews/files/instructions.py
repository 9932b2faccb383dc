"""What the reviewer of a file is told because of where the file is: `[[review.instructions]]`."""

from __future__ import annotations

from collections.abc import Iterable

from headway.config.settings import ReviewInstruction
from headway.reviews.files.path_patterns import PathPatterns


class Instructions:
    """The instructions of a tree. A wrong pattern raises at once."""

    def __init__(self, instructions: Iterable[ReviewInstruction]) -> None:
        self._texts = [(PathPatterns((one.path,)), one.text) for one in instructions]

    def of_file(self, path: str) -> str:
        """All texts whose pattern fits, in the order in which they were written; "" if none does."""
        return "\n\n".join(text for patterns, text in self._texts if patterns.matches(path))
