"""Templates of evals: prompts, variables, assertions and rubrics, written for Nunjucks. PURE.

`render` is one template. `render_prompt` and `render_rubric` follow promptfoo's rules for a whole prompt: where it is JSON, each
text in it is a template of its own, so that no value can break the JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from types import ModuleType
from typing import Any, Final

import msgspec

from headway.errors import UsageError
from headway.evals.template_language.js_values import json_text, text_of_value
from headway.evals.template_language.work_limit import TemplateProblem, WorkLimit
from headway.install_hint import install_command

__all__ = [
    "TemplateProblem",
    "has_open_tag",
    "names_in",
    "render",
    "render_prompt",
    "render_rubric",
    "render_value",
]

_VARIABLE: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}", re.ASCII)
#: How often variables that name other variables are filled in.
_ROUNDS: Final = 5
_MARKS: Final = ("{{", "{%", "{#")


def render(text: str, values: Mapping[str, Any]) -> str:
    """The text of a template. `values["env"]` is what `{{env.NAME}}` reads. Raises TemplateProblem."""
    return _render(text, values, WorkLimit())


def render_value(value: Any, values: Mapping[str, Any]) -> Any:
    """The value with every text in it rendered; keys stay as they are."""
    limit = WorkLimit()
    limit.spend_on(value)
    return _render_deep(value, values, limit)


def names_in(text: str) -> frozenset[str]:
    """The variables that a template reads. Raises TemplateProblem if it cannot be read."""
    if not any(mark in text for mark in _MARKS):
        return frozenset()
    names: frozenset[str] = _language().names(text)
    return names


def render_prompt(raw: str, values: Mapping[str, Any]) -> str:
    """A prompt with its variables, as promptfoo fills it."""
    limit = WorkLimit()
    filled = _filled_variables(values, limit)
    document = _json(raw)
    if document is not None:
        limit.spend_on(document[0])
        with suppress(TemplateProblem):  # Then it is a text like any other.
            return json_text(_render_deep(document[0], filled, limit), indent=2)
    rendered = {name: _rendered_variable(value, filled, limit) for name, value in filled.items()}
    return _render(raw, rendered, limit, partial=True)


def render_rubric(raw: str, values: Mapping[str, Any]) -> str:
    """The prompt of a grader: objects among its values are JSON."""
    limit = WorkLimit()
    plain = {name: _as_json(value, limit) for name, value in values.items()}
    document = _json(raw)
    if document is not None:
        limit.spend_on(document[0])
        with suppress(TemplateProblem):
            return json_text(_render_deep(document[0], plain, limit))
    return _render(raw, plain, limit)


@cache
def _language() -> ModuleType:
    try:
        from headway.evals.template_language import rendering
    except ImportError:
        raise UsageError("templates need jinja2", hint=install_command("eval")) from None
    return rendering


def _render(text: str, values: Mapping[str, Any], limit: WorkLimit, *, partial: bool = False) -> str:
    """The text of a template. `partial`: a text with a tag that does not end in its line is no template."""
    if not any(mark in text for mark in _MARKS) or (partial and has_open_tag(text)):
        limit.spend(len(text))
        return text
    rendered: str = _language().rendered(text, values, limit)
    return rendered


def _render_deep(value: Any, values: Mapping[str, Any], limit: WorkLimit) -> Any:
    if isinstance(value, str):
        return _render(value, values, limit)
    if isinstance(value, dict):
        return {key: _render_deep(item, values, limit) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_render_deep(item, values, limit) for item in value]
    return value


def has_open_tag(text: str) -> bool:
    """Whether a line opens a tag and does not close it. Such a text is often no template but code or LaTeX."""
    if "{% raw %}" in text and "{% endraw %}" in text:
        return False
    return any(
        -1 < line.rfind("{{") > line.rfind("}")
        or -1 < line.rfind("{%") == line.rfind("%") - 1
        or -1 < line.rfind("{#") == line.rfind("#") - 1
        for line in text.split("\n")
    )


def _filled_variables(values: Mapping[str, Any], limit: WorkLimit) -> dict[str, Any]:
    """The variables, with `{{other}}` in their texts replaced by the other variable. One line end at the end is dropped."""
    filled = {
        name: value.removesuffix("\n") if isinstance(value, str) else value for name, value in values.items()
    }
    for _ in range(_ROUNDS):
        changed = [name for name in filled if _fill_once(name, filled, limit)]
        if not changed:
            break
    return filled


def _fill_once(name: str, filled: dict[str, Any], limit: WorkLimit) -> bool:
    value = filled[name]
    match = _VARIABLE.search(value) if isinstance(value, str) else None
    if match is None or match[1] not in filled:
        return False
    other = filled[match[1]]
    limit.spend_on(other)
    filled[name] = value[: match.start()] + text_of_value(other) + value[match.end() :]
    limit.spend(len(filled[name]))
    return True


def _rendered_variable(value: Any, values: Mapping[str, Any], limit: WorkLimit) -> Any:
    """A variable that is a template; as it is if it reads variables that do not exist."""
    if not isinstance(value, str) or has_open_tag(value):
        return value
    if not names_in(value) <= values.keys() | {"env"}:
        return value
    return _render(value, values, limit)


def _json(raw: str) -> tuple[Any] | None:
    """The value of a prompt that is JSON."""
    try:
        return (msgspec.json.decode(raw),)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _as_json(value: Any, limit: WorkLimit) -> Any:
    limit.spend_on(value)
    if isinstance(value, dict):
        return json_text(value)
    if isinstance(value, list | tuple):
        return [json_text(item) if isinstance(item, dict | list | tuple) else item for item in value]
    return value
