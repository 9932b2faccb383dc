"""A simple sequential model of flows: one step after the other, one item after the other, with plain lists and dicts.

It knows nothing of how a run is organised. What it shares with the run is the flow itself, and what steps wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway.flows.expressions import parse_expression
from headway.flows.spec import Dependency, FlowSpec, LoopSpec, NodeSpec, PipelineSpec

#: What a unit sees → its answer; None: it fails.
Answering = Callable[[str, dict[str, Any]], dict[str, Any] | None]
COST = 0.25


class SequentialModel:
    """The outcome of a flow. `rows` has those of data sets, by node path."""

    def __init__(
        self,
        spec: FlowSpec,
        inputs: dict[str, Any],
        answer: Answering,
        rows: dict[str, list[Any]],
        prefix: str = "",
        path: str = "",
    ) -> None:
        self.spec, self.answer, self.rows, self.prefix, self.path = spec, answer, rows, prefix, path
        #: (field, the turn of a group or None, values, whether they are elements)
        self.writes: list[tuple[str, int | None, list[Any], bool]] = []
        self.given = inputs
        self.setters = dict.fromkeys(inputs, "the input")
        self.outcomes: dict[str, str] = {}
        self.executed: dict[str, bool] = {}
        self.failed_inside = False
        self.cost = 0.0

    # -- the state ------------------------------------------------------------------------------------------------------

    def state(self, hidden: Callable[[str, int | None], bool] = lambda field, turn: False) -> dict[str, Any]:
        """Every field that has a value, without the hidden writes."""
        values: dict[str, Any] = {}
        for name in {*self.spec.fields, *self.given, *(one[0] for one in self.writes)}:
            field = self.spec.fields.get(name)
            writes = [one for one in self.writes if one[0] == name and not hidden(name, one[1])]
            if field is not None and field.merge == "array_append":
                if name in self.given:
                    value = self.given[name]
                    start = list(value) if isinstance(value, list) else [value]
                else:
                    start = list(field.default) if field.has_default else []
                if writes or name in self.given or field.has_default:
                    values[name] = start + [one for _, _, elements, _ in writes for one in elements]
                continue
            last = [elements[-1] for _, _, elements, _ in writes if elements]
            if last:
                values[name] = last[-1]
            elif name in self.given:
                values[name] = self.given[name]
            elif field is not None and field.has_default:
                values[name] = field.default
        return values

    def _appends(self, name: str) -> bool:
        field = self.spec.fields.get(name)
        return field is not None and field.merge == "array_append"

    def _write(self, node: NodeSpec, turn: int | None, values: list[dict[str, Any]], each: bool) -> None:
        for name in node.writes:
            found = [one[name] for one in values]
            if self._appends(name) and not each:
                found = found[0] if isinstance(found[0], list) else found
            elif not self._appends(name) and not found:
                continue
            self.writes.append((name, turn, found, True))

    # -- steps ------------------------------------------------------------------------------------------------------------

    def run(self) -> str:
        """Run everything; returns the status."""
        for step_id in self.spec.step_order:
            step = self.spec.step(step_id)
            when = step.when if isinstance(step, NodeSpec) else ""
            skip = self._skip(step.after, self.outcomes, self.state(), when)
            if skip:
                self.outcomes[step_id] = skip
            elif isinstance(step, NodeSpec):
                self.outcomes[step_id] = self._node(step, self.state(), None, None)
            elif isinstance(step, PipelineSpec):
                self.outcomes[step_id] = self._pipeline(step)
            else:
                self.outcomes[step_id] = self._loop(step)
        return self._status()

    def _status(self) -> str:
        counted = [one for one in self.outcomes.values() if one != "condition"]
        if counted and "success" not in counted:
            return "failed"
        whole = all(one == "success" for one in counted) and not self.failed_inside
        return "success" if whole else "partial"

    def _skip(
        self, after: tuple[Dependency, ...], outcomes: dict[str, str], state: dict[str, Any], when: str
    ) -> str:
        for one in after:
            end = outcomes[one.id]
            has_values = all(name in state for name in one.fields)
            if end != "success" and not (end == "condition" and not one.edge and has_values):
                return "condition" if end == "condition" else "skipped"
        conditions = [one.when for one in after if one.when] + ([when] if when else [])
        return "" if all(parse_expression(one).is_true(state) for one in conditions) else "condition"

    # -- nodes ------------------------------------------------------------------------------------------------------------

    def _node(self, node: NodeSpec, state: dict[str, Any], turn: int | None, turn_item: Any) -> str:
        name = node.id if turn is None else f"{node.id}#{turn}"
        if node.kind == "dataset":
            rows = self.rows[self.path + node.id]
            self._write(node, turn, [dict.fromkeys(node.writes, rows)], False)
            return "success"
        items: Any = None
        if node.for_each is not None:
            each = node.for_each
            items = list(each.items) if each.items is not None else parse_expression(each.source).value(state)
            if not isinstance(items, list):
                return "failed"
        seen = {field: state[field] for field in node.reads if field in state}
        units = (
            [(name, turn, turn_item)]
            if items is None
            else [(f"{name}[{n}]", n, item) for n, item in enumerate(items)]
        )
        done = [self._unit(node, unit, index, item, seen) for unit, index, item in units]
        good = [values for values in done if values is not None]
        tolerated = 0 if node.for_each is None else node.for_each.max_failures.allowed(len(units))
        if len(done) - len(good) > tolerated or not self._claim(node, len(good)):
            return "failed"
        self._write(node, turn, good, node.for_each is not None)
        return "success"

    def _claim(self, node: NodeSpec, times: int) -> bool:
        once = [
            name
            for name in node.writes
            if (field := self.spec.fields.get(name)) and field.merge == "set_once"
        ]
        if any(name in self.setters for name in once) or (once and times > 1):
            return False
        self.setters.update(dict.fromkeys(once, node.id))
        return True

    def _unit(
        self, node: NodeSpec, unit: str, index: int | None, item: Any, seen: dict[str, Any]
    ) -> dict[str, Any] | None:
        if node.kind == "flow":
            return self._inner(node, unit, index, item, seen)
        full = self.prefix + unit
        self.cost += COST
        answer = self.answer(
            full, {"state": seen, "item": item, "index": index, "args": node.args, "node": node}
        )
        self.executed[full] = answer is not None
        return answer

    def _inner(
        self, node: NodeSpec, unit: str, index: int | None, item: Any, seen: dict[str, Any]
    ) -> dict[str, Any] | None:
        assert node.inner is not None
        known = node.inner.fields
        turn = {} if index is None else {"item": item, "index": index}
        inputs = {name: value for name, value in turn.items() if name in known} | seen | node.args
        if any(name not in inputs for name in node.inner.inputs):
            return None
        model = SequentialModel(
            node.inner, inputs, self.answer, self.rows, f"{self.prefix}{unit}/", f"{self.path}{node.id}/"
        )
        status = model.run()
        self.executed |= model.executed
        self.cost += model.cost
        state = model.state()
        if status != "success" or any(name not in state for name in node.writes):
            return None
        return {name: state[name] for name in node.writes}

    # -- pipelines and loops ------------------------------------------------------------------------------------------------

    def _pipeline(self, spec: PipelineSpec) -> str:
        items = (
            list(spec.items) if spec.items is not None else parse_expression(spec.source).value(self.state())
        )
        if not isinstance(items, list):
            return "failed"
        failed, first = 0, len(self.writes)
        for number, item in enumerate(items):
            outcomes: dict[str, str] = {}
            for place, name in enumerate(spec.stages):
                node = self.spec.nodes[name]
                carried = self._carried(spec, place)
                own = {id(one) for one in self.writes[first:] if one[1] != number}
                state = self._state_without(own, carried)
                outcomes[name] = self._member(node, state, outcomes, number, item)
            failed += "failed" in outcomes.values()
        self.failed_inside |= failed > 0
        return "failed" if failed and failed == len(items) else "success"

    def _state_without(self, writes: set[int], carried: set[str]) -> dict[str, Any]:
        everything = self.writes
        self.writes = [one for one in everything if id(one) not in writes or one[0] in carried]
        try:
            return self.state()
        finally:
            self.writes = everything

    def _carried(self, spec: PipelineSpec, place: int) -> set[str]:
        node = self.spec.nodes[spec.stages[place]]
        conditions = [field for one in node.after if one.when for field in parse_expression(one.when).fields]
        later = {field for name in spec.stages[place:] for field in self.spec.nodes[name].writes}
        return {*node.reads, *node.expression_reads, *conditions} & later

    def _member(
        self, node: NodeSpec, state: dict[str, Any], outcomes: dict[str, str], turn: int, item: Any
    ) -> str:
        return self._skip(node.after, outcomes, state, node.when) or self._node(node, state, turn, item)

    def _loop(self, spec: LoopSpec) -> str:
        begun = self.cost
        for number in range(spec.max_iters):
            if spec.until and parse_expression(spec.until).is_true(self.state()):
                break
            if spec.budget_usd is not None and self.cost - begun >= spec.budget_usd:
                break
            outcomes: dict[str, str] = {}
            for name in spec.body:
                outcomes[name] = self._member(self.spec.nodes[name], self.state(), outcomes, number, None)
            if "failed" in outcomes.values():
                return "failed"
        return "success"
