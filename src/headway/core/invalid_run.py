"""Invalid answers in a row with the same message: they are about a lane's settings, not about its units."""

from __future__ import annotations


class InvalidRun:
    """Of one lane. Any other answer ends it."""

    __slots__ = ("count", "message", "since")

    def __init__(self) -> None:
        self.count = 0
        self.message = ""
        #: The number of the lane's last send when the first of them came back.
        self.since = 0

    def add(self, message: str, sent: int) -> None:
        """One more; `sent` is the number of the lane's last send."""
        if message != self.message or not self.count:
            self.message, self.count, self.since = message, 0, sent
        self.count += 1

    def clear(self) -> None:
        """The lane did its part."""
        self.count = 0
