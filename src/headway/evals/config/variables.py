"""`vars` of a test: values, lists and files.

In the result a list is a dimension of the matrix. promptfoo takes a list for one only if its first item is a text; any other list is one
value, and is here the only item of a list. A file or pattern stands for the contents of its files, one each.
"""

from __future__ import annotations

import base64
import mimetypes
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.config.yaml_file import Marked
from headway.evals.config.code_values import is_code_file, read_code
from headway.evals.config.file_trees import file_tree
from headway.evals.config.key_sections import kind_of_value
from headway.evals.config.source_file import SCHEME, SourceFile
from headway.evals.spec import Code

#: In bytes. An image of this size makes a request of 13 MB.
LARGEST_IMAGE: Final = 10_000_000
_IMAGES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".svg", ".avif")
_MEDIA: Final = (".mp3", ".wav", ".m4a", ".ogg", ".flac", ".mp4", ".mov", ".webm", ".avi", ".mkv", ".pdf")


def read_vars(node: Marked, place: str, source: SourceFile) -> dict[str, Any]:
    """The variables of a test. A text, or a list of texts, names files with variables."""
    if isinstance(node.value, dict):
        return {
            name: read_variable(inner, f"{place}.{name}", source)
            for name, inner in node.value.items()
            if inner.value is not None and not is_computed(inner)
        }
    names = node.value if isinstance(node.value, list) else [node]
    result: dict[str, Any] = {}
    for one in names:
        if not isinstance(one.value, str):
            what = kind_of_value(one.value)
            source.error(one.line, f"{place}: expected a mapping, or the names of files with one, not {what}")
            continue
        for path in source.matching(one.value, one.line, place):
            inner = source.inner(path, one.line)
            tree = None if inner is None else file_tree(inner)
            if inner is not None and tree is not None:
                if isinstance(tree.value, dict):
                    result |= read_vars(tree, "vars", inner)
                else:
                    inner.error(tree.line, f"expected a mapping, not {kind_of_value(tree.value)}")
    return result


def is_computed(node: Marked) -> bool:
    """Whether the value of a variable is a file with code."""
    return isinstance(node.value, str) and node.value.startswith(SCHEME) and is_code_file(node.value)


def read_computed(node: Marked, place: str, source: SourceFile) -> dict[str, Code]:
    """The variables of a test that functions compute."""
    nodes = node.value.items() if isinstance(node.value, dict) else ()
    read = {name: read_code(one, f"{place}.{name}", source) for name, one in nodes if is_computed(one)}
    return {name: code for name, code in read.items() if code is not None}


def read_variable(node: Marked, place: str, source: SourceFile) -> Any:
    """One variable: a list is a dimension."""
    value = node.value
    if isinstance(value, str):
        return text_variable(value, node.line, place, source)
    if not isinstance(value, list):
        return node.plain()
    if not value or not isinstance(value[0].value, str):
        return [node.plain()]
    items: list[Any] = []
    for one in value:
        item = read_variable(one, place, source) if isinstance(one.value, str) else one.plain()
        items += item if isinstance(item, list) and isinstance(one.value, str) else [item]
    return items


def text_variable(text: str, line: int, place: str, source: SourceFile) -> Any:
    """A text as it is, or the contents of the files that it names."""
    if text.startswith("package:"):
        source.refuse(line, place, "packages are not loaded", "write the value into a file")
        return ""
    if not text.startswith(SCHEME):
        return text
    if is_code_file(text):
        source.refuse(
            line, place, "only a variable of a test is computed by code", "write its values into a file"
        )
        return ""
    contents = [_content(path, line, place, source) for path in source.matching(text, line, place)]
    return contents[0] if len(contents) == 1 else contents


def _content(path: Path, line: int, place: str, source: SourceFile) -> str:
    """The content of a file as the value of a variable: text, YAML as JSON, an image as a data: address."""
    suffix = path.suffix.lower()
    if suffix in _MEDIA:
        source.refuse(line, place, f"files like '{path.name}' are not sent", "write its text into a file")
        return ""
    if suffix in _IMAGES:
        return _image(path, line, place, source)
    inner = source.inner(path, line)
    if inner is None:
        return ""
    if suffix in (".yaml", ".yml"):
        tree = file_tree(inner)
        return "" if tree is None else msgspec.json.encode(tree.plain()).decode()
    return (inner.read_text() or "").strip()


def _image(path: Path, line: int, place: str, source: SourceFile) -> str:
    try:
        if path.stat().st_size > LARGEST_IMAGE:
            source.error(line, f"{place}: '{path.name}' is larger than {LARGEST_IMAGE // 1_000_000} MB")
            return ""
        data = path.read_bytes()
    except OSError as error:
        source.error(line, f"{place}: '{path.name}' cannot be read: {(error.strerror or str(error)).lower()}")
        return ""
    media = mimetypes.guess_type(path.name)[0] or "image/jpeg"
    return f"data:{media};base64,{base64.b64encode(data).decode()}"
