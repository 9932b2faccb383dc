"""`kind = "python"`: builds the adapter of a function, and checks that the function exists.

The check parses the user's code and does not run it: only workers import it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from headway.config import Config, ProviderConfig, WorkersConfig
from headway.config.kinds.python import size_of, workers_of
from headway.config.settings import ToolWorkersConfig
from headway.errors import ConfigError
from headway.providers.scrubber import Scrubber
from headway.wiring.builders.on_ray import run_function_on_ray
from headway.wiring.builders.provider_builder import Built, ProviderBuilder


class PythonBuilder(ProviderBuilder):
    """Functions in workers."""

    part = "function"

    def build(self, config: Config, provider: ProviderConfig, key: str, secrets: Iterable[str]) -> Built:
        """The adapter of a function. It removes secrets from everything that comes back."""
        from headway.executors.python_adapter import PythonAdapter

        self.verify(config, provider)
        workers = workers_of(provider)
        if isinstance(workers, ToolWorkersConfig):
            from headway.executors.tool_adapter import ToolAdapter

            place = f"tools in {workers.target}"
            return Built(
                ToolAdapter(workers, size_of(workers), place, Scrubber(secrets), provider.max_answer_bytes)
            )
        assert provider.model is not None  # By default the name of its function.
        adapter = PythonAdapter(
            workers,
            provider.model,
            size_of(workers),
            str(config.root),
            _place(config, provider),
            Scrubber(secrets),
            provider.max_answer_bytes,
        )
        if workers.executor == "ray":
            run_function_on_ray(adapter, config, provider)
        return Built(adapter, adapter.check)

    def verify(self, config: Config, provider: ProviderConfig) -> str:
        """Check that the function and the preflight command exist."""
        workers = workers_of(provider)
        if isinstance(workers, ToolWorkersConfig):  # The flow was checked.
            return f"tools in {workers.target}"
        _check_workers(workers, str(config.root), _place(config, provider))
        if workers.executor == "ray":
            return f"{workers.target} was found here; units run on Ray"
        return f"{workers.target} was found ({size_of(workers)} × {workers.isolation})"


def _place(config: Config, provider: ProviderConfig) -> str:
    return f"{config.path or 'headway.toml'}: providers.{provider.name}"


def _check_workers(workers: WorkersConfig, root: str, where: str) -> None:
    module, _, name = workers.target.partition(":")
    spec = _spec(module, [root, *sys.path])
    if spec is None and module not in sys.builtin_module_names:
        raise ConfigError(
            f"{where}.target: there is no module '{module}'",
            hint=f"put {module.replace('.', '/')}.py beside headway.toml, or install the package that has it",
        )
    names = None if spec is None else _names(spec)
    first = name.partition(".")[0]
    if names is not None and first not in names:
        raise ConfigError(
            f"{where}.target: '{module}' has no '{first}'",
            hint=f"name a function of {spec.origin if spec is not None else module}",
        )
    if workers.preflight == "command" and shutil.which(workers.preflight_command[0]) is None:
        raise ConfigError(
            f"{where}.preflight_command: there is no program '{workers.preflight_command[0]}'",
            hint='install it, or set preflight = "canary"',
        )


def _spec(module: str, path: list[str]) -> ModuleSpec | None:
    """Find a module, package by package, without importing any of them."""
    spec: ModuleSpec | None = None
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:depth]), path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or ())
    return spec


def _names(spec: ModuleSpec) -> set[str] | None:
    """The names that a module defines; None if only an import can tell."""
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None
    import ast

    try:
        tree = ast.parse(Path(spec.origin).read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        raise ConfigError(f"{spec.origin}: {error}", hint="fix the module that target names") from None
    names: set[str] = set()
    for node in ast.walk(tree):  # A definition may be inside an `if` or a `try`.
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return None if names & {"*", "__getattr__"} else names
