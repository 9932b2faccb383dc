"""Providers that are functions: whether they can be called, before anything is, and how many at once.

The user's code is looked at, not run: what a module does when it is imported is for the workers.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from headway.config import Config, ProviderConfig, WorkersConfig
from headway.core.memory import LaneRecord
from headway.core.model import Limits
from headway.errors import ConfigError
from headway.providers.secrecy import Scrubber
from headway.stores.records import Job
from headway.stores.store import Store

if TYPE_CHECKING:
    from headway.executors.python import PythonAdapter


def size_of(workers: WorkersConfig) -> int:
    """How many units run at once: one a core, where nothing else is said."""
    return workers.workers or os.cpu_count() or 1


def limits_of_workers(provider: ProviderConfig, limits: Limits) -> Limits:
    """A lane lets no more in than there are workers: one that waits for a free one would hold its slot."""
    assert provider.workers is not None
    size = size_of(provider.workers)
    return msgspec.structs.replace(limits, max_concurrency=min(limits.max_concurrency or size, size))


def python_adapter(config: Config, provider: ProviderConfig, scrub: Scrubber) -> PythonAdapter:
    """What calls a provider's function, and blots secrets out of what comes back."""
    from headway.executors.python import PythonAdapter

    check_workers(config, provider)
    assert provider.workers is not None
    assert provider.model is not None  # The name of its function, where nothing else is said.
    size, root = size_of(provider.workers), str(config.root)
    place, most = _place(config, provider), provider.max_answer_bytes
    return PythonAdapter(provider.workers, provider.model, size, root, place, scrub, most)


def may_start(store: Store, job: Job, lane: str, name: str) -> bool:
    """Whether a run of the job will start a worker: there is something to do, and no hold on record that forbids it."""
    if job.counts.get("succeeded", 0) + job.counts.get("cached", 0) >= job.total:
        return False
    record = store.lane(lane, name).record
    if record is None:
        return True
    until_utc = msgspec.json.decode(record, type=LaneRecord).held_until_utc
    return until_utc is None or until_utc <= time.time()


def _place(config: Config, provider: ProviderConfig) -> str:
    return f"{config.path or 'headway.toml'}: providers.{provider.name}"


def check_workers(config: Config, provider: ProviderConfig) -> None:
    """That a provider's function is where it is said to be, and its command too."""
    workers = provider.workers
    if workers is None:
        return
    where = _place(config, provider)
    module, _, name = workers.target.partition(":")
    spec = _spec(module, [str(config.root), *sys.path])
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
    """Where a module is, package by package, without importing any of them."""
    spec: ModuleSpec | None = None
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:depth]), path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or ())
    return spec


def _names(spec: ModuleSpec) -> set[str] | None:
    """What a module defines at its top; None where only importing it can tell."""
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None
    import ast

    try:
        tree = ast.parse(Path(spec.origin).read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        raise ConfigError(f"{spec.origin}: {error}", hint="mend the module that target names") from None
    names: set[str] = set()
    for node in ast.walk(tree):  # A definition may stand below an `if` or a `try`.
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return None if names & {"*", "__getattr__"} else names
