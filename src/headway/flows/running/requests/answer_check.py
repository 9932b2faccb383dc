"""Checks the answers of a flow's units: the schema of their node, the keys of several `writes`, the types and schemas of fields.

An answer that does not fit is a failed attempt. A model gets it back once with what is wrong, where its API has conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from headway.batch.answer_schema import Mismatch, Validator, checked_schema, not_json
from headway.batch.answer_text import cut_short, decoded, filter_of, outgrew_context, refusal_of, text_of
from headway.batch.schema_adapter import complaint_of
from headway.engine.run_spec import RouteAnswerCheck
from headway.errors import HeadwayError, UsageError
from headway.flows.answer_form import appends, element_schema, field_of, is_json_answer
from headway.flows.field_types import fits, type_name
from headway.flows.json_depth import TOO_DEEP, is_too_deep
from headway.flows.running.flow_form import FlowForm, FlowNode, nodes_of
from headway.flows.running.state.field_parts import shape_problem, value_written
from headway.flows.spec import FlowSpec, NodeSpec
from headway.flows.value_of_answer import answer_text
from headway.providers.adapter import Answer, Complaint, Request
from headway.providers.dialects.dialect import KINDS
from headway.providers.dialects.structured_output import schema_dialect
from headway.providers.error_messages import short_message
from headway.stores.records import StoredRoute

_decode: Final = msgspec.json.Decoder().decode


class NodeAnswers:
    """What the answers of one node must be like."""

    def __init__(self, flow: FlowSpec, node: NodeSpec) -> None:
        self._flow, self._node = flow, node
        self.is_json = is_json_answer(flow, node)
        self._whole = None if node.schema is None else Validator(node.schema)
        self._fields: dict[str, Callable[[Any], list[Mismatch]]] = {}
        for name in node.writes:
            check = _field_check(flow, node, name)
            if check is not None:
                self._fields[name] = check

    @property
    def accepts_all(self) -> bool:
        """Whether there is nothing to check."""
        return (
            self._whole is None and not self._fields and len(self._node.writes) < 2 and not self._is_text_json
        )

    @property
    def _is_text_json(self) -> bool:
        return self._node.kind == "agent" and self.is_json

    def mismatches(self, text: str) -> list[Mismatch]:
        """What is wrong with the text of an agent's answer, as validators say it; none if it fits."""
        if not self.is_json:
            return self.wrong(text, b"")
        try:
            value = _decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            return [not_json(text, str(error).removeprefix("JSON is malformed: "))]
        return self.wrong(value, text.encode())

    def wrong(self, value: Any, encoded: bytes) -> list[Mismatch]:
        """What is wrong with a value; `encoded` is the same as JSON."""
        if self._whole is not None and (
            found := self._whole.mismatches((encoded or _encoded(value)).decode())
        ):
            return found
        if problem := shape_problem(self._node, value):
            return [Mismatch("", problem.removeprefix(f"{self._node.id}: "), "")]
        fields = self._fields.items()
        return [one for name, check in fields for one in check(value_written(self._node, name, value))]


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


def _field_check(flow: FlowSpec, node: NodeSpec, name: str) -> Callable[[Any], list[Mismatch]] | None:
    """The check of what a node writes to a field; None if anything fits."""
    field = field_of(flow, name)
    if appends(flow, node, name):
        items = element_schema(field)
        if items is None:
            return None
        element = Validator(items)
        one = node.for_each is not None

        def check_elements(value: Any) -> list[Mismatch]:
            elements = [value] if one or not isinstance(value, list) else value
            return [wrong for each in elements for wrong in _of_field(name, element, each)]

        return check_elements
    if field.type == "any" and field.schema is None:
        return None
    validator = None if field.schema is None else Validator(field.schema)

    def check(value: Any) -> list[Mismatch]:
        if not fits(field.type, value):
            return [Mismatch("", f"'{name}' must be of type {field.type}, not {type_name(value)}", "")]
        return [] if validator is None else _of_field(name, validator, value)

    return check


def _of_field(name: str, validator: Validator, value: Any) -> list[Mismatch]:
    found = validator.mismatches(_encoded(value).decode())
    return [Mismatch(f"{name}{one.place.removeprefix('answer')}", one.what, one.rule) for one in found]


def check_schemas(nodes: Sequence[FlowNode]) -> None:
    """Raise if a schema in a flow is none."""
    seen: set[int] = set()
    for path, flow, node in nodes:
        _check(f"{flow.path.name}, line {node.line}: {path}.schema", node.schema)
        if id(flow) not in seen:
            seen.add(id(flow))
            for field in flow.fields.values():
                _check(f"{flow.path.name}, line {field.line}: state.schema.{field.name}", field.schema)


def _check(place: str, schema: dict[str, Any] | None) -> None:
    if schema is not None:
        checked_schema(place, schema)


def route_check(form: FlowForm, routes: Sequence[StoredRoute]) -> RouteAnswerCheck:
    """Checks answers by the number of their route, whose label is the path of a node."""
    nodes = {path: (flow, node) for path, flow, node in nodes_of(form.spec)}
    by_number = {route.id: route for route in routes}
    made: dict[int, NodeAnswers] = {}

    def check(number: int, request: Request, answer: Answer) -> Answer:
        if number not in made:
            made[number] = NodeAnswers(*nodes[by_number[number].label])
        is_agent = nodes[by_number[number].label][1].kind == "agent"
        complaint = _complaint(by_number[number].kind, is_agent, made[number], request, answer)
        return answer if complaint is None else msgspec.structs.replace(answer, complaint=complaint)

    return check


def _complaint(
    kind: str, is_agent: bool, answers: NodeAnswers, request: Request, answer: Answer
) -> Complaint | None:
    if is_agent and kind in KINDS and (why := degraded(answer.body)):
        return Complaint(short_message(why))
    if _is_too_deep(is_agent, answers, answer.body):
        return Complaint(TOO_DEEP)
    if answers.accepts_all:
        return None
    if is_agent and schema_dialect(kind, request.path) is not None:
        return complaint_of(kind, answers, request, answer)
    if is_agent:
        try:
            wrong = answers.mismatches(answer_text(answer.body))
        except ValueError as error:
            return Complaint(short_message(str(error)))
    else:
        wrong = answers.wrong(_decode(answer.body), answer.body)
    return Complaint(short_message(f"the answer does not fit: {wrong[0]}")) if wrong else None


def _is_too_deep(is_agent: bool, answers: NodeAnswers, body: bytes) -> bool:
    """Whether the value is nested too deep: of a tool what it returned, of an agent the JSON in its text. Any other text has no levels."""
    if not is_agent:
        return is_too_deep(body)
    if not answers.is_json:
        return False
    try:
        text = answer_text(body).encode()
    except (
        ValueError
    ):  # The response of an API without a text, or a text that is no Unicode: it does not fit.
        return False
    if not is_too_deep(text):
        return False
    try:
        _decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return False
    except RecursionError:
        pass
    return True


def degraded(body: bytes) -> str:
    """Why the response of a chat API is no answer, although its status is a success; "" if it is one. A repair would not help."""
    response = decoded(body)
    refusal, word = refusal_of(response), filter_of(response)
    if refusal is not None:
        return f"the model refused: {refusal}"
    if word is not None:
        return f"the provider filtered the answer: {word}"
    if cut_short(response):
        return "the answer was cut short by max_tokens"
    if outgrew_context(response):
        return "the answer was cut short by the context window of the model"
    return "" if (text_of(response) or "").strip() else "the answer has no text"


def check_value(flow: FlowSpec, node: NodeSpec, value: Any, name: str) -> None:
    """Raise UsageError if a value that a user gives cannot be the answer of a node. `name` is where it comes from."""
    try:
        encoded = _encoded(value)
        wrong = [] if is_too_deep(encoded) else NodeAnswers(flow, node).wrong(value, encoded)
    except RecursionError:
        raise UsageError(f"{name}: {TOO_DEEP}", hint="give another --answer") from None
    except HeadwayError as error:
        raise UsageError(f"{name}: {error.message}", hint=error.hint) from None
    if is_too_deep(encoded):
        raise UsageError(f"{name}: {TOO_DEEP}", hint="give another --answer")
    if wrong:
        raise UsageError(f"{name}: {wrong[0]}", hint="give another --answer")
