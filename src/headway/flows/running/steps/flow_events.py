"""What happens in a run of a flow, besides the ends of units."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

EventName = Literal[
    "run.started", "run.finished", "node.ready", "node.started", "node.finished", "node.failed", "node.skipped", "state.write"
]  # fmt: skip


class FlowEvent(msgspec.Struct, frozen=True):
    """One event. `node` is a path (`sub/fetch`), `unit` an execution of that node (`sub[3]/fetch`, `stage#7`); both are "" for a
    run. `data` has what belongs to the name: `status`, `reason`, `field`, `units`.
    """

    name: EventName
    node: str = ""
    unit: str = ""
    data: dict[str, Any] = {}
