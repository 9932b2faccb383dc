"""How many units of a program would run at once, and what its earlier units took: settings and records → `ProgramLane`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from headway.config import Config, ProviderConfig
from headway.config.kinds.programs import AGENT_NAMES, command_of, only_reads
from headway.executors.commands.command_adapter import AGENT_BYTES
from headway.executors.memory.memory_gauge import MemoryGauge
from headway.forecast.figures import LaneKnowledge, RunOptions
from headway.forecast.program_forecasts import ProgramLane
from headway.forecast.survey import Load
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.agent_work import AgentOptions

#: Earlier units of a program that a forecast uses.
RUNS: Final = 500


def is_side_by_side(job: Job | None) -> bool:
    """Whether earlier runs of a job let its agents work side by side."""
    if job is None:
        return False
    options = AgentOptions().joined(job)
    return options.worktree or options.shared_directory


class ProgramPlans:
    """The programs of one job."""

    def __init__(self, config: Config, store: Store, way: RunOptions, utc: float) -> None:
        self._config, self._store, self._way, self._utc = config, store, way, utc

    def lane(self, provider: ProviderConfig, known: LaneKnowledge, loads: list[Load]) -> ProgramLane:
        """The units of one provider and model, and how they would run."""
        units = sum(load.requests for load in loads)
        apart, binding = self._places(provider, known, units)
        directories = set() if self._way.side_by_side else _written(self._config, provider, loads)
        places, directory = apart, ""
        if directories and len(directories) < apart:
            places, directory = len(directories), min(directories)
            binding = "one agent at a time in a directory"
        held_until = None if known.record is None else known.record.held_until_utc
        return ProgramLane(
            known.name,
            units,
            self._store.program_runs(provider.name, loads[0].model, RUNS),
            places,
            binding,
            known.spec.one_ahead,
            max(0.0, (held_until or 0.0) - self._utc),
            "" if known.record is None else known.record.hold_reason,
            directory,
            apart,
        )

    def _places(self, provider: ProviderConfig, known: LaneKnowledge, units: int) -> tuple[int, str]:
        """How many run at once if each has a directory of its own, and what limits them."""
        workers = known.spec.limits.max_concurrency or units
        found = {f"{workers:,} in flight": workers}
        gauge = MemoryGauge(
            command_of(provider).memory_budget, AGENT_BYTES if provider.kind in AGENT_NAMES else None
        )
        if gauge.budget is not None and gauge.each:
            fitting = max(1, int(gauge.budget / gauge.each))
            found[f"{fitting:,} in flight, by memory_budget"] = fitting
        if self._way.concurrency:
            found["--concurrency"] = self._way.concurrency
        if self._way.serial:
            found["one at a time"] = 1
        binding = min(found, key=lambda name: found[name])
        return found[binding], binding


def _written(config: Config, provider: ProviderConfig, loads: Iterable[Load]) -> set[str]:
    """The directories that agents may write to; empty if they only read, or are programs."""
    settings = command_of(provider)
    if provider.kind not in AGENT_NAMES or only_reads(settings.permission_mode, settings.args):
        return set()
    named = {name or settings.directory for load in loads for name in load.directories or {""}}
    return _real(config, named)


def shared_directory(config: Config, provider: ProviderConfig) -> str:
    """The directory in which the agents of a provider may write, where rows name none; "": they only read, or are programs."""
    settings = command_of(provider)
    if provider.kind not in AGENT_NAMES or only_reads(settings.permission_mode, settings.args):
        return ""
    return min(_real(config, {settings.directory}))


def _real(config: Config, named: Iterable[str]) -> set[str]:
    return {os.path.realpath(os.path.join(str(config.root), os.path.expanduser(name))) for name in named}
