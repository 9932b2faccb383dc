"""Code that goes wrong in several ways."""

import os
from typing import Any


def kill(output: str, context: dict[str, Any]) -> Any:
    os._exit(3)


def strange(output: str, context: dict[str, Any]) -> Any:
    return ["neither", "pass", "nor", "fail"]


def raising(output: str, context: dict[str, Any]) -> Any:
    raise ValueError("no transform today")
