"""What of the folder does not travel to the nodes. Ray packs everything else, and follows links wherever they lead.

The patterns are those of .gitignore. Ray itself leaves out what .gitignore and .rayignore files name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

#: What never travels: secrets, our records, what is large and of no use on another machine.
NEVER: Final = (
    ".env", ".env.*", "*.env", ".envrc", ".headway/", ".git/", ".hg/", ".venv/", "venv/", "__pycache__/", "node_modules/",
    "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "credentials.json",
    ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".aws/", ".azure/", ".config/", ".docker/", ".gnupg/", ".kube/",
    ".ssh/", ".claude/", ".codex/", ".gemini/", ".ray/", "*.db", "*.db-wal", "*.db-shm", "*.headway-lock",
    ".mypy_cache/", ".pytest_cache/", ".ruff_cache/",
)  # fmt: skip
#: Characters that mean something in a pattern.
_SPECIAL: Final = re.compile(r"([*?\[\]!#\\ ])")


def left_out(root: str, exclude: tuple[str, ...]) -> list[str]:
    """The patterns of what stays here: what never travels, what the user excludes, and links that would bring other files along."""
    return [*NEVER, *exclude, *_links(os.path.realpath(root))]


def _links(root: str) -> Iterator[str]:
    """Links to folders, which may lead anywhere or in a circle, and to files that do not travel by themselves."""
    for folder, names, files in os.walk(root):
        for name in [*names, *files]:
            path = os.path.join(folder, name)
            if os.path.islink(path) and not _is_welcome(path, root):
                yield "/" + _SPECIAL.sub(r"\\\1", os.path.relpath(path, root))
        names[:] = [name for name in names if not _never(name)]


def _is_welcome(link: str, root: str) -> bool:
    target = os.path.realpath(link)
    if os.path.isdir(target) or not target.startswith(os.path.join(root, "")):
        return False
    return not any(map(_never, os.path.relpath(target, root).split(os.sep)))


def _never(name: str) -> bool:
    return any(fnmatchcase(name, pattern.rstrip("/")) for pattern in NEVER)
