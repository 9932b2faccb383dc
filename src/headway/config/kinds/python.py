"""`kind = "python"`: a user's function, called in worker processes, in threads, or inline."""

from __future__ import annotations

import os
from typing import Any, Final

import msgspec

from headway.config import checks
from headway.config.kinds.provider_kind import ProviderKind, TableError
from headway.config.settings import ProviderConfig, UnitResources, WorkersConfig
from headway.core.model import LaneLimits


def workers_of(provider: ProviderConfig) -> WorkersConfig:
    """The settings of a provider of this kind."""
    assert isinstance(provider.kind_settings, WorkersConfig)
    return provider.kind_settings


#: The most units at once on a cluster, unless configured. How many there really are follows from its resources.
MOST_ON_CLUSTER: Final = 10_000


def size_of(workers: WorkersConfig) -> int:
    """How many units run at once: one for each core, or as many as a cluster takes, unless configured."""
    if workers.executor == "ray":
        return workers.workers or MOST_ON_CLUSTER
    return workers.workers or os.cpu_count() or 1


class PythonKind(ProviderKind):
    """A function by its module and name. A key, if it has one, is for the function's own use."""

    builder = "python"
    takes_any_row = True
    own_failures = True
    reports_cost = True

    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """A function has no address, and no key unless the table names a variable."""
        if "target" not in values:
            raise TableError("target", 'missing; the function to call, such as "package.module:function"')
        fields = WorkersConfig.__struct_fields__
        workers = WorkersConfig(**{field: values.pop(field) for field in fields if field in values})
        _check(workers)
        values["kind_settings"] = workers
        values.setdefault("model", workers.target.rpartition(":")[2])
        values["base_url"] = ""
        if "api_key_env" not in values:
            values["api_key_env"], values["key_optional"] = "", True
        return {}

    def host(self, provider: ProviderConfig) -> str:
        """The full name of the function."""
        return workers_of(provider).target

    def identity(self, provider: ProviderConfig) -> str:
        """Another function makes another job."""
        return f"{self.name} {workers_of(provider).target}"

    def lane_limits(self, provider: ProviderConfig, limits: LaneLimits) -> LaneLimits:
        """No more units than workers: a unit that waits for a free worker would hold a slot."""
        size = size_of(workers_of(provider))
        return msgspec.structs.replace(limits, max_concurrency=min(limits.max_concurrency or size, size))

    def one_ahead(self, provider: ProviderConfig) -> bool:
        """One unit, unless the preflight is off."""
        return workers_of(provider).preflight != "none"


def _check(workers: WorkersConfig) -> None:
    """Settings that need worker processes are errors with threads and inline calls."""
    if workers.executor != "ray" and workers.resources != UnitResources():
        raise TableError("resources", 'only a cluster has them: set executor = "ray"')
    if workers.isolation == "process":
        return
    if workers.executor == "ray":
        raise TableError("isolation", "on a cluster units run in processes: leave it out")
    if workers.recycle_after or workers.memory_ceiling or workers.memory_limit:
        raise TableError("isolation", 'only processes can be replaced: set it to "process"')
    if workers.env is not None:
        raise TableError("env", 'only a process has an environment of its own: set isolation = "process"')


PYTHON: Final = PythonKind(
    "python",
    {
        "target": checks.target,
        "isolation": checks.isolation,
        "workers": checks.attempts,
        "recycle_after": checks.count,
        "memory_ceiling": checks.size,
        "memory_limit": checks.size,
        "preflight": checks.preflight,
        "preflight_command": checks.command,
        "preflight_timeout": checks.some_time,
        "failure_logs": checks.below,
        "limit_exit_codes": checks.exit_codes,
        "env": checks.variables,
        "executor": checks.executor,
        "resources": checks.resources,
    },
)
