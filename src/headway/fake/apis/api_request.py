"""A request of any API, and how its tokens are counted: characters ÷ 4, rounded up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.fake.apis.answer_format import AnswerFormat

CHARS_PER_TOKEN = 4


class InvalidRequest(Exception):
    """A request that the vendor would answer with 400; `param` is the field that the message names."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


@dataclass(slots=True)
class ApiRequest:
    """One request of any API."""

    model: str
    #: Characters of all texts.
    chars: int
    #: The text of the last message, which the answer echoes.
    last_text: str
    #: In a conversation of several messages: all texts of the user, and the number of answers so far.
    said: str | None = None
    turn: int = 0
    max_tokens: int | None = None
    stream: bool = False
    include_usage: bool = False
    #: Whether the last message is the result of a tool.
    after_tool: bool = False
    tools: tuple[str, ...] = ()
    #: The client's name for this unit of work, if it gives one.
    unit: str = ""
    choices: int = 1
    #: The JSON that the answer must be; None: any text.
    wanted: AnswerFormat | None = None
    #: For the use of the API that parsed it.
    extra: object = None

    @property
    def user_text(self) -> str:
        """All texts of the user. Agents put texts of their own before or after the prompt."""
        return self.last_text if self.said is None else self.said

    @property
    def input_tokens(self) -> int:
        """Characters of all texts ÷ 4, rounded up."""
        return tokens_of(self.chars)


def tokens_of(chars: int) -> int:
    """The number of tokens in a text of so many characters."""
    return -(-chars // CHARS_PER_TOKEN)
