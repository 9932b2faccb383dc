"""A Python function of a file, as a tool: how a request names it, and what its worker gets."""

from __future__ import annotations

from typing import Final, NamedTuple

_RETRIED: Final = " (retried)"


class ToolFunction(NamedTuple):
    """A function of a file. `retried`: an exception that it raises is worth another attempt."""

    file: str
    function: str
    retried: bool = False

    @property
    def path(self) -> str:
        """As the path of a request."""
        return f"{self.file}:{self.function}{_RETRIED if self.retried else ''}"

    @classmethod
    def of_path(cls, path: str) -> ToolFunction:
        """The function that a request names."""
        file, _, function = path.removesuffix(_RETRIED).rpartition(":")
        return cls(file, function, path.endswith(_RETRIED))


def tool_payload(path: str, body: bytes) -> bytes:
    """What a worker gets for a unit: the path of the request, and its body."""
    return path.encode() + b"\0" + body
