"""A transform in a file."""

from typing import Any


def get_transform(output: str, context: dict[str, Any]) -> Any:
    return {"words": len(output.replace("echo: ", "").split()) + 1, "name": context["vars"]["name"]}
