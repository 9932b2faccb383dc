"""Prompts of agent and human nodes: a text with `{{item}}`, `{{index}}`, `{{state.diff}}`, `{{args.tone}}`, `{{node}}` and `{{job}}`. PURE.

A name is a path through what the unit sees: `{{item.title}}`, `{{state.files[0]}}`. There are no calls, no filters and no
code, and inserted text is not searched for names, so neither a prompt nor an answer can execute anything. A text is inserted
as it is, any other value as JSON. `{{{{` writes `{{`.
"""

from __future__ import annotations

import re
from typing import Any, Final

from headway.errors import UsageError
from headway.flows.lazy_list import encode_value
from headway.flows.running.steps.node_run import NextUnit

_TOKEN: Final = re.compile(r"\{\{\{\{|\{\{([^{}]*)\}\}")
_PATH: Final = re.compile(r"(item|index|state|args|node|job)((?:\.[A-Za-z_][A-Za-z0-9_-]*|\[\d+\])*)")
_STEP: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\[(\d+)\]")


def prompt_of(template: str, unit: NextUnit, job: str = "") -> str:
    """The prompt of a unit. Raises UsageError if a name has no value."""
    if "{{" not in template:
        return template
    seen = {
        "item": unit.item,
        "index": unit.index,
        "state": unit.state,
        "args": unit.args,
        "node": unit.node,
        "job": job,
    }

    def insert(token: re.Match[str]) -> str:
        return "{{" if token[1] is None else _text(_value(token[1].strip(), seen, unit.node))

    return _TOKEN.sub(insert, template)


def _value(name: str, seen: dict[str, Any], node: str) -> Any:
    path = _PATH.fullmatch(name)
    if path is None:
        raise UsageError(
            f"the prompt of {node}: '{{{{{name}}}}}' is not a name",
            hint="use item, index, state.FIELD, args.NAME, node or job",
        )
    value = seen[path[1]]
    for key, number in _STEP.findall(path[2]):
        try:
            value = value[key] if key else value[int(number)]
        except (KeyError, IndexError, TypeError):
            raise UsageError(
                f"the prompt of {node}: '{{{{{name}}}}}' has no value",
                hint="a node sees only the fields of its reads",
            ) from None
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else encode_value(value).decode()
