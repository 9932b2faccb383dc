"""What one unit takes of a node: Ray places no more units on a node than it has resources for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Resources(msgspec.Struct, frozen=True):
    """`resources = {…}` of a provider. `memory` is in bytes; `custom` are names that the cluster's nodes declare."""

    num_cpus: float = 1.0
    num_gpus: float = 0.0
    memory: int = 0
    custom: dict[str, float] = {}

    def times(self, units: int) -> Resources:
        """For so many units at once."""
        custom = {name: amount * units for name, amount in self.custom.items()}
        return Resources(self.num_cpus * units, self.num_gpus * units, self.memory * units, custom)

    def options(self) -> dict[str, Any]:
        """As the options of a Ray actor."""
        options: dict[str, Any] = {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus}
        if self.memory:
            options["memory"] = self.memory
        if self.custom:
            options["resources"] = self.custom
        return options

    def fitting(self, free: Mapping[str, float]) -> int | None:
        """How many times it fits into free resources, as Ray names them; None: it needs nothing."""
        counts = [int(free.get(name, 0.0) / amount + 1e-9) for name, amount in self._named().items()]
        return min(counts) if counts else None

    def _named(self) -> dict[str, float]:
        """Amounts by Ray's names, without those of 0."""
        named = {"CPU": self.num_cpus, "GPU": self.num_gpus, "memory": float(self.memory), **self.custom}
        return {name: amount for name, amount in named.items() if amount}

    def __str__(self) -> str:
        parts = [f"num_cpus {self.num_cpus:g}"] if self.num_cpus else []
        parts += [f"num_gpus {self.num_gpus:g}"] if self.num_gpus else []
        parts += [f"memory {self.memory / 1e6:,.0f} MB"] if self.memory else []
        parts += [f"{name} {amount:g}" for name, amount in self.custom.items()]
        return ", ".join(parts) or "nothing"
