"""The requests of a flow's units: each goes to the route whose label is the path of its node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from headway.batch.rows import BadRow, from_fields
from headway.config import KINDS
from headway.config.routing import Router, Target
from headway.errors import UsageError
from headway.flows.answer_form import request_schema
from headway.flows.running.flow_form import FlowForm, FlowNode, nodes_of
from headway.flows.running.requests.prompt_text import prompt_of
from headway.flows.running.requests.tool_programs import target_of, tool_request
from headway.flows.running.steps.node_run import NextUnit
from headway.providers.dialects.structured_output import SchemaRequests
from headway.stores.records import NewUnit, StoredRoute

#: Makes the unit of one node.
Make = Callable[[NextUnit], NewUnit]


class UnitRequests:
    """Makes the units of one job, by its name."""

    def __init__(self, job: str, form: FlowForm, routes: Sequence[StoredRoute]) -> None:
        self._job, self._form = job, form
        self._nodes = {one.path: one for one in nodes_of(form.spec)}
        self._routes = {route.label: route for route in routes}
        self._makes: dict[str, Make] = {}

    def new_unit(self, unit: NextUnit) -> NewUnit:
        """The unit with its request. Raises UsageError if its prompt has a name without a value."""
        make = self._makes.get(unit.node)
        if make is None:
            make = self._makes[unit.node] = self._make_of(self._nodes[unit.node])
        return make(unit)

    def _make_of(self, one: FlowNode) -> Make:
        route = self._routes[one.path]
        return self._tool(one, route) if one.node.kind == "tool" else self._agent(one, route)

    def _tool(self, one: FlowNode, route: StoredRoute) -> Make:
        path = target_of(one.node, self._form.spec.path.parent).path

        def make(unit: NextUnit) -> NewUnit:
            body = tool_request(one.node, unit, self._job)
            return NewUnit(unit.id, route.id, path, body, len(body))

        return make

    def _agent(self, one: FlowNode, route: StoredRoute) -> Make:
        template = self._form.prompts[one.path]
        router = cast(Router, _OneTarget(Target(route.provider, route.kind, route.model)))
        schema = request_schema(one.flow, one.node)
        schemas = None if schema is None else SchemaRequests(schema)
        instruction = ""
        if (
            schemas is not None and KINDS[route.kind].takes_any_row
        ):  # Its requests have no place for a schema.
            instruction, schemas = f"\n\n{schemas.instruction}", None

        def make(unit: NextUnit) -> NewUnit:
            prompt = prompt_of(template, unit, self._job) + instruction
            row = from_fields(1, {"id": unit.id, "prompt": prompt, "model": route.model}, router, schemas)
            if isinstance(row, BadRow):
                raise UsageError(f"{unit.node}: {row.message}")
            return NewUnit(row.custom_id, route.id, row.path, row.body, row.chars, int(row.max_tokens))

        return make


class _OneTarget:
    """A router that knows one target."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.takes_any_row = KINDS[target.kind].takes_any_row

    def route(self, model: str | None) -> Target:
        return self._target

    def check_row(self, target: Target, payload: object) -> None:
        """Its row has a prompt, and no settings of its own."""
