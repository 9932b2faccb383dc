"""Code of a configuration: transforms, and the values of python and javascript assertions."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Final

import msgspec

from headway.config.yaml_file import Marked
from headway.evals.config.file_trees import file_tree
from headway.evals.config.source_file import SCHEME, SourceFile, split_function
from headway.evals.spec import Code, CodeLanguage

_LANGUAGES: Final[dict[str, CodeLanguage]] = {
    ".py": "python", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
}  # fmt: skip
_TYPESCRIPT: Final = (".ts", ".mts", ".cts", ".tsx")
_TREES: Final = (".json", ".yaml", ".yml")


def language_of(name: str) -> CodeLanguage | None:
    """The language of a file by its name, which may end with `:FUNCTION`."""
    return _LANGUAGES.get(PurePath(split_function(name)[0]).suffix)


def is_code_file(name: str) -> bool:
    """Whether a name is that of a file with code, of any language."""
    suffix = PurePath(split_function(name)[0]).suffix
    return suffix in _LANGUAGES or suffix in _TYPESCRIPT or suffix == ".rb"


def read_code(
    node: Marked, place: str, source: SourceFile, language: CodeLanguage = "javascript"
) -> Code | None:
    """Code in the file itself, which is of this language, or a file with a function; None after an error was reported."""
    text = node.value
    if not isinstance(text, str) or not text.strip():
        source.error(node.line, f"{place}: expected code, or file://NAME")
        return None
    if text.startswith("package:"):
        source.refuse(node.line, place, "packages are not loaded", "name a file: file://NAME.js")
        return None
    if not text.startswith(SCHEME):
        return Code(language, source=text)
    name, function = split_function(text)
    found = language_of(name)
    if found is None:
        why = (
            "TypeScript is not run"
            if name.endswith(_TYPESCRIPT)
            else "this is no file of Python or JavaScript"
        )
        source.refuse(node.line, place, why, "name a .js or .py file")
        return None
    path = source.find(name, node.line, place)
    return None if path is None else Code(found, path, function)


def read_value_file(name: str, line: int, place: str, source: SourceFile) -> Any:
    """The content of a file that stands for a value: YAML and JSON as values, all else as text. None after an error."""
    if is_code_file(name):
        source.refuse(
            line, place, "a value is not computed by code", "write the value, or a python assertion"
        )
        return None
    path = source.find(name, line, place)
    inner = None if path is None else source.inner(path, line)
    if inner is None:
        return None
    if inner.path.suffix in _TREES:
        tree = file_tree(inner)
        return None if tree is None else tree.plain()
    text = inner.read_text()
    return None if text is None else source.env.text(text.strip(), line, source)


def with_files(value: Any, line: int, place: str, source: SourceFile) -> Any:
    """A value in which every text `file://NAME` is replaced by the content of the file."""
    if isinstance(value, str) and value.startswith(SCHEME):
        return read_value_file(value, line, place, source)
    if isinstance(value, dict):
        return {key: with_files(one, line, f"{place}.{key}", source) for key, one in value.items()}
    if isinstance(value, list):
        return [with_files(one, line, place, source) for one in value]
    return value


def read_rubric(node: Marked, place: str, source: SourceFile) -> str:
    """A rubric prompt: a text, messages as JSON text, or the content of a file."""
    value = with_files(node.plain(), node.line, place, source)
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()
