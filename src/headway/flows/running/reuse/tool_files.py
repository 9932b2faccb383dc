"""Which files a tool consists of, and the digests of their contents.

A tool is its own file and the files beside it that it names as code, and those that these name in turn:

- of a Python file: the modules and packages in its folder that it imports, anywhere in the file;
- of a JavaScript file: what it imports or requires by a relative path.

Installed packages, data that a tool opens and what a program calls are not part of it. Nothing is run, and a file that cannot be parsed names
no others.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

#: Files of one tool. A folder that is a whole program is taken up to here.
MOST_FILES: Final = 2_000
_DIGEST_BYTES: Final = 16
_SCRIPTS: Final = (".mjs", ".js", ".cjs")
_RELATIVE: Final = re.compile(
    rb"""(?:\bfrom|\bimport|\brequire\s*\(|\bimport\s*\()\s*["'](\.{1,2}/[^"'\n]+)["']"""
)


def tool_files(impl: Path) -> dict[str, str]:
    """The digest of each file of a tool, by its path relative to the folder of the tool, sorted. Raises OSError if the tool is gone."""
    folder = impl.parent
    contents: dict[Path, bytes] = {impl: impl.read_bytes()}
    queue = [impl]
    while queue and len(contents) < MOST_FILES:
        path = queue.pop()
        for other in _named_by(path, contents[path], folder):
            if other not in contents:
                contents[other] = other.read_bytes()
                queue.append(other)
    return {_name(path, folder): _digest(content) for path, content in sorted(contents.items())}


def _named_by(path: Path, content: bytes, folder: Path) -> Iterator[Path]:
    if path.suffix == ".py":
        for name, level in _imports(content):
            yield from _modules(name, _base(path, level, folder))
    elif path.suffix in _SCRIPTS:
        for match in _RELATIVE.finditer(content):
            found = path.parent / match[1].decode(errors="replace")
            yield from (one for one in (found, *map(found.with_suffix, _SCRIPTS)) if one.is_file())


def _base(path: Path, level: int, folder: Path) -> Path:
    """The folder in which a name is looked up. An absolute one is looked up where the tool is."""
    return folder if level == 0 else path.parents[min(level, len(path.parents)) - 1]


@lru_cache(512)
def _imports(content: bytes) -> frozenset[tuple[str, int]]:
    """What a Python file imports: names, each with the dots before it."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    found: set[tuple[str, int]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(alias.name, 0) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            prefix = f"{node.module}." if node.module else ""
            found |= {(prefix + alias.name, node.level) for alias in node.names}
            if node.module:
                found.add((node.module, node.level))
    return frozenset(found)


def _modules(name: str, base: Path) -> Iterator[Path]:
    """The files of a module and of the packages around it, as far as they are below `base`."""
    path = base
    for part in name.split("."):
        path = path / part
        for file in (path.with_name(f"{part}.py"), path / "__init__.py"):
            if part.isidentifier() and file.is_file():
                yield file


def _name(path: Path, folder: Path) -> str:
    try:
        return path.relative_to(folder).as_posix()
    except ValueError:
        return path.as_posix()


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()
