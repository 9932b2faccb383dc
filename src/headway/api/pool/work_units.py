"""The units and results of a worker pool, and the contract of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from headway.config.argument_checks import brief, named
from headway.errors import UsageError


@dataclass(slots=True)
class WorkerResult:
    """What a worker returns."""

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
    """Does the work. `execute` runs in a thread, or on an event loop if it is asynchronous."""

    def execute(self, prompt: str, payload: Any, timeout: float) -> Any:
        """Do one unit; returns a `WorkerResult`."""


def view_of(unit: Any) -> WorkUnit:
    """The unit as a `WorkUnit`. A `WorkUnit` of the caller is filled in later; other objects stay unchanged."""
    if isinstance(unit, WorkUnit | str):
        view = WorkUnit(unit) if isinstance(unit, str) else unit
        given: object = view.id
        if not isinstance(given, str) or not given:
            raise UsageError(f"the id of the unit is {brief(given)}", hint="use a string that is not empty")
        return view
    fields = (
        unit
        if isinstance(unit, Mapping)
        else {"id": getattr(unit, "id", None), "payload": getattr(unit, "payload", None)}
    )
    if fields.get("id") in (None, ""):
        raise UsageError(
            f"unit is {named(unit)} and has no id",
            hint="give it one: WorkUnit('…'), {'id': …} or an object with .id",
        )
    return WorkUnit(str(fields["id"]), fields.get("payload"))
