"""One call of code: what a request says, and what a worker gets. The form is the same for Python and for JavaScript."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

#: What the code is for. It decides which function of a file is called, and what it must return.
CodeRole = Literal["assertion", "transform", "vars", "variable", "response", "request", "provider"]

#: The function of a Python file where none is named.
USUAL_FUNCTIONS: Final[dict[CodeRole, str]] = {
    "assertion": "get_assert",
    "transform": "get_transform",
    "vars": "get_transform",
    "variable": "get_var",
    "response": "get_transform",
    "request": "get_transform",
    "provider": "call_api",
}


class CodeCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call of a function in a file, or of code that is `source`. The names of `arguments` are the names that the code knows.

    `version` changes with the content of the file: a changed file makes another request.
    """

    role: CodeRole
    arguments: dict[str, Any]
    file: str = ""
    function: str = ""
    source: str = ""
    version: str = ""

    @property
    def place(self) -> str:
        """For messages."""
        return self.file or f"the code of this {_NOUNS[self.role]}"


_NOUNS: Final[dict[CodeRole, str]] = {
    "assertion": "assertion",
    "transform": "transform",
    "vars": "transformVars",
    "variable": "variable",
    "response": "transformResponse",
    "request": "transformRequest",
    "provider": "provider",
}

encode_call: Final = msgspec.json.Encoder().encode
decode_call: Final = msgspec.json.Decoder(CodeCall).decode


def returned_nothing(role: CodeRole) -> str:
    """The message for a call without a value."""
    return f"the code of this {_NOUNS[role]} returned nothing"
