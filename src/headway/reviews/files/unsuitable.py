"""Files and folders that are left out although they are text: lock files, generated, minified and vendored code, reports, keys.

Each is recognised by its name or by its own words. A file that the user names is reviewed all the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from headway.lazy_pattern import lazy_pattern
from headway.reviews.files.own_reports import is_own_report
from headway.reviews.files.secret_files import secret_name_reason, secret_text_reason

#: Folders of git and of Headway. They are no part of the tree, and are not listed.
OWN_FOLDERS: Final = frozenset({".git", ".hg", ".svn", ".jj", ".headway"})
#: Folders with the code of others, or with what tools keep.
_VENDORED: Final = frozenset(
    {
        "node_modules", "bower_components", "jspm_packages", "vendor", "third_party", "site-packages", "Pods", "Carthage",
        ".venv", "venv", "virtualenv", ".tox", ".nox", ".eggs", "__pycache__", "__pypackages__",
        ".mypy_cache", ".pytest_cache", ".ruff_cache", ".gradle", ".terraform", ".yarn", ".next", ".nuxt",
    }
)  # fmt: skip
_LOCK_FILES: Final = frozenset(
    {
        "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "deno.lock", "cargo.lock",
        "poetry.lock", "uv.lock", "pdm.lock", "pipfile.lock", "requirements.lock", "gemfile.lock", "composer.lock",
        "go.sum", "go.work.sum", "flake.lock", "mix.lock", "pubspec.lock", "podfile.lock", "packages.lock.json",
        "gradle.lockfile", ".terraform.lock.hcl", "conan.lock",
    }
)  # fmt: skip
_GENERATED_ENDS: Final = (
    "_pb2.py", "_pb2.pyi", "_pb2_grpc.py", ".pb.go", ".pb.cc", ".pb.h", ".pb.ts", "_pb.js", "_pb.d.ts", ".g.dart",
    ".freezed.dart", ".designer.cs", ".g.cs", ".snap",
)  # fmt: skip
_MINIFIED_ENDS: Final = (".min.js", ".min.mjs", ".min.css", ".js.map", ".css.map", ".mjs.map", "-min.js")
#: Generators say what they are in the first comment.
_HEAD_LINES: Final = 40
_COMMENT: Final = lazy_pattern(r"\s*(?:#|//|/\*|\*|--|;|<!--|%|'|\"\"\"|\{-|\(\*|REM\b|dnl\b)")
_GENERATED: Final = lazy_pattern(
    r"(?<![\w@])@generated\b"
    r"|\bgenerated\b.*\bdo not (?:edit|modify|change)\b|\bdo not (?:edit|modify|change)\b.*\bgenerated\b"
    r"|\bthis (?:file|code|module) (?:is|was|has been) (?:automatically |auto-?|machine[- ])?generated\b",
    re.IGNORECASE,
)
_SCRIPTS: Final = (".js", ".mjs", ".cjs", ".css", ".html", ".htm", ".svg", ".json")
#: Programs written by people have 30 to 40 characters a line; minified ones have thousands.
_LONG_LINES: Final = 500
#: A shorter script is reviewed all the same.
_SHORT_SCRIPT: Final = 5_000


def folder_reason(name: str) -> str:
    """Why a folder is left out; "" if it is not."""
    return "vendored: the code of others, or files of a tool" if name in _VENDORED else ""


def name_reason(path: str) -> str:
    """Why a file is left out by its name; "" if it is not."""
    name = path.rpartition("/")[2].lower()
    if name in _LOCK_FILES:
        return "a lock file"
    if name.endswith(_GENERATED_ENDS):
        return f"generated: files that end in {_end(name, _GENERATED_ENDS)}"
    if name.endswith(_MINIFIED_ENDS):
        return "minified"
    return secret_name_reason(name)


def text_reason(path: str, lines: Sequence[str]) -> str:
    """Why a file is left out by its text; "" if it is not."""
    if is_own_report(path, lines):
        return "a report of a review"
    if reason := secret_text_reason(lines):
        return reason
    head = lines[:_HEAD_LINES]
    if "generated" in "\n".join(head).lower():
        for number, line in enumerate(head, 1):
            if _COMMENT.match(line) and _GENERATED.search(line):
                return f"generated: line {number} says so"
    chars = sum(map(len, lines))
    if path.lower().endswith(_SCRIPTS) and chars > max(_SHORT_SCRIPT, _LONG_LINES * len(lines)):
        return f"minified: over {_LONG_LINES} characters a line"
    return ""


def _end(name: str, ends: tuple[str, ...]) -> str:
    return next(end for end in ends if name.endswith(end))
