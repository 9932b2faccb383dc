"""Records the events of a flow's run: each of them once, also if its process is killed and the run is made again.

A run that is made again from the records makes no events for what an earlier process has looked at (`recorded_run`). A node or a run
that had ended and goes on (`headway retry`, a resume after failures) has a new event that says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from headway.stores.records import NodeEvent
from headway.stores.store import Store

#: The events after which a node has ended.
NODE_ENDS: Final = ("node.finished", "node.failed", "node.skipped")
RUN_ENDS: Final = ("run.finished",)
_BAD_ENDS: Final = ("node.failed", "node.skipped")
_STEPS_OF_RUNS: Final = ("run.started", *RUN_ENDS)
_STEPS_OF_NODES: Final = ("node.ready", "node.started", "node.retrying", *NODE_ENDS)
_OPEN: Final = ("running", "waiting")
_GOING_ON: Final = ("pending", *_OPEN)


class AnyFlowEvent(Protocol):
    """An event as `FlowRun.take_events` returns it."""

    @property
    def name(self) -> str: ...

    @property
    def node(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def data(self) -> Mapping[str, Any]: ...


def record_events(store: Store, job: int, events: Iterable[AnyFlowEvent], utc: float) -> None:
    """Record what has just happened. Inside a transaction it is a part of that."""
    store.add_node_events(job, [_stored(event, utc) for event in events])


def record_resumed(store: Store, job: int, statuses: Mapping[str, str], status: str, utc: float) -> None:
    """Record what goes on although it had ended. `statuses` are those of the nodes now, `status` is that of the run."""
    if status not in _OPEN:
        return
    last = [one for one in store.node_executions(job, _STEPS_OF_RUNS) if not one.node]
    if any(one.type in RUN_ENDS for one in last):
        store.add_node_events(job, [NodeEvent(utc, "run.started", data=b'{"again":true}')])
    ended = {one.node for one in store.node_executions(job, _STEPS_OF_NODES) if one.type in _BAD_ENDS}
    again = [path for path, standing in statuses.items() if path in ended and standing in _GOING_ON]
    store.add_node_events(job, [NodeEvent(utc, "node.retrying", path) for path in again])


def _stored(event: AnyFlowEvent, utc: float) -> NodeEvent:
    return NodeEvent(utc, event.name, event.node, event.unit, msgspec.json.encode(event.data))
