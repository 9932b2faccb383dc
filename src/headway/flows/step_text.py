"""What a step of a flow is and what it waits for, in a few words."""

from __future__ import annotations

from headway.flows.spec import Dependency, FlowSpec, LoopSpec, NodeSpec, PipelineSpec


def details(step: NodeSpec | PipelineSpec | LoopSpec) -> str:
    """What a step is."""
    if isinstance(step, PipelineSpec):
        return f"pipeline over {_items(step.source, step.items)}, {_concurrency(step.concurrency)} at a time"
    if isinstance(step, LoopSpec):
        until = f"until {step.until}, " if step.until else ""
        budget = f", ${step.budget_usd:g}" if step.budget_usd is not None else ""
        return f"loop {until}at most {_count(step.max_iters, 'iteration')}{budget}"
    each = step.for_each
    words: list[str] = [step.kind]
    if each is not None:
        words.append(
            f"for each of {_items(each.source, each.items)}, {_concurrency(each.concurrency)} at a time"
        )
    if step.when:
        words.append(f"when {step.when}")
    return ", ".join(words)


def count_nodes(flow: FlowSpec) -> int:
    """How many nodes it has, with those of the flows that its nodes run. Pipelines and loops are no nodes."""
    inner = (node.inner for node in flow.nodes.values())
    return len(flow.nodes) + sum(count_nodes(one) for one in inner if one is not None)


def size_text(flow: FlowSpec) -> str:
    """ "review: 6 nodes, 4 at a time"."""
    return f"{flow.name}: {_count(count_nodes(flow), 'node')}, {_concurrency(flow.concurrency)} at a time"


def waits_text(step: NodeSpec | PipelineSpec | LoopSpec) -> str:
    """What a step waits for: "split [chapters], check when $.ok"."""
    return ", ".join(_waits(one) for one in step.after)


def arrow_label(one: Dependency) -> str:
    """The text on an arrow: its condition, or the fields that are read."""
    return one.when or ", ".join(one.fields)


def _waits(one: Dependency) -> str:
    fields = f" [{', '.join(one.fields)}]" if one.fields else ""
    return f"{one.id}{fields}" + (f" when {one.when}" if one.when else "")


def _items(source: str, items: tuple[object, ...] | None) -> str:
    return source if items is None else _count(len(items), "item")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _concurrency(number: int) -> str:
    return f"{number:,}" if number else "any number"
