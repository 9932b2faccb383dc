"""Files of results as their readers see them: promptfoo's viewers, spreadsheets, Jenkins and GitLab, GitHub."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.evals.display.shop import HOSTILE, shop
from tests.evals.reports.eval_views import cell, matrix, view

from headway.display.evals.pull_request import MOST_CHARACTERS, code
from headway.display.evals.writers import WRITERS, must_be_writable, write
from headway.errors import HeadwayError, UsageError
from headway.evals.records import CellResult, EvalView


def written(tmp_path: Path, suffix: str, source: EvalView) -> str:
    path = tmp_path / f"results{suffix}"
    write(path, source)
    return path.read_bytes().decode()


# -- JSON --------------------------------------------------------------------------------------------------------


def test_the_json_has_promptfoos_shape(tmp_path: Path) -> None:
    data = json.loads(written(tmp_path, ".json", shop()))
    assert list(data) == ["evalId", "results", "config", "shareableUrl", "metadata"]
    results = data["results"]
    assert (results["version"], data["shareableUrl"]) == (3, None)
    assert results["stats"]["successes"] + results["stats"]["failures"] + results["stats"]["errors"] == 22
    assert len(results["results"]) == 22, "the cell that has not ended is left out"
    assert [prompt["provider"] for prompt in results["prompts"]] == ["gpt", "gpt", *["exec:./shop.sh"] * 2]
    metrics = results["prompts"][0]["metrics"]
    assert metrics["testPassCount"] + metrics["testFailCount"] + metrics["testErrorCount"] == 6
    assert metrics["namedScores"] == {"tone": 4.5, "tone per cell": 0.75}
    assert metrics["namedScoresCount"] == {"tone": 6}


def rows_of(tmp_path: Path, source: EvalView) -> dict[tuple[int, int], dict[str, Any]]:
    data = json.loads(written(tmp_path, ".json", source))
    return {(row["testIdx"], row["promptIdx"]): row for row in data["results"]["results"]}


def test_a_row_says_why_it_did_not_pass(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, shop())
    passed, failed, broken, late = rows[1, 0], rows[0, 0], rows[2, 3], rows[5, 2]
    assert [row["failureReason"] for row in (passed, failed, broken, late)] == [0, 1, 2, 2]
    assert "error" not in passed
    assert failed["error"] == "the answer does not contain 'pen': a pen"
    assert (broken["gradingResult"], broken["response"]) == (None, {"error": broken["error"]})
    assert passed["response"]["output"] == "A fine offer: =SUM(A1)"
    assert rows[1, 1]["response"]["output"] == {"offer": "=SUM(A1)"}, "an answer that is data stays data"


def test_parts_of_a_set_follow_it(tmp_path: Path) -> None:
    components = rows_of(tmp_path, shop())[1, 0]["gradingResult"]["componentResults"]
    types = [component["assertion"]["type"] for component in components]
    assert types == ["icontains", "llm-rubric", "assert-set", "icontains"]


def test_a_result_is_a_line(tmp_path: Path) -> None:
    lines = written(tmp_path, ".json", shop()).splitlines()
    assert sum(line.startswith('{"id":') for line in lines) == 22


def test_what_programs_put_into_an_answer(tmp_path: Path) -> None:
    """Half of a surrogate pair, and figures that JSON does not have."""
    source = view([cell(0, 0, output="\ud800 half"), cell(1, 0, output={"score": float("nan")}), cell(2, 0)])
    rows = rows_of(tmp_path, source)
    assert rows[0, 0]["response"]["output"] == "\ud800 half"
    assert rows[1, 0]["response"]["output"] == {"score": None}
    for suffix in WRITERS:
        assert "half" in written(tmp_path, suffix, source) or suffix in (".xml", ".md")


# -- CSV ---------------------------------------------------------------------------------------------------------


def test_the_csv_is_read_back(tmp_path: Path) -> None:
    head, *rows = csv.reader(io.StringIO(written(tmp_path, ".csv", shop()), newline=""))
    assert head[:5] == ["Description", "item", "count", "[gpt] Sell {{item}}", "Status"]
    assert {len(row) for row in rows} == {len(head)}
    assert rows[3][1] == HOSTILE
    assert [row[4] for row in rows] == ["FAIL", "PASS", "PASS", "FAIL", "PASS", "PASS"]
    assert rows[4][-6:] == [""] * 6, "there is no such cell"


def test_no_cell_is_a_formula(tmp_path: Path) -> None:
    path = tmp_path / "safe.csv"
    write(path, shop(), safe_cells=True)
    rows = list(csv.reader(io.StringIO(path.read_bytes().decode(), newline="")))
    assert rows[2][1] == "'=SUM(A1)"
    assert not [text for row in rows for text in row if text.lstrip().startswith(("=", "@"))]
    assert rows[1][2] == "0", "numbers stay numbers"


def test_a_csv_without_descriptions_has_no_such_column(tmp_path: Path) -> None:
    assert written(tmp_path, ".csv", matrix("pf")).startswith("x,[p0] Say {{x}},Status,")


# -- JUnit -------------------------------------------------------------------------------------------------------

#: Elements with their children and attributes, as the schema of Jenkins' xUnit plugin has them.
SCHEMA: dict[str, tuple[set[str], set[str]]] = {
    "testsuites": ({"testsuite"}, {"name", "tests", "failures", "errors", "skipped", "time"}),
    "testsuite": (
        {"properties", "testcase", "system-out", "system-err"},
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
    ),
    "properties": ({"property"}, set()),
    "property": (set(), {"name", "value"}),
    "testcase": ({"failure", "error", "skipped"}, {"name", "classname", "time"}),
    "failure": (set(), {"message", "type"}),
    "error": (set(), {"message", "type"}),
    "skipped": (set(), set()),
}


def test_the_xml_is_what_test_views_expect(tmp_path: Path) -> None:
    root = ElementTree.fromstring(written(tmp_path, ".xml", shop()))
    for element in root.iter():
        children, attributes = SCHEMA[element.tag]
        assert {child.tag for child in element} <= children
        assert set(element.attrib) <= attributes
    for suite in root:
        cases = suite.findall("testcase")
        assert int(suite.get("tests", "")) == len(cases)
        assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
        assert int(suite.get("errors", "")) == len(suite.findall("testcase/error"))
        assert int(suite.get("skipped", "")) == len(suite.findall("testcase/skipped"))
        assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)
    assert sum(int(suite.get("tests", "")) for suite in root) == int(root.get("tests", "")) == 23


def test_an_answer_cannot_close_its_element(tmp_path: Path) -> None:
    text = written(tmp_path, ".xml", shop())
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202e]", text)
    failure = ElementTree.fromstring(text).find("testsuite/testcase[@name='row 4']/failure")
    assert failure is not None
    assert "</failure>]]> <script>alert(1)</script>" in (failure.text or "")


# -- Markdown ----------------------------------------------------------------------------------------------------


def without_fences(text: str) -> str:
    """What Markdown reads as markup: fenced blocks are closed by a fence at least as long as their own."""
    kept, fence = [], ""
    for line in text.splitlines():
        if fence:
            if re.fullmatch(f"`{{{len(fence)},}}", line):
                fence = ""
        elif found := re.match("(`{3,})text$", line):
            fence = found[1]
        else:
            kept.append(line)
    assert not fence, "every block is closed"
    return "\n".join(kept)


def test_an_answer_is_never_markup(tmp_path: Path) -> None:
    markup = without_fences(written(tmp_path, ".md", shop()))
    for danger in ("script", "octocat", "evil", "\x1b", "\x00", "http"):
        assert danger not in markup
    assert markup.count("<details>") == markup.count("</details>") == 1


def test_a_name_is_never_markup() -> None:
    text = code("a_b_ | @me `x` <b> #1 [l](u) https://x.y\n\x1b[0m *")
    assert re.fullmatch(r"<code>(?:[a-zA-Z0-9 \-]|&#\d+;)*</code>", text)


def test_the_markdown_says_how_much_it_left_out(tmp_path: Path) -> None:
    cells = [cell(row, 0, "fail", output="long " * 300, reason=f"reason {row}") for row in range(300)]
    text = written(tmp_path, ".md", view(cells))
    assert 0.9 * MOST_CHARACTERS < len(text) <= MOST_CHARACTERS
    shown = text.count("**Row ")
    assert f"{300 - shown:,} more are left out." in text
    assert "300 did not pass" in text
    assert without_fences(text).rstrip().endswith("</details>")


def test_many_columns_fit(tmp_path: Path) -> None:
    text = written(tmp_path, ".md", matrix(*["pf"] * 300))
    assert len(text) <= MOST_CHARACTERS
    assert "250 more columns are left out." in text


def test_nothing_failed(tmp_path: Path) -> None:
    text = written(tmp_path, ".md", matrix("ppp"))
    assert "✅" in text
    assert "<details>" not in text


# -- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["results.pdf", "results", "results.jsonl"])
def test_an_unknown_form_is_refused_before_anything_is_sent(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be written as .* end the name with one of \.json, \.csv"):
        must_be_writable(tmp_path / name)


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    must_be_writable(tmp_path / "results.JSON")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(UsageError, match="is a folder"):
        must_be_writable(tmp_path / "folder.json")
    with pytest.raises(UsageError, match="there is no folder"):
        must_be_writable(tmp_path / "missing" / "results.json")


@pytest.mark.parametrize("suffix", list(WRITERS))
def test_a_file_is_replaced_as_a_whole(tmp_path: Path, suffix: str) -> None:
    """An eval that cannot be read to its end leaves the old file, and no other."""
    path = tmp_path / f"results{suffix}"
    path.write_text("old")
    whole = shop()

    def broken() -> Any:
        cells = whole.cells()
        yield from (next(cells) for _ in range(5))
        raise OSError(5, "Input/output error")

    source = EvalView(**{name: getattr(whole, name) for name in whole.__struct_fields__} | {"cells": broken})
    with pytest.raises(HeadwayError, match="cannot be written: input/output error"):
        write(path, source)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "old"


@pytest.mark.parametrize("suffix", list(WRITERS))
def test_an_eval_without_cells(tmp_path: Path, suffix: str) -> None:
    cells: list[CellResult] = []
    assert written(tmp_path, suffix, view(cells, shop().columns))
