"""Reads a template with Jinja's parser, and refuses what the interpreter does not know. PURE.

Nunjucks is a port of Jinja: the tags, filters and operators that evals use have the same syntax in both.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.meta import find_undeclared_variables

from headway.evals.template_language.filters import FILTERS
from headway.evals.template_language.value_tests import TESTS
from headway.evals.template_language.work_limit import TemplateProblem

#: Jinja normalises line ends. A carriage return is kept as this character of the private area.
_RETURN: Final = "\ue00d"
#: Constructs that are refused, with their names in templates.
_REFUSED: Final[dict[type[nodes.Node], str]] = {
    nodes.Macro: "macro",
    nodes.CallBlock: "call",
    nodes.FilterBlock: "filter",
    nodes.Block: "block",
    nodes.Extends: "extends",
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "from",
    nodes.With: "with",
    nodes.ScopedEvalContextModifier: "autoescape",
    nodes.Slice: "[a:b]",
    nodes.NSRef: "set a.b",
}
#: Nunjucks has two names for it.
_ELSEIF: Final = re.compile(r"(\{%-?\s*)elseif\b")
_PARSER: Final = Environment(keep_trailing_newline=True)
# To find the names in a template, jinja2 looks its filters and tests up.
_PARSER.filters.update(FILTERS)
_PARSER.tests.update(TESTS)


@lru_cache(maxsize=4096)
def parsed(text: str) -> nodes.Template:
    """The tree of a template. Raises TemplateProblem, with the line, if it cannot be read."""
    try:
        tree = _tree(text)
    except TemplateSyntaxError as error:
        raise TemplateProblem(f"line {error.lineno} of the template: {error.message}") from None
    except (RecursionError, ValueError):
        raise TemplateProblem("the template cannot be read: it is nested too deeply") from None
    for node in tree.find_all(nodes.Node):
        _check(node)
    return tree


def _tree(text: str) -> nodes.Template:
    text = _ELSEIF.sub(r"\1elif", text)
    if "\r" not in text:
        return _PARSER.parse(text)
    try:
        tree = _PARSER.parse(text.replace("\r", _RETURN))
    except TemplateSyntaxError:
        return _PARSER.parse(text)  # A line ends inside a tag.
    for data in tree.find_all(nodes.TemplateData):
        data.data = data.data.replace(_RETURN, "\r")
    for const in tree.find_all(nodes.Const):
        if isinstance(const.value, str):
            const.value = const.value.replace(_RETURN, "\r")
    return tree


def _check(node: nodes.Node) -> None:
    """Raise if the construct, the filter or the test is not known."""
    name = _REFUSED.get(type(node))
    if name is not None:
        raise TemplateProblem(
            f"line {node.lineno} of the template: '{name}' is not supported",
            hint="filters, if, for and set are",
        )
    if isinstance(node, nodes.Filter) and node.name not in FILTERS:
        raise TemplateProblem(f"line {node.lineno} of the template: there is no filter '{node.name}'")
    if isinstance(node, nodes.Test) and node.name not in TESTS:
        raise TemplateProblem(f"line {node.lineno} of the template: there is no test '{node.name}'")
    if isinstance(node, nodes.For) and (node.recursive or node.test is not None):
        raise TemplateProblem(f"line {node.lineno} of the template: a loop takes no 'if' and no 'recursive'")


def names(text: str) -> frozenset[str]:
    """The variables that a template reads."""
    return frozenset(find_undeclared_variables(parsed(text))) - {"range"}
