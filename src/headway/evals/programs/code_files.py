"""References to functions in files: `file://graders.py:fluency`, `provider.js`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headway.config.settings import CodeLanguage

#: Endings of files, and their language.
LANGUAGES: Final[dict[str, CodeLanguage]] = {
    ".py": "python",
    ".js": "javascript",
    ".cjs": "javascript",
    ".mjs": "javascript",
    ".ts": "javascript",
    ".cts": "javascript",
    ".mts": "javascript",
}
_SCHEME: Final = "file://"


def code_file(reference: str, folder: Path) -> tuple[str, str]:
    """The absolute path and the function of `file://PATH[:FUNCTION]`; two empty texts if it is no such reference."""
    return split_file(reference.removeprefix(_SCHEME), folder) if reference.startswith(_SCHEME) else ("", "")


def split_file(text: str, folder: Path) -> tuple[str, str]:
    """The absolute path and the function of `PATH[:FUNCTION]`."""
    path, colon, function = text.rpartition(":")
    if not colon or Path(path).suffix not in LANGUAGES:
        path, function = text, ""
    return str((folder / Path(path).expanduser()).resolve()), function
