"""Draws a flow as text, as a Mermaid diagram, or as one HTML page without scripts or other files.

Names and conditions come from the file and are escaped for each format.
"""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from headway.flows.spec import Dependency, FlowSpec, LoopSpec, NodeSpec, PipelineSpec
from headway.safe_text import one_line

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _LINE = 190, 34, 70, 22, 24
_STYLE: Final = (
    "body{font:14px system-ui,sans-serif;margin:2em}rect{fill:#eef3fb;stroke:#4a6fa5}"
    ".group rect{fill:#fbf4e6;stroke:#b98a2f}text{font:12px system-ui,sans-serif}"
    ".small{fill:#666}path{fill:none;stroke:#888}"
)


def flow_text(flow: FlowSpec) -> str:
    """A line for each step, in an order in which they may run; members are indented."""
    lines = [
        one_line(
            f"{flow.name}: {_count(len(flow.nodes), 'node')}, {_concurrency(flow.concurrency)} at a time"
        )
    ]
    if flow.inputs:
        lines.append(f"inputs: {', '.join(flow.inputs)}")
    for name in flow.step_order:
        lines.append(_text_line(flow, name, ""))
        if name not in flow.nodes:
            lines += [_text_line(flow, member, "  ") for member in flow.members(name)]
    return "\n".join(lines)


def _text_line(flow: FlowSpec, name: str, indent: str) -> str:
    step = flow.step(name)
    after = ", ".join(_waits(one) for one in step.after)
    return one_line(f"{indent}{name}  ({details(step)})" + (f"  ← {after}" if after else ""))


def _waits(one: Dependency) -> str:
    fields = f" [{', '.join(one.fields)}]" if one.fields else ""
    return f"{one.id}{fields}" + (f" when {one.when}" if one.when else "")


def details(step: NodeSpec | PipelineSpec | LoopSpec) -> str:
    """What a step is, in a few words."""
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


def _items(source: str, items: tuple[object, ...] | None) -> str:
    return source if items is None else _count(len(items), "item")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _concurrency(number: int) -> str:
    return f"{number:,}" if number else "any number"


def flow_mermaid(flow: FlowSpec) -> str:
    """A Mermaid flowchart. Nodes are numbered, so that no name can be taken for syntax."""
    numbers = {name: f"n{number}" for number, name in enumerate((*flow.nodes, *flow.pipelines, *flow.loops))}
    lines = ["flowchart LR"]
    for name in flow.step_order:
        if name in flow.nodes:
            lines.append(f"  {_mermaid_box(flow, name, numbers)}")
            continue
        label = _mermaid_text(f"{name}: {details(flow.step(name))}")
        lines.append(f'  subgraph {numbers[name]}["{label}"]')
        lines += [f"    {_mermaid_box(flow, member, numbers)}" for member in flow.members(name)]
        lines += [
            f"    {line}" for member in flow.members(name) for line in _mermaid_arrows(flow, member, numbers)
        ]
        lines.append("  end")
    lines += [f"  {line}" for name in flow.step_order for line in _mermaid_arrows(flow, name, numbers)]
    return "\n".join(lines)


def _mermaid_box(flow: FlowSpec, name: str, numbers: dict[str, str]) -> str:
    label = f"{_mermaid_text(name)}<br/>{_mermaid_text(details(flow.nodes[name]))}"
    return f'{numbers[name]}["{label}"]'


def _mermaid_arrows(flow: FlowSpec, name: str, numbers: dict[str, str]) -> Iterator[str]:
    for one in flow.step(name).after:
        label = _mermaid_text(one.when or ", ".join(one.fields))
        arrow = f'-- "{label}" -->' if label else "-->"
        yield f"{numbers[one.id]} {arrow} {numbers[name]}"


def _mermaid_text(text: str) -> str:
    """Every character but letters, digits and harmless marks as an entity."""
    return "".join(one if one.isalnum() or one in " _-.,:$" else f"#{ord(one)};" for one in one_line(text))


def flow_html(flow: FlowSpec) -> str:
    """A page with the graph as SVG, and a table of the nodes."""
    title = _escaped(flow.name)
    rows = "".join(
        f"<tr><td>{_escaped(node.id)}</td><td>{_escaped(details(node))}</td><td>{_escaped(', '.join(node.reads))}</td>"
        f"<td>{_escaped(', '.join(node.writes))}</td></tr>"
        for node in flow.nodes.values()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1><p>{_escaped(flow.description)}</p>{_svg(flow)}"
        f"<table><tr><th>node<th>what<th>reads<th>writes</tr>{rows}</table></html>\n"
    )


def _escaped(text: str) -> str:
    return html.escape(one_line(text))


def _svg(flow: FlowSpec) -> str:
    places, width, height = _layout(flow)
    parts = [part for name in flow.step_order for part in _arrows(flow, name, places)]
    parts += [_box(flow, name, *places[name]) for name in flow.step_order]
    return f'<svg width="{width}" height="{height}" role="img">{"".join(parts)}</svg>'


def _layout(flow: FlowSpec) -> tuple[dict[str, tuple[int, int]], int, int]:
    """The upper left corner of each step: one column for each length of the longest way to it."""
    columns: dict[str, int] = {}
    bottoms: dict[int, int] = defaultdict(int)
    places = {}
    for name in flow.step_order:
        column = columns[name] = max((columns[one.id] + 1 for one in flow.step(name).after), default=0)
        places[name] = (column * (_WIDTH + _GAP_X) + 5, bottoms[column] + 5)
        bottoms[column] += _box_height(flow, name) + _GAP_Y
    return places, (max(columns.values()) + 1) * (_WIDTH + _GAP_X), max(bottoms.values()) + 5


def _box_height(flow: FlowSpec, name: str) -> int:
    return _HEIGHT if name in flow.nodes else _HEIGHT + _LINE * len(flow.members(name))


def _box(flow: FlowSpec, name: str, x: int, y: int) -> str:
    step = flow.step(name)
    members = () if name in flow.nodes else flow.members(name)
    lines = "".join(
        f'<text x="{x + 16}" y="{y + _HEIGHT + _LINE * place + 12}">{_escaped(_short(member))}</text>'
        for place, member in enumerate(members)
    )
    return (
        f'<g class="{"group" if members else "node"}"><title>{_escaped(f"{name}: {details(step)}")}</title>'
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_box_height(flow, name)}" rx="5"/>'
        f'<text x="{x + 8}" y="{y + 14}">{_escaped(_short(name))}</text>'
        f'<text class="small" x="{x + 8}" y="{y + 28}">{_escaped(_short(details(step)))}</text>{lines}</g>'
    )


def _arrows(flow: FlowSpec, name: str, places: dict[str, tuple[int, int]]) -> Iterator[str]:
    x2, y2 = places[name][0], places[name][1] + _HEIGHT // 2
    for one in flow.step(name).after:
        x1, y1 = places[one.id][0] + _WIDTH, places[one.id][1] + _HEIGHT // 2
        middle = (x1 + x2) // 2
        label = _escaped(one.when or ", ".join(one.fields))
        yield f'<path d="M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"><title>{label}</title></path>'


def _short(text: str) -> str:
    return text if len(text) <= 28 else text[:27] + "…"


FORMATS: Final[dict[str, Callable[[FlowSpec], str]]] = {
    "text": flow_text,
    "mermaid": flow_mermaid,
    "html": flow_html,
}
