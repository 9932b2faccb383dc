"""`.env`: lines of `KEY=value`, read for keys. Its values are secrets: no message repeats one.

    # a comment
    export ALPHA_KEY=abc          # a comment after a space
    BETA_KEY="with \\"quotes\\" and a # that is no comment"
    GAMMA_KEY='taken literally'

No interpolation, no values over several lines. Of two equal names the last counts.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from headway.config.trust import user_name
from headway.errors import ConfigError
from headway.lazy_pattern import lazy_pattern

#: Permission bits of the group and of other users.
_OTHERS: Final = stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH
#: What each of them allows, the worst first.
_WHO: Final = {
    stat.S_IWOTH: "every user can write",
    stat.S_IROTH: "every user can read",
    stat.S_IWGRP: "its group can write",
    stat.S_IRGRP: "its group can read",
}
_LINE: Final = lazy_pattern(
    r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*)", re.ASCII | re.DOTALL
)
_QUOTED: Final = lazy_pattern(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"")
_ESCAPE: Final = lazy_pattern(r"\\(.)")
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}
_COMMENT: Final = lazy_pattern(r"[ \t]#|^#")


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of a file; none if there is no file (or `.env` is a directory: a virtual environment)."""
    if not os.path.isfile(path):
        return {}
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text file", hint="write it in UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    return parse_env(text, str(path))


def exposed(path: Path) -> tuple[str, str] | None:
    """Why other users can read or change the keys in a file, and what to do; None if they cannot, or there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    if status.st_uid != os.geteuid():
        return (
            f"{path} belongs to another user ({user_name(status.st_uid)}), who can read your keys",
            "make it your own",
        )
    if not status.st_mode & _OTHERS:
        return None
    who = next(who for bit, who in _WHO.items() if status.st_mode & bit)
    return f"{path} holds keys, and {who} it (mode {stat.S_IMODE(status.st_mode):03o})", f"chmod 600 {path}"


def parse_env(text: str, name: str) -> dict[str, str]:
    """The variables of a text. `name` is its name in errors."""
    variables = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        parts = _LINE.fullmatch(line)
        if parts is None:
            raise ConfigError(f"{name}:{number}: expected KEY=value")
        try:
            variables[parts[1]] = _value(parts[2])
        except ValueError as error:
            raise ConfigError(f"{name}:{number}: {parts[1]}: {error}") from None
    return variables


def _value(text: str) -> str:
    if not text.startswith(("'", '"')):
        comment = _COMMENT.search(text)
        return (text[: comment.start()] if comment else text).rstrip()
    quoted = _QUOTED.match(text)
    if quoted is None:
        raise ValueError("the quote is not closed on its line")
    rest = text[quoted.end() :].strip()
    if rest and not rest.startswith("#"):
        raise ValueError("unexpected text after the closing quote")
    if quoted[1] is not None:
        return quoted[1]
    return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), quoted[2])
