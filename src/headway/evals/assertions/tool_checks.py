"""Checks of tool calls: the functions exist, and their arguments fit their schemas. PURE."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.evals.assertions.graded_answer import CannotJudge, CheckFinding, Demand, GradedAnswer
from headway.evals.assertions.json_checks import schema_mismatch


def is_valid_tools_call(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    """The answer is OpenAI's list of tool calls, or a message with `tool_calls`."""
    calls = _decoded(answer.output)
    if isinstance(calls, dict) and "tool_calls" in calls:
        calls = calls["tool_calls"]
    if not isinstance(calls, list) or not calls:
        return CheckFinding(False, "the answer has no tool calls")
    functions = [call.get("function") if isinstance(call, dict) else None for call in calls]
    return _first_wrong(functions, answer)


def is_valid_function_call(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    """The answer is one function call with a name and arguments, or a message with `function_call`."""
    call = _decoded(answer.output)
    if isinstance(call, dict) and "function_call" in call:
        call = call["function_call"]
    return _first_wrong([call], answer)


def _decoded(output: Any) -> Any:
    if not isinstance(output, str):
        return output
    try:
        return msgspec.json.decode(output)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _first_wrong(calls: list[Any], answer: GradedAnswer) -> CheckFinding:
    schemas = _schemas(answer.tools)
    wrong = (problem for call in calls if (problem := _problem(call, schemas)))
    first = next(wrong, "")
    return CheckFinding(not first, first or "every call fits its function")


def _schemas(tools: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """The schemas of the functions' arguments by name."""
    functions = [tool.get("function", tool) for tool in tools]
    named = {
        each["name"]: each.get("parameters")
        for each in functions
        if isinstance(each, dict) and "name" in each
    }
    if not named:
        raise CannotJudge("the request offered no tools", hint="set 'tools' in the config of the provider")
    return named


def _problem(call: Any, schemas: dict[str, Any]) -> str:
    if not isinstance(call, dict):
        return "a call is not an object with 'name' and 'arguments'"
    name, arguments = call.get("name"), call.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, str):
        return "a call has no 'name', or its 'arguments' are not a text"
    if name not in schemas:
        return f"there is no function '{name}'"
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return f"the arguments of '{name}' are not JSON"
    mismatch = schema_mismatch(schemas[name], value) if schemas[name] else ""
    return f"the arguments of '{name}': {mismatch}" if mismatch else ""
