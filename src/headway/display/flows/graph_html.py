"""`headway graph --format html`: one page with the graph as SVG and a table of the nodes, after a run with its outcome.

The page has no scripts and loads nothing. It contains text only: names, reasons and messages are escaped. It follows the light or dark
theme of the browser, and every box of the graph is a link to its row, so that the Tab key reaches it.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Final

from headway.display.flows.graph_rows import GraphRow, graph_rows
from headway.display.flows.graph_svg import flow_svg
from headway.display.flows.node_text import MARKS, approve_text, status_word
from headway.display.flows.outcome_text import items_of, path_step_text, run_text, took_text
from headway.display.formatting import duration, iso, money
from headway.flows.spec import FlowSpec
from headway.flows.step_text import details, size_text
from headway.reports.flows.flow_report import FlowReport, NodeOutcome
from headway.safe_text import one_line

_STYLE: Final = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1c2430;--soft:#5d6878;--line:#c9d1dc;--box:#f4f6fa;--edge:#8793a5;--link:#1a5fb4;
--success:#2f8f46;--failed:#c0392b;--running:#2c6cb0;--waiting:#a86f00;--interrupted:#a8590a;--skipped:#7c7c7c;--pending:#9aa4b2;--ready:#2c6cb0}
@media (prefers-color-scheme:dark){:root{--bg:#14181f;--fg:#e4e9f0;--soft:#9aa6b6;--line:#343d4a;--box:#1e2530;--edge:#67748a;--link:#7db4ff;
--success:#5fcf7c;--failed:#ff7b72;--running:#6cb1ff;--waiting:#f0b847;--interrupted:#f0974a;--skipped:#8d97a5;--pending:#6d7888;--ready:#6cb1ff}}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem;background:var(--bg);color:var(--fg)}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}p{margin:.3rem 0;max-width:60rem}.soft{color:var(--soft)}
.graph{overflow:auto;margin:1rem 0;border:1px solid var(--line);border-radius:6px;padding:8px}
a{color:var(--link)}a:focus-visible{outline:3px solid var(--link);outline-offset:2px}
svg{display:block}svg text{font:12px system-ui,sans-serif;fill:var(--fg)}svg .small{font-size:11px;fill:var(--soft)}
svg rect{fill:var(--box);stroke:var(--edge)}svg path{fill:none;stroke:var(--edge)}svg .tip{fill:var(--edge)}svg .tip.critical{fill:var(--fg)}svg path.critical{stroke:var(--fg);stroke-width:3}
svg .critical rect{stroke-width:3}svg a:focus-visible rect{stroke:var(--link);stroke-width:4}svg a{outline:none}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600}.right{text-align:right;white-space:nowrap}tr:target{background:var(--box)}
.span{min-width:9rem}.span div{height:.8rem;margin-top:.35rem;border-radius:2px;min-width:2px;background:currentColor}
"""
_STATUSES: Final = tuple(MARKS)


def flow_html(flow: FlowSpec, report: FlowReport | None = None) -> str:
    """The page."""
    title = _escaped(flow.name)
    style = _STYLE + "".join(
        f"svg .{status} rect{{stroke:var(--{status})}}svg .{status} .mark,.s-{status}{{color:var(--{status});fill:var(--{status})}}"
        for status in _STATUSES
    )
    description = f"<p>{_escaped(flow.description)}</p>" if flow.description else ""
    run = "" if report is None else _run(report)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{style}</style></head><body>"
        f'<h1>{title}</h1>{description}<p class="soft">{_escaped(size_text(flow))}</p>{run}'
        f'<div class="graph" tabindex="0" role="group" aria-label="The graph">{flow_svg(flow, report)}</div>'
        f"<h2>Nodes</h2>{_table(flow, report)}</body></html>\n"
    )


def _run(report: FlowReport) -> str:
    began = "" if report.started_utc is None else f'<p class="soft">began {iso(report.started_utc)}</p>'
    steps = "".join(f"<li>{_escaped(path_step_text(step))}</li>" for step in report.critical_path)
    path = f"<h2>Critical path</h2><ol>{steps}</ol>" if steps else ""
    return f"<p><strong>{_escaped(run_text(report))}</strong></p>{began}{path}"


def _table(flow: FlowSpec, report: FlowReport | None) -> str:
    outcomes = {} if report is None else report.by_name()
    head = "<th>node<th>what"
    if report is not None:
        head += '<th>outcome<th class="right">items<th class="right">start<th class="right">took<th>when<th class="right">cost'
    head += "<th>reads<th>writes"
    rows = "".join(
        _row(row, number, outcomes.get(row.path), report) for number, row in enumerate(graph_rows(flow))
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _row(row: GraphRow, number: int, outcome: NodeOutcome | None, report: FlowReport | None) -> str:
    step = row.step
    reads, writes = getattr(step, "reads", ()), getattr(step, "writes", ())
    indent = f' style="padding-left:{0.6 + 1.4 * row.depth:.1f}rem"' if row.depth else ""
    cells = f"<td{indent}>{_escaped(row.path)}</td><td>{_escaped(details(step))}</td>"
    if report is not None:
        cells += "".join(_outcome_cells(outcome, report))
    cells += f"<td>{_escaped(', '.join(reads))}</td><td>{_escaped(', '.join(writes))}</td>"
    return f'<tr id="n{number}">{cells}</tr>'


def _outcome_cells(node: NodeOutcome | None, report: FlowReport) -> Iterator[str]:
    if node is None:
        yield '<td colspan="6" class="soft">not in this job</td>'
        return
    told = node.reason
    if node.status == "waiting":
        told = approve_text(report.job, node.name, (node.waiting,) if node.waiting else ())
    why = f'<br><span class="soft">{_escaped(told)}</span>' if told else ""
    critical = " · critical path" if node.critical else ""
    yield f'<td><span class="s-{node.status}">{MARKS[node.status]} {status_word(node.status)}</span>{critical}{why}</td>'
    yield f'<td class="right">{_escaped(items_of(node))}</td>'
    began, took = report.started_utc, node.took_s
    if node.started_utc is None or node.ended_utc is None or took is None or began is None:
        yield '<td></td><td></td><td class="span"></td>'
    else:
        whole = max(1e-9, (report.ended_utc or node.ended_utc) - began)
        left = 100.0 * max(0.0, node.started_utc - began) / whole
        yield f'<td class="right" title="{iso(node.started_utc)}">+{duration(max(0.0, node.started_utc - began))}</td>'
        yield f'<td class="right" title="ended {iso(node.ended_utc)}">{took_text(took)}</td>'
        bar = f'<div class="s-{node.status}" style="margin-left:{left:.2f}%;width:{100.0 * took / whole:.2f}%"></div>'
        yield f'<td class="span">{bar}</td>'
    yield f'<td class="right">{money(node.cost_usd) if node.cost_usd else ""}</td>'


def _escaped(text: str) -> str:
    return html.escape(one_line(text))
