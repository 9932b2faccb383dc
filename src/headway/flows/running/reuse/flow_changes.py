"""What a changed flow runs again, known before it starts: a comparison with the last job of the same file, and, for nodes that have no
answers there (`--until`), with the newest one that has some. PURE.

A node is kept if the parts of its key that are known beforehand are the same, and if nothing that it reads can change. It runs again if
one of those parts has changed, or if it reads what another node writes that runs again, a changed input, or a changed data set. In the latter case
that is a forecast: units whose reads and items turn out to be the same keep their answers all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from headway.flows.expressions import parse_expression
from headway.flows.running.flow_form import FlowForm, FlowNode, nodes_of
from headway.flows.running.reuse.key_context import KeyContext, has_units, parts_of
from headway.flows.running.reuse.unit_key import Parts
from headway.flows.spec import FlowSpec, NodeSpec

#: Nodes that a line names.
MOST_NAMED: Final = 8
_WORDS: Final = {
    "spec": "its spec has changed",
    "prompt": "its prompt has changed",
    "tool": "its tool has changed",
    "schema": "the form of its answers has changed",
    "args": "its args have changed",
    "model": "its model has changed",
}


class KeptNode(msgspec.Struct, frozen=True):
    """A node whose answers stay, and how many it has."""

    node: str
    units: int


class RunNode(msgspec.Struct, frozen=True):
    """A node that runs again. `reasons`: why, the first one first. `units`: the answers that it had."""

    node: str
    reasons: tuple[str, ...]
    units: int = 0


class EarlierRun(msgspec.Struct, frozen=True):
    """A job of the same file. `answers`: how many each node has. `older`: contexts of earlier runs of the job, with the number of answers of each
    node that were made in them.
    """

    form: FlowForm
    context: KeyContext
    answers: Mapping[str, int]
    older: Sequence[tuple[KeyContext, Mapping[str, int]]] = ()


class FlowChanges(msgspec.Struct, frozen=True):
    """What changes against the job `since`."""

    since: str
    kept: tuple[KeptNode, ...] = ()
    again: tuple[RunNode, ...] = ()
    #: Nodes that have no answers yet, although they are in both.
    unfinished: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    #: What people approved is not kept.
    asked: tuple[str, ...] = ()

    def lines(self, name: str) -> list[str]:
        """For people. `name` is the file of the flow."""
        lines = [f"{name} was run before as job {self.since}; what has not changed is kept:"]
        total = sum(one.units for one in self.kept)
        kept = [f"{one.node} ({_units(one.units)})" for one in self.kept]
        if kept:
            all_kept = f" ({_units(total)})" if len(kept) > 1 else ""
            lines.append(f"  kept{all_kept}: {_listed(kept)}")
        lines += [f"  runs again: {one.node}: {one.reasons[0]}" for one in self.again[:MOST_NAMED]]
        if len(self.again) > MOST_NAMED:
            lines.append(f"  runs again: {len(self.again) - MOST_NAMED:,} more")
        for word, names in (
            ("not finished before", self.unfinished),
            ("new", self.new),
            ("removed", self.removed),
            ("asked again", self.asked),
        ):
            if names:
                lines.append(f"  {word}: {_listed(list(names))}")
        return lines


def flow_changes(
    since: str,
    earlier: Iterable[EarlierRun],
    now: tuple[FlowForm, KeyContext],
    again: Mapping[str, str],
) -> FlowChanges:
    """Compare a flow with the jobs before it, the last one (`since`) first. `again`: why nodes run again by `--from`, by path."""
    jobs = iter(earlier)
    last = next(jobs)
    present = [one.path for one in nodes_of(now[0].spec) if has_units(one)]
    reasons, answers = _compared(chain((last,), jobs), now, again, present)
    before = {one.path for one in nodes_of(last.form.spec) if has_units(one)}
    old = before | answers.keys()
    return FlowChanges(
        since,
        tuple(KeptNode(path, answers[path]) for path in present if path not in reasons and path in answers),
        tuple(
            RunNode(path, tuple(reasons[path]), answers.get(path, 0))
            for path in present
            if path in reasons and path in old
        ),
        tuple(path for path in present if path in old and path not in reasons and path not in answers),
        tuple(path for path in present if path not in old),
        tuple(sorted(before - set(present))),
        tuple(one.path for one in nodes_of(now[0].spec) if one.node.kind == "human"),
    )


def _compared(
    earlier: Iterable[EarlierRun],
    now: tuple[FlowForm, KeyContext],
    again: Mapping[str, str],
    present: Sequence[str],
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Why nodes run again, and how many answers each has: by the newest job that has answers of it; if none has, by the last job."""
    reasons: dict[str, list[str]] = {}
    answers: dict[str, int] = {}
    for before in earlier:
        missing = [path for path in present if path not in answers]
        found = [path for path in missing if path in before.answers]
        is_last = not reasons and not answers
        if found or is_last:
            why = _Reasons(before, now, again).found()
            judged = missing if is_last else found
            reasons = {path: one for path, one in reasons.items() if path not in judged}
            reasons |= {path: why[path] for path in judged if path in why}
            answers |= {path: before.answers[path] for path in found}
        if len(found) == len(missing):
            break
    return reasons, answers


class _Reasons:
    """Why nodes run again. A field is named with the path of its flow: `sub/labels`."""

    def __init__(
        self,
        before: EarlierRun,
        now: tuple[FlowForm, KeyContext],
        again: Mapping[str, str],
    ) -> None:
        self._again = again
        self._older = [(parts_of(before.form, context), units) for context, units in before.older]
        self._old_form, self._form = before.form, now[0]
        self._old_parts, self._parts = parts_of(before.form, before.context), parts_of(*now)
        self._old = {one.path: one for one in nodes_of(self._old_form.spec)}
        self._nodes = list(nodes_of(self._form.spec))
        self._why: dict[str, list[str]] = {}
        #: Fields that may have another value, and why.
        self._fields: dict[str, str] = {}

    def found(self) -> dict[str, list[str]]:
        """The reasons by node."""
        for name, why in self._changed_inputs():
            self._fields[name] = why
        for one in self._nodes:
            if reasons := list(self._own_reasons(one)):
                self._mark(one, reasons)
        while self._spread():
            pass
        return self._why

    def _changed_inputs(self) -> Iterator[tuple[str, str]]:
        old, new = self._old_form.inputs, self._form.inputs
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name) or (name in old) != (name in new):
                yield name, f"the input {name}, which has changed"
        for prefix, spec in _flows(self._form.spec):
            known = dict(_flows(self._old_form.spec)).get(prefix)
            for name, field in spec.fields.items():
                other = None if known is None else known.fields.get(name)
                if other is not None and (field.default, field.merge) != (other.default, other.merge):
                    yield prefix + name, f"the field {name}, whose default has changed"

    def _own_reasons(self, one: FlowNode) -> Iterator[str]:
        path, _, node = one
        if path in self._again:
            yield self._again[path]
        before = self._old.get(path)
        if before is None:
            yield "it is new"
            return
        new = self._parts.get(path, {})
        yield from _differing(self._old_parts.get(path, {}), new)
        for parts, units in self._older:
            if (
                units.get(path, 0) > 0
            ):  # The job went on with another tool or model, and these answers stayed.
                made = f"{_units(units[path])} made before"
                yield from (f"{why} ({made})" for why in _differing(parts.get(path, {}), new))
        if _items_of(before) != _items_of(one):
            yield "its items have changed"
        if self._old_form.datasets.get(path) != self._form.datasets.get(path):
            yield "its rows have changed"
        if node.kind == "flow" and before.node.args != node.args:
            yield _WORDS["args"]

    def _mark(self, one: FlowNode, reasons: list[str]) -> None:
        """A node runs again: what it writes may change. The nodes inside it see its args and its items."""
        path, _, node = one
        known = self._why.setdefault(path, [])
        known += [why for why in reasons if why not in known]
        prefix = path[: len(path) - len(node.id)]
        why = "whose rows have changed" if node.kind == "dataset" else "which runs again"
        for name in node.writes:
            self._fields.setdefault(prefix + name, f"{name} of {path}, {why}")

    def _spread(self) -> bool:
        """Let nodes follow that read what may change; returns whether there were any."""
        fields = len(self._fields)
        marked = len(self._why)
        for one in self._nodes:
            if one.path not in self._why and (why := self._reads_changed(one)):
                self._mark(one, [f"it reads {why}"])
            if one.node.kind == "flow":
                self._enter(one)
        return (len(self._fields), len(self._why)) != (fields, marked)

    def _reads_changed(self, one: FlowNode) -> str:
        path, flow, node = one
        prefix = path[: len(path) - len(node.id)]
        names = (*node.reads, *_source_fields(flow, node))
        return next((self._fields[prefix + name] for name in names if prefix + name in self._fields), "")

    def _enter(self, one: FlowNode) -> None:
        """What a node gives to the flow that it runs, and what it takes from it."""
        path, _, node = one
        assert node.inner is not None
        outer, inner = path[: len(path) - len(node.id)], f"{path}/"
        before = self._old.get(path)
        for name in node.inner.fields.keys() | set(node.inner.inputs):
            why = self._fields.get(outer + name) if name in node.reads else None
            if before is not None and before.node.args.get(name) != node.args.get(name):
                why = f"the args of {path}, which have changed"
            if name == "item" and path in self._why:
                why = f"the items of {path}, which may change"
            if why is not None:
                self._fields.setdefault(inner + name, why)
        for name in node.writes:
            if inner + name in self._fields:
                self._fields.setdefault(outer + name, self._fields[inner + name])


def _differing(old: Parts, new: Parts) -> Iterator[str]:
    """The parts of a node's keys that differ, in words."""
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name) and name in _WORDS:
            yield _reason(name, old.get(name), new.get(name))


def _reason(part: str, old: Any, new: Any) -> str:
    if part == "model" and old and new and old[2] != new[2]:
        return f"its model has changed: {old[2]} → {new[2]}"
    if part == "model" and old and new:
        address = f" {old[1]} → {new[1]}" if old[1] != new[1] else ""
        return f"its provider has changed{':' if address else ''}{address}"
    if part == "args":
        keys = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
        return f"its args have changed: {', '.join(keys)}"
    if part == "tool" and old and new:
        files = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
        return f"its tool has changed: {', '.join(files)}"
    return _WORDS[part]


def _items_of(one: FlowNode) -> Any:
    """What its iterations are made from, as far as the file says it."""
    _, flow, node = one
    group = flow.pipelines.get(node.group)
    each = node.for_each
    return (
        None if each is None else [each.source, each.items],
        None if group is None else [group.source, group.items],
    )


def _source_fields(flow: FlowSpec, node: NodeSpec) -> list[str]:
    """The fields that its items come from."""
    group = flow.pipelines.get(node.group)
    sources = [
        node.for_each.source if node.for_each is not None else "",
        "" if group is None else group.source,
    ]
    return [field for source in sources if source for field in sorted(parse_expression(source).fields)]


def _flows(spec: FlowSpec, prefix: str = "") -> Iterator[tuple[str, FlowSpec]]:
    yield prefix, spec
    for node in spec.nodes.values():
        if node.inner is not None:
            yield from _flows(node.inner, f"{prefix}{node.id}/")


def _units(count: int) -> str:
    return "1 unit" if count == 1 else f"{count:,} units"


def _listed(names: list[str]) -> str:
    more = f", and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
