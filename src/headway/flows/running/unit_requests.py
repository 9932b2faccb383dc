"""The requests of a flow's units, and the value of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from headway.batch.answer_text import answer_of, plain_text
from headway.batch.rows import BadRow, from_fields
from headway.config.routing import Router, Target
from headway.errors import UsageError
from headway.flows.running.node_run import NextUnit
from headway.flows.running.prompt_text import prompt_of
from headway.flows.running.tool_programs import PREFIX, tool_row
from headway.flows.spec import NodeSpec
from headway.stores.records import NewUnit, StoredRoute

_decode: Final = msgspec.json.Decoder().decode


def model_of(node: NodeSpec) -> str:
    """The model of an agent node, as a row of a batch names it; "": the one of headway.toml."""
    return f"{node.provider}/{node.model}" if node.provider else node.model


class UnitRequests:
    """Makes the units of one job, by its name. `prompts` has the text of each prompt file, by node."""

    def __init__(
        self,
        job: str,
        models: Mapping[str, tuple[str, str, str]],
        routes: list[StoredRoute],
        prompts: Mapping[str, str],
    ) -> None:
        self._job, self._models, self._prompts = job, models, prompts
        self._by_target = {(route.provider, route.model): route for route in routes}

    def new_unit(self, node: NodeSpec, unit: NextUnit) -> NewUnit:
        """The unit with its request. Raises UsageError if its prompt has a name without a value."""
        if node.kind == "tool":
            route = self._by_target[PREFIX + node.id, node.id]
            body = tool_row(unit, self._job)
            return NewUnit(unit.id, route.id, route.kind, body, len(body))
        provider, _, model = self._models[model_of(node)]
        route = self._by_target[provider, model]
        router = cast(Router, _OneTarget(Target(route.provider, route.kind, route.model)))
        prompt = prompt_of(self._prompts[node.id], unit)
        row = from_fields(1, {"id": unit.id, "prompt": prompt, "model": route.model}, router)
        if isinstance(row, BadRow):
            raise UsageError(f"{node.id}: {row.message}")
        return NewUnit(row.custom_id, route.id, row.path, row.body, row.chars, int(row.max_tokens))


class _OneTarget:
    """A router that knows one target."""

    takes_any_row = True

    def __init__(self, target: Target) -> None:
        self._target = target

    def route(self, model: str | None) -> Target:
        return self._target

    def check_row(self, target: Target, payload: object) -> None:
        """Its row has a prompt, and no settings of its own."""


def answer_value(node: NodeSpec, body: bytes) -> Any:
    """The value of an answer: the JSON of a tool, the text of an agent. A text for several fields is read as JSON."""
    if node.kind == "tool":
        return _decode(body)
    text = plain_text(body)
    text = answer_of(body) if text is None else text
    if len(node.writes) < 2:
        return text
    try:
        return _decode(text.encode())
    except msgspec.DecodeError:
        return text
