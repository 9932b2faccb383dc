"""What a model answers stays text: markup, ends of script elements, separators, halves of surrogate pairs, marks of direction."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import msgspec
import pytest
from tests.evals.html.conftest import OpenPage
from tests.evals.html.eval_views import support_eval, with_output, written

from headway.display.html.eval_page import write_eval_page
from headway.display.html.page_shell import bounded_text, script_json
from headway.evals.records import EvalView
from headway.reports.evals.eval_statistics import eval_statistics

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "--> ]]> <img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)><iframe srcdoc='<script>alert(1)</script>'>",
    "line\u2028separator\u2029paragraph",
    "half \ud83d of a pair \udc00",
    "user\u202egpj.exe",
    "\x00\x1b[31mred\x07",
    "${alert(1)} `x` \\u003cscript> &lt;b&gt; &amp;",
    "javascript:alert(1)",
)


def shown(text: str) -> str:
    """The text as the page shows it: what hides or reorders text is escaped."""
    escapes = {one: f"\\x{ord(one):02x}" for one in "\x00\x1b\x07"}
    escapes |= {one: f"\\u{ord(one):04x}" for one in ("\u2028", "\u2029", "\u202e")}
    return "".join(
        f"\\u{ord(one):04x}" if "\ud800" <= one <= "\udfff" else escapes.get(one, one) for one in text
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_an_answer_is_text_wherever_it_is_shown(text: str, tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(written(tmp_path, with_output(support_eval(3), text)))
    assert page.locator("h1").inner_text() == " ".join(shown(text).split())
    page.locator("[role=gridcell]").first.click()
    assert page.locator("dialog .output").first.evaluate("(one) => one.textContent") == shown(text)
    assert page.locator("dialog dt").first.evaluate("(one) => one.textContent") == shown(text)
    assert page.locator("img, iframe, object, link, form, a").count() == 0
    assert page.locator("body script:not([type])").count() == 1


def test_script_json_is_the_same_value_and_cannot_end_its_element() -> None:
    for text in HOSTILE:
        inside = script_json({"text": text})
        assert json.loads(inside) == {"text": text}
        assert "<" not in inside
        inside.encode()


@pytest.mark.parametrize("output", [{"score": float("nan")}, [1, {"a": "</script>"}], 5, None, True])
def test_an_answer_that_is_no_text_is_shown_as_json(
    output: object, tmp_path: Path, open_page: OpenPage
) -> None:
    page = open_page(written(tmp_path, with_output(support_eval(2), output, "odd")))
    page.locator("[role=gridcell]").first.click()
    if output is None:
        assert page.locator("dialog article").first.get_by_text("No answer.").is_visible()
    else:
        assert page.locator("dialog .output").first.inner_text() == bounded_text(output, 100)


def test_numbers_that_json_does_not_have_are_left_out(tmp_path: Path, open_page: OpenPage) -> None:
    def with_infinity() -> EvalView:
        view = support_eval(2)
        cells = [
            msgspec.structs.replace(
                cell, score=float("nan"), cost_usd=float("inf"), named_scores={"m": float("nan")}
            )
            for cell in view.cells()
        ]
        return msgspec.structs.replace(view, cells=lambda: iter(cells))

    open_page(written(tmp_path, with_infinity()))


def test_the_page_has_no_address() -> None:
    file = BytesIO()
    view = support_eval(2)
    write_eval_page(file, view, eval_statistics(view))
    text = file.getvalue().decode()
    assert "://" not in text
    assert "@import" not in text
    assert "url(" not in text
    assert "unsafe-inline" not in text
