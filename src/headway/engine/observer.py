"""Who may watch a run: told what a person would want to know, asked nothing, able to disturb nothing."""

from __future__ import annotations

from typing import Protocol

import msgspec

from headway.core.snapshot import Snapshot
from headway.stores.records import Job, JobEvent, Unknown


class View(msgspec.Struct, frozen=True):
    """A run at an instant. `counts` are ends that are committed, this run's and earlier ones'."""

    job: str
    total: int
    counts: dict[str, int]
    attempts: int
    refused: int
    input_tokens: int
    output_tokens: int
    #: None: no price is known.
    cost_usd: float | None
    elapsed_s: float
    updated_utc: float
    started_utc: float
    snapshot: Snapshot
    #: Lane keys → names for people.
    names: dict[str, str]
    #: Instants on the engine's clock plus this are UTC.
    utc_offset_s: float
    paused: bool = False

    @property
    def ended(self) -> int:
        """Units that have come to an end."""
        return sum(self.counts.values())


class Observer(Protocol):
    """The contract of a listener. Everything is called on the engine's loop: be quick."""

    def began(self, job: Job, unknown: list[Unknown]) -> None:
        """The run begins; `unknown` units may have been sent by a process that died."""

    def noted(self, event: JobEvent) -> None:
        """Something about a lane or the job."""

    def ended(self, indexes: list[int]) -> None:
        """These units have come to an end, and that is committed."""

    def moved(self, view: View) -> None:
        """Twice a second, and once at the end."""


class Display(Observer, Protocol):
    """An observer that people or programs read."""

    def say(self, text: str) -> None:
        """A line of its own."""

    def close(self) -> None:
        """The run is over: leave the terminal as it was."""
