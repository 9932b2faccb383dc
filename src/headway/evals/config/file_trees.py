"""A file of values as it is meant: merge keys (`<<`) and `$ref` replaced by what they name, variables put in.

A `$ref` names a part of the same file (`#/assertionTemplates/polite`), as a JSON pointer. Inside a JSON Schema it stays, if the file has no
such part: there it belongs to the schema.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from headway.config.yaml_file import DEEPEST, MOST_REPEATED, Marked
from headway.evals.config.source_file import SourceFile, read_config_tree

_MERGE: Final = "<<"
_REF: Final = "$ref"
#: Keys below which a JSON Schema may be.
_SCHEMAS: Final = frozenset(
    {"parameters", "input_schema", "schema", "json_schema", "value", "responseSchema", "items"}
)


def config_tree(source: SourceFile) -> Marked | None:
    """The configuration, before variables are put in."""
    tree = read_config_tree(source)
    return None if tree is None else _References(tree, source).resolved()


def file_tree(source: SourceFile) -> Marked | None:
    """A file that the configuration names."""
    tree = source.read_tree()
    if tree is None:
        return None
    return source.env.render_file(_References(tree, source).resolved(), source)


class _References:
    """Replaces the references of one file."""

    def __init__(self, tree: Marked, source: SourceFile) -> None:
        self._tree, self._source = tree, source
        self._added = 0

    def resolved(self) -> Marked:
        return self._value(self._tree, (), schema=False)

    def _value(self, node: Marked, trail: tuple[str, ...], *, schema: bool) -> Marked:
        if isinstance(node.value, list):
            return _copy(node, [self._value(one, trail, schema=schema) for one in node.value])
        if not isinstance(node.value, dict):
            return node
        if _MERGE in node.value:
            node = self._merged(node)
        if isinstance(node.value.get(_REF), Marked) and isinstance(node.value[_REF].value, str):
            return self._referred(node, trail, schema=schema)
        inner = {
            key: self._value(one, trail, schema=schema or key in _SCHEMAS) for key, one in node.value.items()
        }
        return _copy(node, inner)

    def _merged(self, node: Marked) -> Marked:
        """A mapping with the keys of those that `<<` names; its own keys win."""
        merge = node.value[_MERGE]
        sources = merge.value if isinstance(merge.value, list) else [merge]
        values: dict[str, Marked] = {}
        lines: dict[str, int] = {}
        for one in reversed(sources):
            if not isinstance(one.value, dict):
                self._source.error(merge.line, "'<<' needs a mapping, or a list of them")
                continue
            one = self._merged(one) if _MERGE in one.value else one
            values |= one.value
            lines |= one.key_lines
        own = {key: value for key, value in node.value.items() if key != _MERGE}
        result = Marked({**values, **own}, node.line)
        result.key_lines = {**lines, **{key: line for key, line in node.key_lines.items() if key != _MERGE}}
        return result

    def _referred(self, node: Marked, trail: tuple[str, ...], *, schema: bool) -> Marked:
        pointer = str(node.value[_REF].value)
        line = node.value[_REF].line
        found = self._part(pointer)
        if found is None and schema:
            return node
        if found is None:
            self._source.error(line, f"$ref: '{pointer}' is not in this file", "write '#/KEY/NAME'")
            return Marked(None, node.line)
        self._added += found.size
        if pointer in trail or len(trail) > DEEPEST or self._added > MOST_REPEATED * 10:
            self._source.error(line, f"$ref: '{pointer}' repeats without end")
            return Marked(None, node.line)
        result = self._value(found, (*trail, pointer), schema=schema)
        others = {key: value for key, value in node.value.items() if key != _REF}
        if others and isinstance(result.value, dict):
            lines = {**result.key_lines, **node.key_lines}
            result = Marked({**result.value, **others}, node.line)
            result.key_lines = lines
        return result

    def _part(self, pointer: str) -> Marked | None:
        if not pointer.startswith("#"):
            return None
        node = self._tree
        for part in filter(None, pointer[1:].split("/")):
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node.value, dict) and key in node.value:
                node = node.value[key]
            elif isinstance(node.value, list) and key.isdecimal() and int(key) < len(node.value):
                node = node.value[int(key)]
            else:
                return None
        return node


def _copy(node: Marked, value: object) -> Marked:
    result = Marked(value, node.line)
    result.key_lines, result.size = node.key_lines, node.size
    return result
