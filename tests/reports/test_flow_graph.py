"""The graph of a flow after its run: text, Mermaid and a page that loads nothing and contains only text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.reports.flow_records import FlowRecords, book

from headway.display.flows.graph_html import flow_html
from headway.display.flows.graph_mermaid import flow_mermaid
from headway.display.flows.graph_text import flow_text
from headway.display.flows.outcome_text import took_text
from headway.reports.flows.flow_report import FlowReport, flow_report


@pytest.fixture
def records(tmp_path: Path) -> FlowRecords:
    return book(tmp_path)


@pytest.fixture
def report(records: FlowRecords) -> FlowReport:
    return flow_report(records.store, records.job, "failed")


def test_the_text_has_the_outcome_of_each_node(records: FlowRecords, report: FlowReport) -> None:
    lines = flow_text(records.flow, report).splitlines()
    assert lines[:2] == [
        "<b>book</b>: 6 nodes, 1 at a time",
        "job book-1: failed, 9.0 s, $0.6100; 1 waits for you, 1 failed, 3 done, 1 skipped",
    ]
    assert "✓ split  (tool) *  — done, 1/1, 2.0 s, $0.0100" in lines
    assert "✗ cover  (tool)  — failed, 1/1, 1 failed, 1.0 s: <script>alert(1)</script>" in lines
    assert "  ✓ translate  (tool)  — done, 2/2, 5.5 s, $0.4000, 2 attempts rate-limited" in lines
    assert any(line.startswith("– bind") and line.endswith("skipped: cover failed") for line in lines)
    assert lines[-1] == "critical path (9.0 s): split 2.0 s → book 6.5 s (after 0.5 s of waiting)"


def test_the_text_without_a_run_has_no_outcome(records: FlowRecords) -> None:
    assert flow_text(records.flow).splitlines()[1:3] == ["split  (tool)", "cover  (tool)"]


def test_mermaid_is_coloured_and_marks_the_path(records: FlowRecords, report: FlowReport) -> None:
    chart = flow_mermaid(records.flow, report)
    assert "<script>" not in chart
    assert "classDef failed fill" in chart
    numbers = dict(re.findall(r'(n\d+)\["(\w+)', chart))
    by_name = {name: number for number, name in numbers.items()}
    assert re.search(rf"class (\w+,)*{by_name['cover']} failed", chart)
    assert f"class {by_name['split']},{by_name['book']} critical" in chart
    [bold] = re.findall(r"linkStyle (\d+) stroke-width", chart)
    arrows = [line for line in chart.splitlines() if "-->" in line]
    assert arrows[int(bold)].split() == [by_name["split"], "--", '"chapters"', "-->", by_name["book"]]


class Page(HTMLParser):
    """The tags of a page, its anchors and where its links go."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.append((name, value or ""))
            if name == "id":
                self.ids.append(value or "")
            if tag == "a" and name == "href":
                self.links.append(value or "")


def test_the_page_loads_nothing_and_has_no_text_of_others_as_code(
    records: FlowRecords, report: FlowReport
) -> None:
    text = flow_html(records.flow, report)
    page = Page()
    page.feed(text)
    assert page.tags & {"script", "img", "link", "iframe", "object", "style"} == {"style"}
    assert "://" not in text
    assert "@import" not in text
    assert "url(" not in text
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<b>book</b>" not in text
    assert "prefers-color-scheme:dark" in text


def test_every_box_of_the_page_is_a_link_to_the_row_of_its_node(
    records: FlowRecords, report: FlowReport
) -> None:
    for given in (report, None):
        page = Page()
        page.feed(flow_html(records.flow, given))
        assert len(page.links) == 5
        assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
        assert len(page.ids) == len(set(page.ids)) == 7


def test_the_nodes_of_an_inner_flow_are_in_every_form(tmp_path: Path, records: FlowRecords) -> None:
    (tmp_path / "sub.yaml").write_text(
        "graph: {nodes: [{id: write, kind: tool, impl: './tools/step.py:main', reads: [item], writes: [text]},"
        "{id: short, kind: tool, impl: './tools/step.py:main', reads: [text], writes: [report]}]}"
    )
    flow = FlowRecords(
        tmp_path,
        "graph: {nodes: [{id: each, kind: flow, file: ./sub.yaml, for_each: {source: [1, 2]}, writes: [report]}]}",
        name="outer", store=records.store,
    ).flow  # fmt: skip
    assert "  each/short  (tool)  ← write [text]" in flow_text(flow).splitlines()
    chart = flow_mermaid(flow)
    numbers = {name: number for number, name in re.findall(r'(n\d+)\["([\w/]+)', chart)}
    assert f"subgraph {numbers['each']}[" in chart
    assert f'{numbers["each/write"]} -- "text" --> {numbers["each/short"]}' in chart
    page = flow_html(flow)
    table = page.partition("<tbody>")[2]
    assert re.findall(r'<tr id="(n\d)"><td[^>]*>([\w/]+)<', table) == [
        ("n0", "each"),
        ("n1", "each/write"),
        ("n2", "each/short"),
    ]
    assert "each/short" in page.partition("</svg>")[0]


def test_a_node_that_is_new_in_the_file_has_no_outcome(
    tmp_path: Path, records: FlowRecords, report: FlowReport
) -> None:
    newer = FlowRecords(
        tmp_path,
        "graph: {nodes: [{id: split, kind: tool, impl: './tools/step.py:main'}, {id: new, kind: tool, impl: './tools/step.py:main'}]}",
        name="other", store=records.store,
    ).flow  # fmt: skip
    assert "new  (tool)" in flow_text(newer, report)
    assert "not in this job" in flow_html(newer, report)
    assert "new" in flow_mermaid(newer, report)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0.0 s"), (0.02, "20 ms"), (0.5, "0.5 s"), (200.0, "3m 20s")]
)
def test_short_times_are_in_milliseconds(seconds: float, text: str) -> None:
    assert took_text(seconds) == text


def test_what_has_nodes_inside_counts_their_units(records: FlowRecords, report: FlowReport) -> None:
    lines = flow_text(records.flow, report).splitlines()
    [book] = [line for line in lines if " book  (pipeline" in line]
    [translate] = [line for line in lines if " translate  (tool" in line]
    assert "4/4 units" in book
    assert "2/2, " in translate
