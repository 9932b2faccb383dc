"""Tools as programs: the command line of a `tool` node, what it gets on standard input, and its provider.

Each tool is a provider of `kind = "command"` of its own, without rate limits: a lane that only counts what runs at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Final

import msgspec

from headway.config import Config, ProviderConfig
from headway.config.settings import CommandConfig
from headway.errors import UsageError
from headway.flows.running.node_run import NextUnit
from headway.flows.spec import NodeSpec

#: The beginning of the names of such providers. No table of headway.toml can have such a name.
PREFIX: Final = "tool:"
#: Programs that Headway starts with another program, by the end of their names.
_RUN_BY: Final = {".mjs": "node", ".js": "node", ".cjs": "node"}


def command_line(node: NodeSpec) -> tuple[str, ...]:
    """The program of a tool and its arguments. Raises UsageError if it cannot be run."""
    assert node.impl is not None
    path = str(node.impl)
    if not os.path.isfile(path):
        raise UsageError(f"line {node.line}: {node.id}.impl: there is no file {path}")
    if node.function:
        return (sys.executable, "-P", "-m", "headway.flows.running.python_tool", path, node.function)
    if node.impl.suffix in _RUN_BY:
        return (_RUN_BY[node.impl.suffix], path)
    if not os.access(path, os.X_OK):
        raise UsageError(
            f"line {node.line}: {node.id}.impl: {path} is not executable",
            hint=f"chmod +x {path}, or name a function: {node.impl.name}:main",
        )
    return (path,)


def tool_input(unit: NextUnit, job: str) -> bytes:
    """What a tool gets: its reads, args, item and index, and the names of its node and its job."""
    return msgspec.json.encode(
        {
            "state": unit.state,
            "args": unit.args,
            "item": unit.item,
            "index": unit.index,
            "node": unit.node,
            "job": job,
        }
    )


def tool_row(unit: NextUnit, job: str) -> bytes:
    """The request of a tool's unit: a row of `kind = "command"`, whose prompt is standard input."""
    return msgspec.json.encode({"prompt": tool_input(unit, job).decode()})


def with_tools(config: Config, nodes: Iterable[NodeSpec]) -> Config:
    """The settings with a provider for each tool."""
    tools = {PREFIX + node.id: _provider(node) for node in nodes if node.kind == "tool"}
    return msgspec.structs.replace(config, providers={**config.providers, **tools}) if tools else config


def _provider(node: NodeSpec) -> ProviderConfig:
    each = node.for_each.concurrency if node.for_each is not None else 1
    settings = CommandConfig(
        command=command_line(node),
        output="json",
        directory=str(node.impl.parent) if node.impl is not None else ".",
        workers=max(each, os.cpu_count() or 1),
        preflight="none",
    )
    return ProviderConfig(
        name=PREFIX + node.id,
        kind="command",
        base_url="",
        api_key_env="",
        model=node.id,
        key_optional=True,
        kind_settings=settings,
    )
