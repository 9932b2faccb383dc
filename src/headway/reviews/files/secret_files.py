"""Files that are there to hold keys, by their names or their first line. They are left out, because a review sends a file to a provider.

A key in the middle of a program is not found here: such a file is reviewed, and the key is a finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headway.lazy_pattern import lazy_pattern

_REASON: Final = "may hold keys: it is sent only if you name it"
_NAMES: Final = frozenset(
    {
        ".envrc", ".netrc", "_netrc", ".pgpass", ".pypirc", ".git-credentials", ".htpasswd",
        "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519",
    }
)  # fmt: skip
_ENDS: Final = (".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".ppk")
#: `.env.example` shows how to write an `.env`.
_EXAMPLES: Final = (".example", ".sample", ".template", ".dist", ".md")
_PRIVATE_KEY: Final = lazy_pattern(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY")


def secret_name_reason(path: str) -> str:
    """Why a file is left out by its name; "" if it is not."""
    name = path.rpartition("/")[2].lower()
    return _REASON if name in _NAMES or name.endswith(_ENDS) or _is_environment(name) else ""


def secret_text_reason(lines: Sequence[str]) -> str:
    """Why a file is left out by its first line; "" if it is not."""
    return "a private key: it is sent only if you name it" if _PRIVATE_KEY.match(lines[0]) else ""


def _is_environment(name: str) -> bool:
    """`.env`, `.env.local`, `prod.env`."""
    return (name.startswith(".env.") or name.endswith(".env")) and not name.endswith(_EXAMPLES)
