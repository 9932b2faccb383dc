"""Recognises that an agent CLI refused its command line: such a run fails the same way each time, and is not tried again.

The wordings are those of commander (Claude Code), clap (Codex) and yargs (Gemini CLI, OpenCode), at the beginning of a line. Other
words on standard error are noise: warnings, logs, failed requests.
"""

from __future__ import annotations

import re
from typing import Final

#: A command line is refused before anything else happens; a loaded machine starts a program within this time.
SOON_S: Final = 30.0
#: Characters of standard error that are read.
_READ: Final = 8_192

_WORDINGS: Final = re.compile(
    r"^(?:error: )?(?:"
    r"unknown option '?-|unknown command '|option '[^'\n]+' argument '[^\n]*' is invalid|option '[^'\n]+' argument missing|"
    r"unexpected argument '|invalid value '|invalid value for '?-|a value is required for '|unrecognized subcommand '|"
    r"the argument '[^\n]+' cannot be used with|"
    r"unknown arguments?: |invalid values:|not enough arguments following: |missing required arguments?: "
    r")",
    re.IGNORECASE | re.MULTILINE,
)
#: OpenCode prints its help and no reason.
_HELP: Final = re.compile(r"^options:\s*\n(?:.*\n){0,40}?\s+(?:-h, )?--help\b", re.IGNORECASE | re.MULTILINE)
#: These go on in the next line: the values that are possible.
_MORE: Final = re.compile(r"\s*(?:\[possible values|argument: |allowed choices)", re.IGNORECASE)


def usage_error(stderr: bytes) -> str:
    """What the program says of its command line; "" if it was not refused."""
    text = stderr[:_READ].decode("utf-8", errors="replace")
    found = _WORDINGS.search(text)
    if found is not None:
        lines = text[found.start() :].splitlines()
        more = next((line for line in lines[1:3] if _MORE.match(line)), "")
        return f"{lines[0].strip()} {more.strip()}".strip()
    return "it printed its help instead of running" if _HELP.search(text) else ""
