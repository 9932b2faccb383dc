"""Providers with `executor = "ray"`: what their units take, and what goes to the nodes. Imports nothing of Ray."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from headway.config import Config, ProviderConfig, WorkersConfig, dotenv_of
from headway.config.kinds.python import MOST_ON_CLUSTER, size_of
from headway.config.settings import CommandConfig

if TYPE_CHECKING:
    from headway.executors.commands.command_adapter import CommandAdapter
    from headway.executors.on_ray.hosts import HostSettings
    from headway.executors.python_adapter import PythonAdapter


def run_function_on_ray(adapter: PythonAdapter, config: Config, provider: ProviderConfig) -> None:
    """Let the units of a function run on the cluster."""
    from headway.executors.on_ray.ray_pool import RayPool

    adapter.use_pool(partial(RayPool, host_settings(config, provider)))


def run_program_on_ray(adapter: CommandAdapter, config: Config, provider: ProviderConfig) -> None:
    """Let the units of a program run on the cluster. Programs get what the node has, and the variables that are sent there."""
    from headway.executors.commands.clis.agent_clis import AGENT_CLIS
    from headway.executors.on_ray.messages import ProgramSetup
    from headway.executors.on_ray.ray_programs import RayPrograms

    settings = provider.kind_settings
    assert isinstance(settings, CommandConfig)
    cli = provider.kind if provider.kind in AGENT_CLIS else ""
    adapter.use_runner(RayPrograms(host_settings(config, provider), ProgramSetup(settings.env, (), cli)))


def host_settings(config: Config, provider: ProviderConfig) -> HostSettings:
    """What the hosts of a provider are, from `[ray]` and its own table."""
    from headway.executors.on_ray.cluster import ClusterSettings
    from headway.executors.on_ray.hosts import HostSettings
    from headway.executors.on_ray.resources import Resources

    ray, settings = config.ray, provider.kind_settings
    assert isinstance(settings, WorkersConfig | CommandConfig)
    size = size_of(settings) if isinstance(settings, WorkersConfig) else settings.workers or MOST_ON_CLUSTER
    taken = settings.resources
    return HostSettings(
        ClusterSettings(ray.address, str(config.root), ray.travel, ray.exclude),
        Resources(taken.num_cpus, taken.num_gpus, taken.memory, taken.custom),
        size,
        ray.units_per_actor,
        ray.ask_ahead,
        sent_variables(config, provider, settings.env),
    )


def sent_variables(config: Config, provider: ProviderConfig, named: tuple[str, ...] | None) -> dict[str, str]:
    """The variables that go to the nodes, with their values: those that `env` names, and the provider's own key. No others do."""
    names = {*(named or ()), *([provider.api_key_env] if provider.api_key_env else [])}
    known = {**dotenv_of(config), **os.environ}
    return {name: known[name] for name in sorted(names) if name in known}
