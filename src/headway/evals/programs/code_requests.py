"""Assertions and transforms in code → requests for the workers that run them (`executors.code`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headway.evals import templates
from headway.evals.programs.file_digest import file_digest
from headway.evals.spec import Code
from headway.executors.code.code_call import CodeCall, CodeRole, encode_call

#: The beginning of the names of the providers that run code. No table of headway.toml can have such a name.
PREFIX: Final = "code:"
#: The path of their requests.
PATH: Final = "code"


class CodeTarget(NamedTuple):
    """Where a request for code goes."""

    provider: str
    model: str
    path: str


def code_target(code: Code) -> CodeTarget:
    """The target of some code: one provider for each language."""
    return CodeTarget(PREFIX + code.language, code.language, PATH)


def assertion_request(code: Code, output: Any, context: Mapping[str, Any]) -> bytes:
    """The request for an assertion. Code in the eval file is a template: it is filled with `context["vars"]`."""
    return _request("assertion", code, {"output": output, "context": dict(context)}, context.get("vars"))


def transform_request(code: Code, output: Any, context: Mapping[str, Any]) -> bytes:
    """The request for a transform of an output."""
    return _request("transform", code, {"output": output, "context": dict(context)})


def vars_request(code: Code, values: Mapping[str, Any], context: Mapping[str, Any]) -> bytes:
    """The request for a transform of variables."""
    return _request("vars", code, {"vars": dict(values), "context": dict(context)})


def variable_request(code: Code, name: str, prompt: str, values: Mapping[str, Any]) -> bytes:
    """The request for a variable whose value a function computes. `values` are the other variables."""
    return _request("variable", code, {"name": name, "prompt": prompt, "vars": dict(values)})


def _request(role: CodeRole, code: Code, arguments: dict[str, Any], values: Any = None) -> bytes:
    if code.file is not None:
        call = CodeCall(role, arguments, str(code.file), code.function, version=file_digest(code.file))
    else:
        source = code.source if values is None else templates.render(code.source, values)
        call = CodeCall(role, arguments, source=source)
    return encode_call(call)
