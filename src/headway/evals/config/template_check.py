"""Templates that cannot be rendered, found while the configuration is read: an unknown filter stops the eval before anything is paid for.

Variables are not checked: their texts may be code or formulas, and such a text stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from headway.evals.config.source_file import SourceFile
from headway.evals.spec import AssertionSpec, EvalSpec
from headway.evals.templates import TemplateProblem, has_open_tag, names_in


def check_templates(spec: EvalSpec, source: SourceFile) -> None:
    """Report the prompts and assertions whose templates cannot be rendered."""
    checked: set[str] = set()
    for text, line, place in _templates(spec):
        if text not in checked:
            checked.add(text)
            problem = _problem(text)
            if problem:
                source.error(line, f"{place}: {problem}")


def _templates(spec: EvalSpec) -> Iterator[tuple[str, int, str]]:
    """Each text with its line, and what it is."""
    for prompt in spec.prompts:
        for text in _texts_of_prompt(prompt.raw):
            yield text, prompt.line, f"prompt '{prompt.label[:40]}'"
    for test in spec.tests:
        yield test.prefix, test.line, "options.prefix"
        yield test.suffix, test.line, "options.suffix"
        for one in test.asserts:
            yield from _of_assertion(one)


def _of_assertion(one: AssertionSpec) -> Iterator[tuple[str, int, str]]:
    for text in (one.value, *(one.value if isinstance(one.value, list) else ())):
        if isinstance(text, str):
            yield text, one.line, f"the value of '{one.type}'"
    yield one.metric, one.line, f"the metric of '{one.type}'"
    for text in _texts_of_prompt(one.rubric_prompt):
        yield text, one.line, f"the rubric prompt of '{one.type}'"
    for child in one.children:
        yield from _of_assertion(child)


def _texts_of_prompt(raw: str) -> Iterator[str]:
    """The texts that are templates of their own: those in JSON, or the whole."""
    try:
        yield from _texts_in(msgspec.json.decode(raw))
    except (msgspec.DecodeError, RecursionError):
        yield raw


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(inner)


def _problem(text: str) -> str:
    """Why a text cannot be rendered; "" if it can, or if it is no template."""
    if has_open_tag(text):
        return ""
    try:
        names_in(text)
    except TemplateProblem as problem:
        return str(problem)
    return ""
