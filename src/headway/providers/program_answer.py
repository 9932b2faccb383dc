"""What a script, a function or a transform says about its answer → the body that evals read, and the usage.

The body is `{"output": …}`, and `"metadata"` where the script names some. An error that a script reports is the failure of its attempt: a
rate limit if its text says so, otherwise an invalid request.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headway.core.model import Kind, Outcome, Usage
from headway.providers.error_messages import short_message
from headway.providers.limits.limit_detection import local_zone
from headway.providers.limits.limit_text import limit_in_message

#: The keys of a response that reach the body.
_KEPT: Final = ("metadata", "tokenUsage", "cost", "cached", "isRefusal", "guardrails", "logProbs")


class ProgramAnswer(msgspec.Struct, frozen=True):
    """A body, or an outcome that is a failure."""

    outcome: Outcome
    body: bytes = b""


def answer_of(value: Any) -> ProgramAnswer:
    """The answer of a function that returns `{"output": …}` or `{"error": …}`, with `tokenUsage` and `cost` if it knows them."""
    if not isinstance(value, dict) or not ("output" in value or value.get("error")):
        text = f'it returned {_name(value)}; expected an object with "output" or "error"'
        return ProgramAnswer(Outcome(Kind.INVALID, message=text))
    used = usage_of(value)
    if value.get("error"):
        return ProgramAnswer(failed(str(value["error"]), used))
    kept = {name: value[name] for name in _KEPT if value.get(name) is not None}
    return ProgramAnswer(Outcome(usage=used), output_body(value["output"], kept))


def output_body(output: Any, further: Mapping[str, Any] | None = None) -> bytes:
    """The body of an answer."""
    return msgspec.json.encode({"output": output, **(further or {})})


def failed(message: str, used: Usage | None = None) -> Outcome:
    """The outcome of an error that a script reports as text."""
    text = short_message(message, otherwise="it reported an error without a text")
    facts = limit_in_message(message, time.time(), local_zone())
    if facts is not None:
        return Outcome(facts.kind, used, facts.hint, text)
    return Outcome(Kind.INVALID, used, message=text)


def usage_of(value: Mapping[str, Any]) -> Usage | None:
    """The tokens and the cost that a response reports; None if it reports neither."""
    tokens, cost = value.get("tokenUsage"), _amount(value.get("cost"))
    if not isinstance(tokens, dict):
        return None if cost is None else Usage(cost_usd=cost)
    prompt, completion = _amount(tokens.get("prompt")), _amount(tokens.get("completion"))
    if prompt is None and completion is None:
        prompt = _amount(tokens.get("total"))
    return Usage(
        prompt or 0.0, completion or 0.0, min(_amount(tokens.get("cached")) or 0.0, prompt or 0.0), cost
    )


def _amount(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return None
    return float(value)


def _name(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return f"an object with {', '.join(map(repr, list(value)[:3])) or 'no key'}"
    return {str: "a text", bool: "true or false", list: "a list"}.get(type(value), "a number")
