"""A scheduler by waves, for comparison: what most graph runners of today do.

All nodes whose predecessors are done form a wave, and run up to `concurrency` at a time. The next wave starts when all of the last one has
ended. Pipelines and loops come when no node is ready any more: one after the other, one item after the other. It breaks no dependency:
nodes that wait for a pipeline or a loop form further waves afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from headway.flows.running.steps.node_run import NextUnit, UnitEnd
from headway.flows.spec import AUTO, FlowSpec, NodeSpec


class _Execution:
    """One execution of a node: its units, `size` of them at a time."""

    def __init__(self, node: NodeSpec, suffix: str = "") -> None:
        each = node.for_each
        count = 1 if each is None else len(each.items or ())
        self._size = count if each is None or each.concurrency == AUTO else each.concurrency
        names = [node.id + suffix] if each is None else [f"{node.id}{suffix}[{n}]" for n in range(count)]
        self._node = node
        self._left = deque(enumerate(names))
        self._open = 0

    @property
    def is_over(self) -> bool:
        return not self._left and not self._open

    def start(self) -> Iterator[NextUnit]:
        """The units that start now."""
        while self._left and self._open < self._size:
            index, name = self._left.popleft()
            self._open += 1
            yield NextUnit(id=name, node=self._node.id, state={}, args=self._node.args, index=index)

    def ended(self) -> None:
        self._open -= 1


class WaveRun:
    """The order of units by waves. It looks at the ids of the units that ended, and not at how they ended."""

    def __init__(self, spec: FlowSpec) -> None:
        self._spec = spec
        self._done: set[str] = set()
        self._left = list(spec.step_order)
        #: What the present wave has not started yet, what of it runs, and the steps that it consists of.
        self._queue: deque[_Execution] = deque()
        self._running: list[_Execution] = []
        self._wave: list[str] = []
        self._owners: dict[str, _Execution] = {}
        self._size = 0

    def advance(self, ends: Mapping[str, UnitEnd]) -> list[NextUnit]:
        for name in ends:
            self._owners.pop(name).ended()
        units: list[NextUnit] = []
        while True:
            self._running = [one for one in self._running if not one.is_over]
            while self._queue and (self._size == AUTO or len(self._running) < self._size):
                self._running.append(self._queue.popleft())
            for one in self._running:
                for unit in one.start():
                    self._owners[unit.id] = one
                    units.append(unit)
            if any(not one.is_over for one in self._running):
                return units
            if not self._queue and not self._next_wave():
                return units

    def _next_wave(self) -> bool:
        """Begin the next wave; False if the flow has ended."""
        self._done.update(self._wave)
        self._left = [step for step in self._left if step not in self._done]
        ready = [
            step for step in self._left if all(one.id in self._done for one in self._spec.step(step).after)
        ]
        nodes = [step for step in ready if step in self._spec.nodes]
        self._wave = nodes or ready[:1]
        self._size = self._spec.concurrency if nodes else 1
        for step in self._wave:
            self._queue.extend(self._executions(step))
        return bool(self._wave)

    def _executions(self, step: str) -> Iterator[_Execution]:
        spec = self._spec
        if step in spec.nodes:
            yield _Execution(spec.nodes[step])
            return
        turns = (
            len(spec.pipelines[step].items or ()) if step in spec.pipelines else spec.loops[step].max_iters
        )
        for turn in range(turns):
            for name in spec.members(step):
                yield _Execution(spec.nodes[name], f"#{turn}")
