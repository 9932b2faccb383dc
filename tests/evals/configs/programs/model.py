"""Two providers."""

from typing import Any


def call_api(prompt: str, options: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    return {
        "output": prompt + options["config"]["punctuation"],
        "tokenUsage": {"total": 7, "prompt": 3, "completion": 4},
        "cost": 0.25,
        "metadata": {"length": len(prompt)},
    }


def shout(prompt: str, options: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    return {"output": f"{prompt.upper()} ({', '.join(name for name in context['vars'] if name[0] != '_')})"}
