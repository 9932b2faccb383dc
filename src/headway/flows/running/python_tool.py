"""The program that runs a Python function as a tool: `python -P -m headway.flows.running.python_tool FILE FUNCTION`.

JSON on standard input is the function's one argument; its value is JSON on standard output. What the function prints goes to
standard error, so that it cannot get between.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import msgspec


def main() -> None:
    """Call the function once."""
    path, name = sys.argv[1:3]
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    argument = msgspec.json.decode(sys.stdin.buffer.read())
    value = _function(path, name)(argument)
    if inspect.isawaitable(value):
        value = asyncio.run(_awaited(value))
    with answers:
        answers.write(msgspec.json.encode(value))


def _function(path: str, name: str) -> Any:
    """Import the file by its path. Modules beside it can be imported, after installed ones."""
    sys.path.append(os.path.dirname(path))
    spec = spec_from_file_location("headway_tool", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is not a Python file")
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(function := getattr(module, name, None)):
        raise SystemExit(f"{path} has no function '{name}'")
    return function


async def _awaited(value: Any) -> Any:
    return await value


if __name__ == "__main__":
    main()
