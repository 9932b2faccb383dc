"""The tools of a flow: checked before anything starts, their providers, and what they get.

A tool is a function of a Python file, or a program. The functions of the files in one folder are one provider of `kind = "python"`, whose
worker processes stay. A program is a provider of `kind = "command"`, started for each unit. All of them work in the folder of the flow that
was started. They have no rate limits of their own: a lane counts what runs at once, and learns from `headway.RateLimited`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from headway.config import Config, ProviderConfig
from headway.config.settings import CommandConfig, ToolWorkersConfig
from headway.core.model import LaneLimits
from headway.errors import UsageError
from headway.executors.tool_function import ToolFunction
from headway.flows.lazy_list import encode_value
from headway.flows.node_checks import RUN_BY, tool_problem
from headway.flows.running.flow_form import nodes_of
from headway.flows.running.steps.node_run import NextUnit
from headway.flows.spec import FlowSpec, NodeSpec

#: The beginning of the names of such providers. No table of headway.toml can have such a name.
PREFIX: Final = "tool:"
#: sysexits.h: "try again later". It stays a rate limit.
_EX_TEMPFAIL: Final = 75
#: A program's exit codes are final, unless the user wants them to be retried.
_FINAL: Final = {code: "invalid" for code in range(1, 256) if code != _EX_TEMPFAIL}
#: Units of tools that run at once, unless a flow asks for fewer. Each takes a process.
MOST_AT_ONCE: Final = 64


class ToolTarget(NamedTuple):
    """Where the units of a tool go: a provider and its model, and the path of their requests."""

    provider: str
    model: str
    path: str


def target_of(node: NodeSpec, folder: Path) -> ToolTarget:
    """The target of a tool. `folder` is the one of the flow that was started."""
    assert node.impl is not None
    retried = node.on_error.policy == "retry"
    if node.function:
        tool = ToolFunction(str(node.impl), node.function, retried)
        name = PREFIX + _relative(node.impl.parent, folder)
        return ToolTarget(name, f"{node.impl.name}:{node.function}", tool.path)
    name = PREFIX + _relative(node.impl, folder) + (" (retried)" if retried else "")
    return ToolTarget(name, RUN_BY.get(node.impl.suffix, "program"), "command")


@lru_cache(1024)
def _relative(path: Path, folder: Path) -> str:
    return os.path.relpath(path, folder)


# -- checks -----------------------------------------------------------------------------------------------------------


def must_run(node: NodeSpec, name: str) -> None:
    """Raise UsageError if a tool cannot be run. `name` is the file of its flow."""
    assert node.impl is not None
    place = f"{name}, line {node.line}: {node.id}.impl"
    if not node.impl.is_file():
        raise UsageError(f"{place}: there is no file {node.impl}")
    problem = tool_problem(node)
    if problem is not None:
        raise UsageError(f"{place}: {problem.message}", hint=problem.hint or None)


# -- requests -----------------------------------------------------------------------------------------------------------


def tool_input(unit: NextUnit, job: str) -> bytes:
    """What a tool gets: its reads, args, item and index, and the names of its node and its job."""
    return encode_value(
        {
            "state": unit.state,
            "args": unit.args,
            "item": unit.item,
            "index": unit.index,
            "node": unit.node,
            "job": job,
        }
    )


def tool_request(node: NodeSpec, unit: NextUnit, job: str) -> bytes:
    """The body of a tool's request. A program gets it on standard input, as the prompt of a row of `kind = "command"`."""
    given = tool_input(unit, job)
    return given if node.function else msgspec.json.encode({"prompt": given.decode()})


# -- providers ----------------------------------------------------------------------------------------------------------


def with_tools(config: Config, spec: FlowSpec, concurrency: int | None = None) -> Config:
    """The settings with the providers of all tools. `concurrency`: nodes at a time, instead of the file's."""
    tools: dict[str, list[tuple[NodeSpec, ToolTarget]]] = {}
    folder = spec.path.parent
    for _, _, node in nodes_of(spec):
        if node.kind == "tool":
            target = target_of(node, folder)
            tools.setdefault(target.provider, []).append((node, target))
    if not tools:
        return config
    widths = _widths(spec, concurrency)
    made = {name: _provider(name, uses, folder, widths) for name, uses in tools.items()}
    return msgspec.structs.replace(config, providers={**config.providers, **made})


def _widths(spec: FlowSpec, concurrency: int | None) -> dict[str, int]:
    """How many units of a tool may run at once, by the path of its file. At least one for each core."""
    at_once = (spec.concurrency if concurrency is None else concurrency) or 1
    widths: dict[str, int] = {}
    for node, width in _node_widths(spec, at_once):
        known = widths.get(str(node.impl), os.cpu_count() or 1)
        widths[str(node.impl)] = min(MOST_AT_ONCE, max(known, width, at_once))
    return widths


def _node_widths(spec: FlowSpec, outer: int) -> Iterator[tuple[NodeSpec, int]]:
    for node in spec.nodes.values():
        own = node.for_each.concurrency if node.for_each is not None else 1
        group = spec.pipelines[node.group].concurrency if node.group in spec.pipelines else 1
        width = outer * max(1, own) * max(1, group)
        if node.kind == "tool":
            yield node, width
        if node.inner is not None:
            yield from _node_widths(node.inner, width)


def _provider(
    name: str, uses: Sequence[tuple[NodeSpec, ToolTarget]], folder: Path, widths: dict[str, int]
) -> ProviderConfig:
    limits = {target.model: LaneLimits(max_concurrency=widths[str(node.impl)]) for node, target in uses}
    most = min(MOST_AT_ONCE, sum(limit.max_concurrency or 1 for limit in limits.values()))
    first = uses[0][0]
    assert first.impl is not None
    settings: msgspec.Struct
    if first.function:
        settings = ToolWorkersConfig(
            target=str(first.impl.parent), workers=most, preflight="none", directory=str(folder)
        )
    else:
        settings = CommandConfig(
            command=_command_line(first.impl),
            output="json",
            directory=str(folder),
            workers=most,
            preflight="none",
            exit_codes={} if first.on_error.policy == "retry" else _FINAL,
        )
    return ProviderConfig(
        name=name,
        kind="python" if first.function else "command",
        base_url="",
        api_key_env="",
        model=uses[0][1].model,
        key_optional=True,
        models=limits,
        kind_settings=settings,
    )


def _command_line(impl: Path) -> tuple[str, ...]:
    if impl.suffix in RUN_BY:
        return (RUN_BY[impl.suffix], str(impl))
    return (str(impl),)
