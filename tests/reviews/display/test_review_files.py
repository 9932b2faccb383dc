"""Reports as Markdown and JSON, the text on the terminal, and the writers by suffix."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs
from tests.reviews.display.review_views import (
    AXES,
    HOSTILE,
    finding,
    hostile_review,
    large_review,
    shop_files,
    shop_review,
    view_of,
)

from headway.display.reviews.markdown_text import prose
from headway.display.reviews.review_markdown import file_markdown
from headway.display.reviews.review_text import MOST_FINDINGS, gate_text, review_text
from headway.display.reviews.review_writers import REVIEW_WRITERS, must_be_report, write_report
from headway.errors import UsageError
from headway.reviews.records import FileReview, ReviewView

#: Tags that the report itself writes.
CODE_SPAN = re.compile(r"(?<![`\\])(`+)(?!`)(.+?)(?<!`)\1(?!`)")
OWN_TAG = re.compile(r"</?(?:details|summary|sub)>")


def written(tmp_path: Path, view: ReviewView, name: str) -> str:
    [path] = write_report(tmp_path / name, view)
    return path.read_text(encoding="utf-8")


def outside_code(markdown: str) -> str:
    """The Markdown without its blocks of code."""
    lines: list[str] = []
    fence = ""
    for line in markdown.split("\n"):
        run = re.match(r"`{3,}", line)
        if fence:
            fence = "" if line == fence else fence
        elif run:
            fence = run[0]
        else:
            lines.append(line)
    assert fence == "", "every block ends"
    return "\n".join(lines)


def test_the_report_has_every_finding_with_its_code(tmp_path: Path) -> None:
    text = written(tmp_path, shop_review(), "review.md")
    assert "**6 findings in 2 files: 1 critical, 1 high, 2 medium, 1 low, 1 info (not counted:" in text
    for review in shop_files():
        for one in review.findings:
            assert one.quote in text
            assert f"`{one.rule}`" in text
    assert "| `correctness` |  | 1 | 1 |  |  |" in text
    assert "`src/shop/payments.py`: error (`security`, `performance`)" in text
    assert "- `logo.png`: binary" in text
    assert text.index("critical: `sql-injection") < text.index("low: `magic-value")


def test_a_file_has_a_review_of_its_own() -> None:
    cart, legacy, _, models, _ = shop_files()
    text = file_markdown(cart, AXES)
    assert text.startswith("# `src/shop/cart.py`\n\n**DONE**")
    assert "- `correctness`: done, 1 critical, 1 high" in text
    assert "*refuted by a second model*: uuid4 takes its random numbers" in text
    assert "No findings." in file_markdown(models, AXES)
    unfinished = file_markdown(legacy, AXES)
    assert "**TIMEOUT**" in unfinished
    assert "No findings so far: the file was not reviewed on all axes." in unfinished


def test_nothing_foreign_is_markup(tmp_path: Path) -> None:
    view = hostile_review()
    for text in (written(tmp_path, view, "review.md"), *(file_markdown(each) for each in view.files())):
        own = OWN_TAG.sub("", CODE_SPAN.sub("", outside_code(text)))
        assert not re.search(r"(?<!\\)<", own)
        assert "](https" not in own.replace("\\](https", "").replace("&#93;", "")
        assert "@everyone" not in own
        assert "://" not in own
        assert not re.search(r"(?<!&)#\d", own)
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_prose_keeps_what_is_harmless() -> None:
    assert prose("A list a[0] of my_name, 2 > 1; `x < y` is code.") == (
        "A list a\\[0\\] of my_name, 2 \\> 1; `x < y` is code."
    )
    assert prose("# heading") == "&#35; heading"
    assert prose("1. item\n- other") == "1\\. item - other"
    assert prose("one ` alone") == "one \\` alone"


def test_json_is_complete_and_names_no_folder(tmp_path: Path) -> None:
    text = written(tmp_path, shop_review(), "review.json")
    value = json.loads(text)
    assert value["severities"] == {"critical": 1, "high": 1, "medium": 2, "low": 1, "info": 1}
    assert value["files"]["src/shop/payments.py"]["axes"]["security"] == "ERROR"
    assert value["left_out"] == dict(shop_review().left_out)
    assert len(value["findings"]) == sum(len(review.findings) for review in shop_files())
    keys = {
        "file",
        "axis",
        "rule",
        "severity",
        "confidence",
        "start_line",
        "end_line",
        "quote",
        "message",
        "suggestion",
        "fingerprint",
    }
    assert keys <= value["findings"][0].keys()
    assert "/srv/work" not in text


def test_json_of_hostile_texts_is_json(tmp_path: Path) -> None:
    [path] = write_report(tmp_path / "r.json", hostile_review())
    assert json.loads(path.read_bytes())["findings"][0]["message"] == HOSTILE


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_terminal_shows_the_gravest_first(width: int) -> None:
    text = review_text(shop_review(), width)
    assert all(len(line) <= width for line in text.split("\n"))
    assert " ".join(text.split("\n")[:3]).startswith("6 findings in 2 files:")
    places = [line for line in text.split("\n") if re.match(r"src/\S+:\d+: ", line)]
    assert places[0].startswith("src/shop/cart.py:41: critical")
    assert len(places) == 6
    assert "src/shop/legacy.py: timeout" in text


def test_the_terminal_counts_what_it_leaves_out() -> None:
    text = review_text(large_review(10, 20), 100)
    assert sum("value may be missing" in line for line in text.split("\n")) == MOST_FINDINGS
    assert f"… and {200 - MOST_FINDINGS} more" in text


def test_no_escape_reaches_a_terminal() -> None:
    text = review_text(hostile_review(), 100)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text)


def test_a_review_without_findings_says_so() -> None:
    view = view_of(lambda: iter((FileReview(path="a.py", hash="h", status="DONE"),)))
    assert review_text(view, 80) == "No findings\n1 file: 1 reviewed; $0.00"


CHANGE = {
    "change": ["added: src/shop/new_cart.py (+12 -0)", "deleted: src/shop/old*cart.py (-40)"],
    "base": "main",
}


def test_the_change_is_at_the_end(tmp_path: Path) -> None:
    view = shop_review(settings=CHANGE)
    text = written(tmp_path, view, "review.md")
    assert (
        "## The change: 2 files differ from main\n\n- `added: src/shop/new_cart.py (+12 -0)`\n- `deleted:"
        in text
    )
    assert text.index("## The change") > text.index("## `src/shop/mail.py`")
    lines = review_text(view, 80).split("\n")
    assert lines[-3:] == [
        "The change: 2 files differ from main",
        *(f"    {line}" for line in CHANGE["change"]),
    ]
    assert "The change" not in review_text(shop_review(), 80)


def test_the_gate_says_why() -> None:
    assert gate_text(3, "high") == "3 findings are high or graver: --fail-on high"
    assert gate_text(1, "critical") == "1 finding is critical: --fail-on critical"


@pytest.mark.parametrize("suffix", REVIEW_WRITERS)
def test_a_report_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"review{suffix}"
    write_report(path, shop_review())
    before = path.read_bytes()
    reads = 0

    def broken() -> Iterator[FileReview]:
        nonlocal reads
        reads += 1
        yield FileReview(path="a.py", hash="h", status="DONE", findings=(finding("a.py"),))
        raise RuntimeError("the store is gone")

    view = view_of(lambda: iter(()))
    with pytest.raises(RuntimeError, match="the store is gone"):
        write_report(path, structs.replace(view, files=broken))
    assert reads >= 1
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("review.xml", "a review cannot be written as .xml"),
        ("review", "a file without a suffix"),
        ("none/review.md", "there is no folder"),
        ("folder.md", "is a folder"),
    ],
)
def test_a_wrong_name_is_an_error_before_anything_is_sent(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.md").mkdir()
    with pytest.raises(UsageError, match=message):
        must_be_report(tmp_path / name)


def test_a_good_name_is_none(tmp_path: Path) -> None:
    for suffix in REVIEW_WRITERS:
        must_be_report(tmp_path / f"review{suffix.upper()}")
