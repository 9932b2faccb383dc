"""The graph of `headway.Flow` (api/flow_runs.py, which runs it). It makes the same spec as a file, and `to_yaml` writes that file."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from headway.config.yaml_file import marked
from headway.errors import UsageError
from headway.flows.flow_file import check_tree, or_raise
from headway.flows.spec import FlowSpec

Function = TypeVar("Function", bound=Callable[..., Any])
Names = str | Sequence[str]


class FlowBuilder:
    """A graph of work, being made. Arguments have the names and values of a flow file; relative paths begin at `folder`."""

    def __init__(
        self, name: str, *, concurrency: int | str = 1, description: str = "", folder: str | Path = "."
    ) -> None:
        self.name = name
        self._folder = Path(folder).resolve()
        self._description = description
        self._concurrency = concurrency
        self._fields: dict[str, Any] = {}
        self._parts: dict[str, list[dict[str, Any]]] = {
            "nodes": [],
            "edges": [],
            "pipelines": [],
            "loops": [],
        }

    def field(self, name: str, type: str = "any", **settings: Any) -> None:  # noqa: A002 - the name in the file
        """Declare a field of the state: `merge`, `default`, `schema`."""
        self._fields[name] = {"type": type, **settings}

    def node(self, *, id: str = "", **settings: Any) -> Callable[[Function], Function]:  # noqa: A002 - the name in the file
        """Make a tool of a function. Its id is its name. It is called with one argument, the mapping that tools get."""

        def add(function: Function) -> Function:
            self.add(id or function.__name__, "tool", impl=self._impl(function), **settings)
            return function

        return add

    def agent(self, id: str, *, prompt: str | Path, **settings: Any) -> None:  # noqa: A002 - the name in the file
        """Add a node that sends a prompt to a model or to an agent CLI."""
        self.add(id, "agent", prompt=str(prompt), **settings)

    def add(self, id: str, kind: str, **settings: Any) -> None:  # noqa: A002 - the name in the file
        """Add a node of any kind."""
        given = {key: _plain(value) for key, value in settings.items() if value is not None}
        if isinstance(given.get("for_each"), str | list):
            given["for_each"] = {"source": given["for_each"]}
        self._parts["nodes"].append({"id": id, "kind": kind, **given})

    def edge(self, source: str, target: str, *, when: str | None = None) -> None:
        """Let `target` wait for `source`; skip it if `when` is false."""
        self._add("edges", {"from": source, "to": target, "when": when})

    def pipeline(
        self,
        items: str | Sequence[Any],
        stages: Names,
        *,
        id: str | None = None,  # noqa: A002 - the name in the file
        concurrency: int | str = 1,
    ) -> None:
        """Let every item go through the stages."""
        self._add("pipelines", {"id": id, "items": items, "stages": stages, "concurrency": concurrency})

    def loop(
        self,
        body: Names,
        *,
        id: str | None = None,  # noqa: A002 - the name in the file
        until: str | None = None,
        max_iters: int | None = None,
        budget: float | None = None,
    ) -> None:
        """Repeat nodes until a condition is true."""
        self._add("loops", {"id": id, "body": body, "until": until, "max_iters": max_iters, "budget": budget})

    def spec(self) -> FlowSpec:
        """The checked flow. Raises an error with everything that is wrong."""
        path = self._folder / f"{self.name}.yaml"
        return or_raise(check_tree(marked(self._document()), path), f"flow '{self.name}'")

    def to_yaml(self) -> str:
        """The flow as a file. Its paths are relative to `folder`."""
        self.spec()
        text: str = yaml.safe_dump(self._document(), sort_keys=False, allow_unicode=True, width=100)
        return text

    def _add(self, part: str, settings: dict[str, Any]) -> None:
        self._parts[part].append({key: _plain(value) for key, value in settings.items() if value is not None})

    def _document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"name": self.name}
        if self._description:
            document["description"] = self._description
        document["runtime"] = {"concurrency": self._concurrency}
        if self._fields:
            document["state"] = {"schema": self._fields}
        document["graph"] = {part: entries for part, entries in self._parts.items() if entries}
        return document

    def _impl(self, function: Callable[..., Any]) -> str:
        """`./tools.py:fetch`: a function is run in another process, which must be able to import it."""
        source = inspect.getsourcefile(function)
        if source is None or not Path(source).is_file() or not source.endswith(".py"):
            raise UsageError(f"{function.__name__}() is in no file", hint="define it in a .py file")
        if "." in function.__qualname__:
            raise UsageError(
                f"{function.__qualname__} is inside a function or class",
                hint="define it at the top of its file",
            )
        path = os.path.relpath(Path(source).resolve(), self._folder)
        return f"{path if path.startswith('..') else f'./{path}'}:{function.__name__}"


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
