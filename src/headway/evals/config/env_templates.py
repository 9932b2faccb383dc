"""`{{env.NAME}}`: variables of the environment and of the configuration's `env`, put in when the file is read.

A variable whose name ends like that of a key is never put in: what is read here is stored with the job. In the settings of
a provider such a template stays, and the provider's adapter renders it for each request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from headway.config.yaml_file import Marked

if TYPE_CHECKING:
    from headway.evals.config.source_file import SourceFile

_TEMPLATE: Final = re.compile(
    r"\{\{-?\s*env(?:\.(?P<dotted>\w+)|\[\s*(?:'(?P<single>\w+)'|\"(?P<double>\w+)\")\s*\])"
    r"(?P<default>\s*\|\s*default\(\s*(?:'(?P<text>[^']*)'|\"(?P<quoted>[^\"]*)\")\s*(?:,\s*\w+\s*)?\))?\s*-?\}\}"
)
_SECRET_ENDS: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD")
#: Top keys below which a template with a key may stay; `env` is checked apart.
_PROVIDERS: Final = ("providers", "targets", "env")


def is_secret_name(name: str) -> bool:
    """Whether a variable is named like one that holds a key."""
    return name.upper().endswith(_SECRET_ENDS)


def named_variable(text: object) -> str:
    """The variable that a text consists of: `{{env.NAME}}`; "" for all else."""
    match = _TEMPLATE.fullmatch(text.strip()) if isinstance(text, str) else None
    return _name(match) if match else ""


def has_secret(text: str) -> bool:
    """Whether a text names a variable that holds a key."""
    return any(is_secret_name(_name(match)) for match in _TEMPLATE.finditer(text))


class EnvTemplates:
    """Puts variables into texts."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def render_file(self, tree: Marked, source: SourceFile) -> Marked:
        """A whole file. Keys may be named below `providers`."""
        if not isinstance(tree.value, dict):
            return self.render(tree, source)
        inner = {
            key: self.render(node, source, keys_stay=key in _PROVIDERS) for key, node in tree.value.items()
        }
        return _like(tree, inner)

    def render(self, node: Marked, source: SourceFile, *, keys_stay: bool = False) -> Marked:
        """A value with its variables. The same node if it has none."""
        if isinstance(node.value, str):
            if "env" not in node.value or "{{" not in node.value:
                return node
            return Marked(self.text(node.value, node.line, source, keys_stay=keys_stay), node.line)
        if isinstance(node.value, dict):
            stay = keys_stay or False
            return _like(
                node,
                {
                    key: self.render(one, source, keys_stay=stay or key == "provider")
                    for key, one in node.value.items()
                },
            )
        if isinstance(node.value, list):
            return _like(node, [self.render(one, source, keys_stay=keys_stay) for one in node.value])
        return node

    def text(self, text: str, line: int, source: SourceFile, *, keys_stay: bool = False) -> str:
        """A text with its variables. What is wrong is reported at the line."""

        def value(match: re.Match[str]) -> str:
            name = _name(match)
            if is_secret_name(name):
                if not keys_stay:
                    hint = "only providers may name a variable that holds a key"
                    source.error(line, f"{{{{env.{name}}}}}: a key would be stored with the results", hint)
                return match[0]
            default: str | None = match["text"] if match["text"] is not None else match["quoted"]
            found = self._values.get(name, default)
            if found is None:
                hint = f"export it, or write {{{{env.{name} | default('…')}}}}"
                source.error(line, f"the environment variable {name} is not set", hint)
                return match[0]
            return found

        return _TEMPLATE.sub(value, text) if "{{" in text else text


def _name(match: re.Match[str]) -> str:
    return match["dotted"] or match["single"] or match["double"]


def _like(node: Marked, value: object) -> Marked:
    result = Marked(value, node.line)
    result.key_lines, result.size = node.key_lines, node.size
    return result
