"""Answers of models: what is read, what is compared with the file, and what is sent back once."""

from __future__ import annotations

import json
from contextlib import suppress
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reviews.findings.answers import PATH, TEXT, answer, item

from headway.reviews.findings.answer_schema import FINDINGS_SCHEMA, MOST_READ, Unreadable, answered_findings
from headway.reviews.findings.checking import AxisAnswer, read_answer, read_correction
from headway.reviews.findings.source_text import SourceText
from headway.reviews.records import SEVERITIES

SOURCE = SourceText(PATH, TEXT)


def read(text: str) -> AxisAnswer:
    return read_answer(text, SOURCE, "security")


@pytest.mark.parametrize(
    "form", ["{}", "Here is my review:\n```json\n{}\n```\nThat is all.", "<think>[1] is fine</think>{}"]
)
def test_an_answer_is_found_in_prose_and_fences(form: str) -> None:
    result = read(form.replace("{}", answer(item())))
    assert [each.rule for each in result.findings] == ["command-injection"]
    assert result.correction == ""


def test_a_list_without_its_object_and_an_empty_answer_are_read() -> None:
    assert len(read(json.dumps([item()])).findings) == 1
    assert read('{"findings": []}') == AxisAnswer()


@pytest.mark.parametrize(
    "text", ["The list a[] is fine, and so is {}.", '[{"a": 1}]', '{"findings": "none"}', "[1, 2]"]
)
def test_brackets_in_prose_are_no_answer(text: str) -> None:
    assert read(text).unreadable


def test_the_last_answer_counts() -> None:
    draft = answer(item(rule="race"))
    [finding] = read(f"First I thought {draft}, but {{x[0]}} shows: {answer(item())}").findings
    assert finding.rule == "command-injection"
    assert read(f"Not {draft} but nothing: {answer()}").findings == ()


def test_all_findings_of_a_broken_list_are_read() -> None:
    other = item(rule="race", start_line=4, end_line=4, quote="VAT = 1.19")
    cut = read(answer(other, item(), item())[:-30])
    bare = read(f"First: {json.dumps(other)} Second: {json.dumps(item())}")
    assert [each.rule for each in cut.findings] == ["race", "command-injection"]
    assert cut.findings == bare.findings
    assert "Findings after number 2 cannot be read" in cut.correction
    assert bare.correction == ""


def test_much_code_before_the_answer_does_not_hide_it() -> None:
    assert len(read("if (a[0]) { b(); }\n" * 1_000 + answer(item())).findings) == 1


def test_an_item_that_is_no_object_is_named() -> None:
    result = read('{"findings": ["all bad"]}')
    assert "Finding 1 of your list is no object." in result.correction


def test_an_answer_that_fits_the_schema_is_read_whole() -> None:
    validator = pytest.importorskip("jsonschema_rs").validator_for(FINDINGS_SCHEMA)
    value = json.loads(answer(*(item(severity=severity) for severity in SEVERITIES)))
    assert validator.is_valid(value)
    findings, problems = answered_findings(json.dumps(value))
    assert ([each.severity for each in findings], problems) == (list(SEVERITIES), [])
    del value["findings"][0]["quote"]
    assert not validator.is_valid(value)


@pytest.mark.parametrize(
    ("change", "name", "expected"),
    [
        ({"severity": "Warning"}, "severity", "medium"),
        ({"severity": " HIGH "}, "severity", "high"),
        ({"confidence": "85%"}, "confidence", 0.85),
        ({"confidence": 85}, "confidence", 0.85),
        ({"confidence": None}, "confidence", 0.5),
        ({"confidence": 1}, "confidence", 1.0),
        ({"rule": "SQL Injection!"}, "rule", "sql-injection"),
        ({"rule": ""}, "rule", "other"),
        ({"start_line": "L9", "end_line": None}, "end_line", 9),
        ({"start_line": 12, "end_line": 8}, "start_line", 8),
        ({"quote": '    9| os.system("rm " + name)'}, "quote", '        os.system("rm " + name)'),
    ],
)
def test_other_spellings_have_one_meaning(change: dict[str, Any], name: str, expected: object) -> None:
    [finding] = read(answer(item(**change))).findings
    assert getattr(finding, name) == expected


def test_lines_follow_the_quote() -> None:
    [finding] = read(answer(item(start_line=1, end_line=1))).findings
    assert (finding.start_line, finding.end_line, finding.mark) == (9, 9, "")
    [wide] = read(answer(item(start_line=7, end_line=11))).findings
    assert (wide.start_line, wide.end_line) == (7, 11), "a range that has the quote stays"


def test_a_wrong_line_and_a_wrong_quote_are_sent_back_once_and_then_marked() -> None:
    wrong_line, wrong_quote = item(start_line=99, end_line=99), item(quote="os.remove(name)", rule="race")
    first = read(answer(item(), wrong_line, wrong_quote))
    assert [each.mark for each in first.doubtful] == ["no_such_line", "no_such_quote"]
    assert "lines 99 to 99: you were given lines 1 to 25" in first.correction
    assert "does not have the quote 'os.remove(name)'" in first.correction
    corrected = item(rule="race", quote="import os", start_line=1, end_line=1)
    second = read_correction(first, answer(corrected, wrong_line), SOURCE, "security")
    assert [(each.rule, each.mark) for each in second.all_findings] == [
        ("command-injection", ""),
        ("race", ""),
        ("command-injection", "no_such_line"),
    ]
    assert second.correction == "", "nothing is asked a third time"


def test_what_the_correction_leaves_out_is_withdrawn() -> None:
    first = read(answer(item(), item(start_line=99, end_line=99)))
    second = read_correction(first, answer(), SOURCE, "security")
    assert second.all_findings == first.findings


def test_findings_that_the_correction_repeats_are_not_doubled() -> None:
    first = read(answer(item(), item(start_line=99, end_line=99)))
    second = read_correction(first, answer(item()), SOURCE, "security")
    assert second.all_findings == first.findings


def test_a_correction_that_cannot_be_read_marks_what_was_doubtful() -> None:
    first = read(answer(item(), item(quote="nothing like it")))
    second = read_correction(first, "I am sure that I was right.", SOURCE, "security")
    assert [each.mark for each in second.all_findings] == ["", "no_such_quote"]
    assert second.unreadable == ""


def test_an_unreadable_answer_is_asked_for_again() -> None:
    first = read("I found nothing.")
    assert first.unreadable
    assert "cannot be read" in first.correction
    again = read_correction(first, answer(item()), SOURCE, "security")
    assert (len(again.findings), again.unreadable) == (1, "")
    assert read_correction(first, "Still nothing.", SOURCE, "security").unreadable


def test_items_that_cannot_be_read_are_named() -> None:
    result = read(answer(item(severity="terrible"), item(start_line="somewhere"), item(message=" "), item()))
    assert len(result.findings) == 1
    assert len(result.problems) == 3
    for problem in result.problems:
        assert problem in result.correction


def test_an_answer_without_one_readable_finding_is_unreadable() -> None:
    first = read(answer(item(severity="terrible"), item(message=" ")))
    assert "Finding 2 of your list has no message" in first.unreadable
    assert first.unreadable in first.correction
    assert read_correction(first, answer(item(severity="awful")), SOURCE, "security").unreadable
    assert read_correction(first, answer(), SOURCE, "security").unreadable == ""


def test_more_findings_than_can_be_read_are_not_cut_silently() -> None:
    result = read(answer(*[item()] * (MOST_READ + 1)))
    assert len(result.findings) == MOST_READ
    assert f"only the first {MOST_READ} can be read" in result.correction


def test_lines_of_a_part_are_those_of_the_file() -> None:
    part = SourceText(PATH, "".join(TEXT.splitlines(keepends=True)[6:12]), first_line=7)
    result = read_answer(answer(item(), item(start_line=3, end_line=3)), part, "security")
    assert [each.start_line for each in result.findings] == [9]
    assert [each.mark for each in result.doubtful] == ["no_such_line"]


@given(st.text('{}[]":,findgs 0129\\ntrue\n', max_size=200))
def test_no_answer_breaks_the_reader(text: str) -> None:
    with suppress(Unreadable):
        findings, problems = answered_findings(text)
        assert len(findings) + len(problems) <= MOST_READ + 1


def test_short_quotes_in_a_large_file_are_quick() -> None:
    source = SourceText(PATH, "if (x) {\n    y();\n}\n" * 20_000)
    items = [item(quote="}", start_line=3 * n, end_line=3 * n) for n in range(10_000, 10_200)]
    began = perf_counter()
    result = read_answer(answer(*items), source, "security")
    assert [each.start_line for each in result.findings] == [3 * n for n in range(10_000, 10_200)]
    assert len({each.fingerprint for each in result.findings}) == 200
    assert perf_counter() - began < 20


def test_a_deep_answer_is_unreadable_and_quick() -> None:
    assert read("[" * 100_000).unreadable
    assert read('{"findings":' + "[" * 50_000).unreadable
