"""What goes in and what comes out: `Seen` is all that is known of an answer, `Facts` what it means.

Plain records without behaviour.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from headway.core.model import Hint, Kind

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
NO_HINT: Final = Hint()


class Seen(msgspec.Struct, frozen=True):
    """Everything an attempt got back.

    `http`: status, headers and the body as it came. `exception`: the same as far as the exception carries them, and
    its text, best with the type's name in front ("httpx.ReadTimeout: …"); an exception is a failure even where the
    status is 200, as when the body broke off. `cli`: the body is the program's standard output, of which only
    structured error fields are read, and the text is what it said about a failure: standard error, or standard
    output where the program failed and writes plain text. `status` is an HTTP status, never an exit code.
    """

    status: int | None = None
    headers: Mapping[str, str] = NO_HEADERS
    body: bytes | str | None = None
    text: str = ""
    origin: Literal["http", "exception", "cli"] = "http"


class Facts(msgspec.Struct, frozen=True):
    """What it means. `kind` is None for a success; `code` is the provider's own word for the trouble, if it has one."""

    kind: Kind | None
    hint: Hint = NO_HINT
    message: str = ""
    code: str = ""
    #: The server has no such path: the address is wrong, not the key or the model.
    wrong_path: bool = False
