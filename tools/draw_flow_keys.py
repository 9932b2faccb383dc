"""Generates docs/reference/flow-files.md from the tables of keys in headway.flows.file_keys.

python tools/draw_flow_keys.py           writes the page
python tools/draw_flow_keys.py --check   exits 1 if the page differs from what it would write
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from pages import ROOT, write_or_check

from headway.flows import file_keys
from headway.flows.value_kinds import ChoiceValue, MappingValue

PAGE = ROOT / "docs" / "reference" / "flow-files.md"
COMMAND = "python tools/draw_flow_keys.py"

HEAD = f"""\
# Flow files

Every key of the file that `headway run flow.yaml` takes. Generated from `src/headway/flows/file_keys.py` by `{COMMAND}`; a test fails when this page is
stale. An unknown key is an error that names the nearest one; `headway validate` shows all errors at once. Editors can use the
[JSON Schema](../../src/headway/flows/flow.schema.json). What the keys are for: [Run a flow](../how-to/flows.md).
"""
EXPRESSIONS = """\
## Expressions

`when`, `until`, `source` and `items` are expressions over the state. Every expression ends; nothing is executed.

| | |
|---|---|
| `$.issues[0].title`, `$['a field']` | a value of the state. If there is none, every comparison with it is false, except `!=` |
| `"text"`, `'text'`, `3`, `-0.5`, `true`, `false`, `null` | constants |
| `==` `!=` `<` `<=` `>` `>=` | comparisons. Only numbers with numbers and texts with texts have an order |
| `&&` `\\|\\|` `!` `( )` | and, or, not |
| `length($.issues)` | the length of a list, an object or a text |

`source` and `items` take a path or a list, and nothing else.
"""
#: The mappings in the order of the page, with their places in the file.
MAPPINGS: tuple[tuple[str, MappingValue], ...] = (
    ("The file", file_keys.FLOW),
    ("state.schema: a field", file_keys.FIELD),
    ("graph", file_keys.GRAPH),
    ("graph.nodes: a node", file_keys.NODE),
    ("for_each", file_keys.FOR_EACH),
    ("on_error", file_keys.ON_ERROR),
    ("graph.edges: an edge", file_keys.EDGE),
    ("graph.pipelines: a pipeline", file_keys.PIPELINE),
    ("graph.loops: a loop", file_keys.LOOP),
)


def page() -> str:
    """The whole page."""
    tables = [line for title, mapping in MAPPINGS for line in _section(title, mapping)]
    return "\n".join((HEAD, *tables, EXPRESSIONS))


def _section(title: str, mapping: MappingValue) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    if mapping.short:
        yield f"A single value stands for `{mapping.short}`."
        yield ""
    yield "| key | value | meaning |"
    yield "|---|---|---|"
    for name, key in mapping.keys.items():
        needed = " (required)" if key.required else ""
        words = key.kind.schema().get("enum") if isinstance(key.kind, ChoiceValue) else None
        value = " · ".join(f"`{word}`" for word in words) if words else key.kind.expected
        yield f"| `{name}`{needed} | {value} | {key.meaning} |"
    yield ""


if __name__ == "__main__":
    sys.exit(write_or_check(sys.argv[1:], PAGE, page(), __doc__ or "", COMMAND))
