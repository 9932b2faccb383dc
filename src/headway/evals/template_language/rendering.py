"""Renders one template: parsed once, evaluated for each set of values. Loaded only where jinja2 is installed. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.evals.template_language.interpreter import Interpreter
from headway.evals.template_language.parsed_template import names, parsed
from headway.evals.template_language.work_limit import TemplateProblem, WorkLimit

__all__ = ["names", "rendered"]


def rendered(text: str, values: Mapping[str, Any], limit: WorkLimit) -> str:
    """The text of a template."""
    try:
        return Interpreter(values, limit).render(parsed(text))
    except RecursionError:
        raise TemplateProblem("the template or a value is nested too deeply") from None
