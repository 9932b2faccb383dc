"""How many items each list of a flow has, before it runs: of a `for_each`, of a pipeline, and the iterations of a loop.

Some lengths are known: lists in the file, what the user gave, the rows of a data set, and what follows from them. The others are taken from
the last run of the same flow, and otherwise assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from headway.flows.expressions import parse_expression
from headway.flows.spec import FlowSpec, LoopSpec, NodeSpec, PipelineSpec

#: Assumed where nothing is known.
FIRST_ITEMS: Final = 10
MOST_ITEMS: Final = 1_000_000_000


class ListSize(msgspec.Struct, frozen=True):
    """The length of a list. `known`: it does not depend on answers. Otherwise `why` says what it was taken from."""

    count: int
    known: bool = True
    why: str = ""


#: The length that a list had in the last run, by its path; None: it is not known.
LastSize = Callable[[str], int | None]


def list_sizes(
    spec: FlowSpec, inputs: Mapping[str, Any], rows: Mapping[str, int], last: LastSize, prefix: str = ""
) -> dict[str, ListSize]:
    """The length of every list, also of inner flows, by its path. `rows` has the numbers of rows of data sets."""
    return dict(_Sizes(spec, inputs, rows, last, prefix).all())


class _Sizes:
    """The lists of one flow."""

    def __init__(
        self, spec: FlowSpec, inputs: Mapping[str, Any], rows: Mapping[str, int], last: LastSize, prefix: str
    ) -> None:
        self._spec, self._inputs, self._rows, self._last, self._prefix = spec, inputs, rows, last, prefix
        #: Nodes whose lengths are being found: a field may depend on itself.
        self._open: set[str] = set()

    def all(self) -> Iterator[tuple[str, ListSize]]:
        for node in self._spec.nodes.values():
            path = self._prefix + node.id
            if node.for_each is not None:
                yield path, self._of_node(node)
            if node.inner is not None:
                # What the inner flow reads comes from answers, or is the same for each of its runs.
                yield from list_sizes(node.inner, {}, self._rows, self._last, path + "/").items()
        for pipeline in self._spec.pipelines.values():
            yield self._prefix + pipeline.id, self._of_pipeline(pipeline)
        for loop in self._spec.loops.values():
            yield self._prefix + loop.id, self._of_loop(loop)

    def _of_node(self, node: NodeSpec) -> ListSize:
        assert node.for_each is not None
        if node.for_each.items is not None:
            return ListSize(len(node.for_each.items))
        return self._of_source(node.id, node.for_each.source)

    def _of_pipeline(self, pipeline: PipelineSpec) -> ListSize:
        if pipeline.items is not None:
            return ListSize(len(pipeline.items))
        return self._of_source(pipeline.id, pipeline.source)

    def _of_loop(self, loop: LoopSpec) -> ListSize:
        if not loop.until:
            return ListSize(loop.max_iters)
        return self._guess(loop.id, "iterations", loop.max_iters)

    def _of_source(self, name: str, source: str) -> ListSize:
        known = self._length_of(source)
        return ListSize(known) if known is not None else self._guess(name, "items")

    def _guess(self, name: str, what: str, most: int = MOST_ITEMS) -> ListSize:
        before = self._last(self._prefix + name)
        if before is not None:
            return ListSize(min(before, most), False, f"{min(before, most):,} {what} as in the last run")
        return ListSize(min(FIRST_ITEMS, most), False, f"{min(FIRST_ITEMS, most)} {what} assumed")

    def _length_of(self, source: str) -> int | None:
        """The length of the list that an expression names; None if answers decide it."""
        path = parse_expression(source)
        writers = {writer for field in path.fields for writer in self._spec.writers(field)}
        if not writers:
            value = path.value(self._given())
            return len(value) if isinstance(value, list) else None
        writer = self._spec.nodes[min(writers)]
        if len(writers) > 1 or writer.id in self._open or self._inputs.keys() & set(path.fields):
            return None
        if source != f"$.{path.fields[0]}" or writer.group:
            return None
        if writer.kind == "dataset":
            return self._rows.get(self._prefix + writer.id) if len(writer.writes) == 1 else None
        self._open.add(writer.id)
        each = None if writer.for_each is None else self._of_node(writer)
        self._open.discard(writer.id)
        return each.count if each is not None and each.known else None

    def _given(self) -> dict[str, Any]:
        defaults = {field.name: field.default for field in self._spec.fields.values() if field.has_default}
        return defaults | dict(self._inputs)
