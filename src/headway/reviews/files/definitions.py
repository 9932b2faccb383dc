"""Where the definitions of a file begin, by tree-sitter. A comment, decorator or attribute right above a definition belongs to it.

A grammar is loaded when a file of its language is too long for one request. Files of other languages have no definitions here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec

from headway.errors import UsageError
from headway.install_hint import install_command

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

#: Definitions of the file, and definitions inside of them.
OUTER, INNER = 0, 1


class Grammar(msgspec.Struct, frozen=True):
    """A grammar's package, its function, and the nodes that are definitions."""

    package: str
    definitions: frozenset[str]
    function: str = "language"


#: Definitions only outside of functions: inside they are statements and types of variables.
_OUTER_ONLY: Final = frozenset(
    {
        "lexical_declaration", "variable_declaration", "struct_specifier", "union_specifier", "enum_specifier",
        "type_definition", "type_declaration",
    }
)  # fmt: skip
_SCRIPT: Final = frozenset(
    {
        "function_declaration", "generator_function_declaration", "class_declaration", "abstract_class_declaration",
        "interface_declaration", "type_alias_declaration", "enum_declaration", "internal_module", "module",
        "export_statement", "method_definition", "ambient_declaration", *_OUTER_ONLY,
    }
)  # fmt: skip
_PYTHON: Final = Grammar(
    "tree_sitter_python", frozenset({"function_definition", "class_definition", "decorated_definition"})
)
_JAVASCRIPT: Final = Grammar("tree_sitter_javascript", _SCRIPT)
_TYPESCRIPT: Final = Grammar("tree_sitter_typescript", _SCRIPT, "language_typescript")
_TSX: Final = Grammar("tree_sitter_typescript", _SCRIPT, "language_tsx")
_GO: Final = Grammar(
    "tree_sitter_go", frozenset({"function_declaration", "method_declaration", "type_declaration"})
)
_RUST: Final = Grammar(
    "tree_sitter_rust",
    frozenset(
        {
            "function_item", "impl_item", "struct_item", "enum_item", "union_item", "trait_item", "mod_item",
            "macro_definition",
        }
    ),
)  # fmt: skip
_JAVA: Final = Grammar(
    "tree_sitter_java",
    frozenset(
        {
            "class_declaration", "interface_declaration", "enum_declaration", "record_declaration",
            "annotation_type_declaration", "method_declaration", "constructor_declaration",
        }
    ),
)  # fmt: skip
_C: Final = Grammar(
    "tree_sitter_c",
    frozenset(
        {"function_definition", "struct_specifier", "union_specifier", "enum_specifier", "type_definition"}
    ),
)
_GRAMMARS: Final[Mapping[str, Grammar]] = {
    "py": _PYTHON, "pyi": _PYTHON,
    "js": _JAVASCRIPT, "mjs": _JAVASCRIPT, "cjs": _JAVASCRIPT, "jsx": _JAVASCRIPT,
    "ts": _TYPESCRIPT, "mts": _TYPESCRIPT, "cts": _TYPESCRIPT, "tsx": _TSX,
    "go": _GO, "rs": _RUST, "java": _JAVA, "c": _C, "h": _C,
}  # fmt: skip
#: Nodes that belong to the definition after them.
_LEADING: Final = frozenset({"comment", "line_comment", "block_comment", "attribute_item", "decorator"})
#: Nodes around a definition that begin it.
_WRAPPERS: Final = frozenset({"decorated_definition", "export_statement", "ambient_declaration"})
#: Statements have no definitions that are worth a break below this depth of the tree.
_DEEPEST: Final = 40


def definition_starts(path: str, lines: Sequence[str]) -> dict[int, int]:
    """The first line of each definition and its rank; lines are counted from 1. Empty for a language without a grammar."""
    grammar = _GRAMMARS.get(path.rpartition(".")[2].lower())
    if grammar is None:
        return {}
    text = "\n".join(lines).encode("utf-8", errors="replace")
    starts: dict[int, int] = {}
    for node, rank in _definitions(_parser(grammar).parse(text).root_node, grammar.definitions):
        line = _first_row(node) + 1
        starts[line] = min(rank, starts.get(line, rank))
    return starts


def _definitions(root: Node, kinds: frozenset[str]) -> Iterator[tuple[Node, int]]:
    """The definitions with their ranks. No recursion: the nesting of a file is foreign input."""
    open_nodes = [(root, 0, OUTER)]
    while open_nodes:
        parent, depth, rank = open_nodes.pop()
        for node in parent.named_children:
            is_definition = node.type in kinds and (rank == OUTER or node.type not in _OUTER_ONLY)
            if is_definition and parent.type not in _WRAPPERS:
                yield node, rank
            if depth < _DEEPEST and node.end_point[0] > node.start_point[0]:
                open_nodes.append((node, depth + 1, INNER if is_definition else rank))


def _first_row(node: Node) -> int:
    """The row of a definition, or of the comments and attributes right above it."""
    row = node.start_point[0]
    before = node.prev_named_sibling
    while before is not None and before.type in _LEADING and _last_row(before) + 1 == row:
        if (further := before.prev_named_sibling) is not None and _last_row(further) == before.start_point[0]:
            break  # It follows code on the same line.
        row = before.start_point[0]
        before = further
    return row


def _last_row(node: Node) -> int:
    """The row of a node's last character. Some line comments end at the start of the next line."""
    row, column = node.end_point
    return row - 1 if column == 0 and row > node.start_point[0] else row


@cache
def _parser(grammar: Grammar) -> Parser:
    try:
        from tree_sitter import Language, Parser

        package: Any = import_module(grammar.package)
    except ImportError:
        raise UsageError("reviews need tree-sitter", hint=install_command("review")) from None
    return Parser(Language(getattr(package, grammar.function)()))
