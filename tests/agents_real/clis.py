"""Finds the real agent CLIs, and says what to install if they are missing.

`make clis` installs the versions of package.json into a folder of the user's cache, whose name is a hash of that file: all
checkouts of the same versions share it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from bench.servers import installed

PACKAGE: Final = Path(__file__).with_name("package.json")
#: CI sets it: there a missing program fails the tests instead of skipping them.
REQUIRED: Final = "HEADWAY_REQUIRE_CLIS"


def folder() -> Path:
    """Where `make clis` puts the programs."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    name = hashlib.sha256(PACKAGE.read_bytes()).hexdigest()[:12]
    return Path(cache) / "headway-clis" / name


def programs() -> Path:
    """The folder with `claude`, `codex`, `gemini`, `opencode` and `node`."""
    return folder() / "node_modules" / ".bin"


def missing() -> str:
    """Why the CLIs cannot be run; empty if they can."""
    absent = [
        name for name in ("claude", "codex", "gemini", "opencode", "node") if not (programs() / name).exists()
    ]
    if absent:
        return (
            f"{', '.join(absent)}: not installed. Node's npm and `make clis` install what is needed (1.4 GB)"
        )
    return (
        "" if installed.namespaces() else "no network namespaces here: real CLIs must not reach the network"
    )
