"""A variable that is computed."""

from typing import Any


def get_var(name: str, prompt: str, other_vars: dict[str, Any]) -> dict[str, str]:
    return {
        "output": f"{name} beside {', '.join(var for var in other_vars if var[0] != '_' and var != name)}"
    }
