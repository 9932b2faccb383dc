"""What a worker pool is given and what its workers bring back: units, results, and the contract of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from headway.config.argument_checks import brief, named
from headway.errors import UsageError


@dataclass(slots=True)
class WorkerResult:
    """What a worker brings back."""

    success: bool
    output: Any = None
    error: str = ""
    execution_time: float = 0.0
    output_files: list[str] = field(default_factory=list)
    rendered_prompt: str = ""
    conversation: list[dict[str, Any]] = field(default_factory=list)
    session_id: str = ""
    cost_usd: float = 0.0


@dataclass(slots=True)
class WorkUnit:
    """A piece of work. `status` and `result` are filled in as it goes."""

    id: str
    payload: Any = None
    status: str = "pending"
    result: WorkerResult | None = None


class Worker(Protocol):
    """Whatever does the work: `execute` runs in a thread, or on a loop where it is asynchronous."""

    def execute(self, prompt: str, payload: Any, timeout: float) -> Any:
        """Do one unit; returns a `WorkerResult`."""


def view_of(unit: Any) -> WorkUnit:
    """The unit as the pool sees it; a `WorkUnit` is filled in, everything else is left alone."""
    if isinstance(unit, WorkUnit | str):
        view = WorkUnit(unit) if isinstance(unit, str) else unit
        given: object = view.id
        if not isinstance(given, str) or not given:
            raise UsageError(f"the id of the unit is {brief(given)}", hint="it is a text that is not empty")
        return view
    found = (
        unit
        if isinstance(unit, Mapping)
        else {"id": getattr(unit, "id", None), "payload": getattr(unit, "payload", None)}
    )
    if found.get("id") in (None, ""):
        raise UsageError(
            f"unit is {named(unit)} and has no id",
            hint="give it one: WorkUnit('…'), {'id': …} or an object with .id",
        )
    return WorkUnit(str(found["id"]), found.get("payload"))
