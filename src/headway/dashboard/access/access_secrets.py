"""The token of the dashboard, and what follows from it: the cookie of a browser and the secret that its requests must repeat.

The token has 256 bits, is printed once as a part of the URL, and is exchanged for the cookie. It is never an argument of a process and never
logged. All comparisons take the same time, wherever texts differ.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path
from typing import Final

from headway.config.trust import foreign
from headway.errors import UsageError
from headway.stores.files import FILE_MODE, readable_by_others

_BYTES: Final = 32
#: A token of a file: too long to be guessed.
_LEAST: Final = 32
_MOST: Final = 200
_CHARACTERS: Final = re.compile(r"[A-Za-z0-9_-]+")


class AccessSecrets:
    """The token and what is derived from it."""

    def __init__(self, token: str, port: int) -> None:
        self._token = token
        #: A browser sends cookies to every port of a host, so each dashboard has a name of its own.
        self.cookie_name = f"headway-{port}"
        self.cookie = _derived(token, "cookie")
        #: Every request that changes something repeats this in a header, which no other site can set or read.
        self.csrf = _derived(token, "csrf")

    def url(self, address: str) -> str:
        """The address with the token, to be printed once."""
        return f"{address}/?token={self._token}"

    def is_token(self, text: str) -> bool:
        return _same(text, self._token)

    def is_cookie(self, text: str) -> bool:
        return _same(text, self.cookie)

    def is_csrf(self, text: str) -> bool:
        return _same(text, self.csrf)


def new_token() -> str:
    """A token for one session."""
    return secrets.token_urlsafe(_BYTES)


def token_of_file(path: Path) -> str:
    """The token of a file, so that the URL stays the same. A file that is missing is made, readable by its owner only."""
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "w") as file:
            token = new_token()
            file.write(f"{token}\n")
            return token
    except FileExistsError:
        pass
    except OSError as error:
        raise UsageError(f"--token-file {path}: {(error.strerror or str(error)).lower()}") from error
    try:
        if reason := foreign(path, path.absolute().parent):
            raise UsageError(
                f"--token-file {path}: it {reason}, who may know it", hint="name a file of your own"
            )
        if readable_by_others(path):
            raise UsageError(f"--token-file {path}: other users can read it", hint=f"chmod 600 {path}")
        token = path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        raise UsageError(f"--token-file {path}: {(error.strerror or str(error)).lower()}") from error
    if not _LEAST <= len(token) <= _MOST or not _CHARACTERS.fullmatch(token):
        raise UsageError(
            f"--token-file {path}: a token has {_LEAST} to {_MOST} letters, digits, - and _",
            hint="remove the file: a good token is then written to it",
        )
    return token


def _derived(token: str, use: str) -> str:
    return hmac.new(token.encode(), f"headway dashboard {use}".encode(), hashlib.sha256).hexdigest()


def _same(text: str, secret: str) -> bool:
    return hmac.compare_digest(text.encode("utf-8", "surrogateescape"), secret.encode())
