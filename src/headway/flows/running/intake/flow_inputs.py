"""What the user gives a flow: `--state FILE.json`, and `--arg key=value`, which wins. Checked against the fields of its state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from headway.config.near_names import near_name
from headway.errors import UsageError
from headway.flows.field_types import fits, type_name
from headway.flows.spec import FlowSpec, StateField


def inputs_of(spec: FlowSpec, flags: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are given. Raises UsageError if one does not fit, or if one that the flow needs is missing."""
    from_file = _from_file(flags.get("state"))
    for name, value in from_file.items():
        _check(spec, name, value, f"--state {flags.get('state')}")
    inputs = {**from_file, **_from_args(spec, flags.get("arg") or ())}
    missing = [name for name in spec.inputs if name not in inputs]
    if missing:
        raise UsageError(
            f"{spec.path.name} needs a value of {', '.join(missing)}",
            hint=f"give it with --arg {missing[0]}=VALUE",
        )
    places = {
        name: f"--arg {name}" if name not in from_file else f"--state {flags['state']}" for name in inputs
    }
    _check_sources(spec, inputs, places)
    say = flags.get("warn")
    if say is not None:
        for line in _overwritten(spec, inputs):
            say(line)
    return inputs


def checked_inputs(spec: FlowSpec, state: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a program gives. Raises as `inputs_of`."""
    for name, value in state.items():
        _check(spec, name, value, "state")
    missing = [name for name in spec.inputs if name not in state]
    if missing:
        raise UsageError(f"{spec.name} needs a value of {', '.join(missing)}", hint="give it in state=")
    _check_sources(spec, state, dict.fromkeys(state, "state"))
    return dict(state)


def _check_sources(spec: FlowSpec, inputs: Mapping[str, Any], places: Mapping[str, str]) -> None:
    """Raise UsageError if a field whose items are run is no list, and no node writes it before; or if a node sets it, too."""
    for name in inputs:
        if spec.fields[name].merge == "set_once" and (writers := spec.writers(name)):
            raise UsageError(
                f"{places[name]}: '{name}' can be set once, and {writers[0]} writes it",
                hint="leave it out, or let the field have another merge",
            )
    written = {name for node in spec.nodes.values() for name in node.writes}
    sources = [
        (node.id, "for_each.source", node.for_each.source) for node in spec.nodes.values() if node.for_each
    ]
    sources += [(group.id, "items", group.source) for group in spec.pipelines.values()]
    for user, key, source in sources:
        name = source.removeprefix("$.")
        if name in inputs and name not in written and not isinstance(inputs[name], list):
            raise UsageError(
                f"{places[name]}: '{name}' must be a list, not {type_name(inputs[name])}: {user}.{key} is {source}",
                hint=f"such as --arg '{name}=[1, 2]'",
            )


def _overwritten(spec: FlowSpec, inputs: Mapping[str, Any]) -> Iterator[str]:
    """A line for each given value that nothing reads before a node writes its field."""
    for name in inputs:
        writers = [node.id for node in spec.nodes.values() if name in node.writes]
        readers = [node for node in spec.nodes.values() if name in (*node.reads, *node.expression_reads)]
        in_groups = any(node.group for node in spec.nodes.values() if name in node.writes)
        if not writers or in_groups or spec.fields[name].merge != "last_wins":
            continue
        if all(any(name in one.fields for one in node.after) for node in readers):
            yield f"the value of {name} is replaced: {' and '.join(writers)} writes {name}"


def _from_file(path: Path | str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        found = msgspec.json.decode(Path(path).read_bytes())
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"--state {path}: {why}", hint="name a file with a JSON object") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UsageError(
            f"--state {path}: not JSON: {error}", hint="name a file with a JSON object"
        ) from None
    if not isinstance(found, dict):
        raise UsageError(f"--state {path} is not a JSON object", hint='write {"field": value}')
    return found


def _from_args(spec: FlowSpec, args: Iterable[str]) -> dict[str, Any]:
    """A value that is JSON is read as JSON, unless the field is a text; any other is a text."""
    values: dict[str, Any] = {}
    for arg in args:
        name, equals, text = arg.partition("=")
        if not equals or not name:
            raise UsageError(f"--arg {arg}: expected key=value", hint="such as --arg topic=trains")
        if name in values:
            raise UsageError(f"--arg {name} is given twice", hint="give each key one value")
        field = spec.fields.get(name)
        values[name] = text if field is not None and field.type == "string" else _value(text)
        _check(spec, name, values[name], f"--arg {name}")
    return values


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def _check(spec: FlowSpec, name: str, value: Any, place: str) -> None:
    field = spec.fields.get(name)
    if field is None:
        near = near_name(name, spec.fields)
        known = f"its fields are {', '.join(spec.fields)}" if spec.fields else "its state has no fields"
        raise UsageError(
            f"{place}: {spec.path.name} has no field '{name}'",
            hint=f"did you mean '{near}'?" if near else known,
        )
    if not fits(field.type, value):
        raise UsageError(f"{place}: '{name}' must be of type {field.type}, not {type_name(value)}")
    if field.schema is not None:
        _check_schema(field, value, place)


def _check_schema(field: StateField, value: Any, place: str) -> None:
    from headway.batch.answer_schema import Validator  # imports a validator

    wrong = Validator(field.schema or {}).mismatches(msgspec.json.encode(value).decode())
    if wrong:
        raise UsageError(f"{place}: {field.name}{str(wrong[0]).removeprefix('answer')}")
