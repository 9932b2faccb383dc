"""What every API's request comes down to, and how its tokens are counted: characters ÷ 4, rounded up."""

from __future__ import annotations

from dataclasses import dataclass

CHARS_PER_TOKEN = 4


class InvalidRequest(Exception):
    """A request that the vendor would answer with 400; `param` is the field that it names."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


@dataclass(slots=True)
class ApiRequest:
    """One request, whichever API it came by."""

    model: str
    #: Characters of all its texts.
    chars: int
    #: What the answer echoes: the texts of the last message.
    last_text: str
    #: The text of the first user message, where it is not the last one too, and how many answers came since.
    opening: str | None = None
    turn: int = 0
    max_tokens: int | None = None
    stream: bool = False
    include_usage: bool = False
    #: Whether the last message is a tool's result.
    after_tool: bool = False
    tools: tuple[str, ...] = ()
    #: How the client names this unit of work, where it does.
    unit: str = ""
    choices: int = 1
    #: What only its own API knows to use.
    extra: object = None

    @property
    def input_tokens(self) -> int:
        """Characters of all texts ÷ 4, rounded up."""
        return tokens_of(self.chars)


def tokens_of(chars: int) -> int:
    """How many tokens so many characters are."""
    return -(-chars // CHARS_PER_TOKEN)
