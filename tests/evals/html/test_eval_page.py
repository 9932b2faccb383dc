"""The page of an eval in a real browser: filters, search, keys, print, a phone, the dark, and its size."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.browser import PHONE, opened_ms
from tests.evals.html.conftest import OpenPage
from tests.evals.html.eval_views import large_eval, support_eval, written

from headway.reports.evals.eval_statistics import eval_statistics

CELL = "[role=gridcell]"


@pytest.fixture
def page(tmp_path: Path, open_page: OpenPage) -> Page:
    return open_page(written(tmp_path, support_eval()))


def shown_rows(page: Page) -> int:
    return int(page.locator("table[role=grid]").get_attribute("aria-rowcount") or 0) - 1


def active(page: Page) -> tuple[int, int]:
    """The row and the column that have the focus, from 1."""
    place: list[int] = page.evaluate(
        "() => { const cell = document.activeElement; const row = cell.closest('tr');"
        " return [Number(row.getAttribute('aria-rowindex')) - 1, [...row.querySelectorAll('[role=gridcell]')].indexOf(cell) + 1]; }"
    )
    return place[0], place[1]


def test_pairs_that_may_be_noise_are_counted_and_not_listed(page: Page) -> None:
    pairs = eval_statistics(support_eval()).comparisons
    clear = sum(pair.winner is not None for pair in pairs)
    lines = page.locator(".verdicts li").all_inner_texts()
    assert 0 < clear < len(pairs)
    assert lines[-1] == f"{len(pairs) - clear} other pairs of columns: the differences may be noise"
    assert [line for line in lines[:-1] if " is better than " not in line] == []
    assert len(lines) - 1 == min(clear, 6)


def test_the_figures_are_those_of_the_statistics(page: Page) -> None:
    statistics = eval_statistics(support_eval())
    rates = page.locator(".rate b").all_inner_texts()
    assert rates == [f"{100 * one.pass_rate.rate:.1f}%" for one in statistics.columns if one.pass_rate]
    totals = page.locator(".totals").inner_text()
    assert f"{statistics.counts.passed} passed" in totals
    assert f"{statistics.counts.failed} failed" in totals
    first = statistics.columns[0].pass_rate
    assert first is not None
    interval = f"{100 * first.interval.low:.0f}–{100 * first.interval.high:.0f}%"
    assert page.locator(".rate .interval").first.inner_text() == interval


def test_rows_are_filtered_by_status_column_and_metric(page: Page) -> None:
    cells = list(support_eval().cells())
    failed = {cell.test_index for cell in cells if cell.status == "fail"}
    page.get_by_label("Status", exact=True).select_option("Failed")
    assert shown_rows(page) == len(failed)
    page.get_by_label("Column", exact=True).select_option("gpt-4.1 · friendly")
    own = {cell.test_index for cell in cells if cell.status == "fail" and cell.prompt_index == 1}
    assert shown_rows(page) == len(own)
    assert page.locator("thead [role=columnheader]").count() == 2
    page.get_by_label("Status", exact=True).select_option("Any status")
    page.get_by_label("Metric", exact=True).select_option("tone below 1")
    low = {cell.test_index for cell in cells if cell.prompt_index == 1 and cell.named_scores.get("tone", 1) < 1}  # fmt: skip
    assert shown_rows(page) == len(low)
    expect(page.locator("#count")).to_have_text(f"{len(low)} of 48 rows")


def test_columns_that_disagree(page: Page) -> None:
    verdicts: dict[int, set[str]] = {}
    for cell in support_eval().cells():
        verdicts.setdefault(cell.test_index, set()).add(cell.status)
    page.get_by_label("Status", exact=True).select_option("Columns disagree")
    assert shown_rows(page) == sum({"pass", "fail"} <= each for each in verdicts.values())


def test_search_finds_text_of_tests_and_of_answers(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("broken kettle")
    expect(page.locator("#count")).to_have_text("4 of 48 rows")
    page.locator("#search").fill("Have a good day!")
    found = {cell.test_index for cell in support_eval().cells() if "Have a good day!" in str(cell.output)}
    expect(page.locator("#count")).to_have_text(f"{len(found)} of 48 rows")
    page.locator("#search").fill("nothing says this")
    expect(page.get_by_text("No test matches the filters.")).to_be_visible()


def test_the_matrix_is_used_with_keys_alone(page: Page) -> None:
    page.locator(CELL).first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert active(page) == (3, 2)
    page.keyboard.press("Control+End")
    assert active(page) == (48, 6)
    page.keyboard.press("Control+Home")
    assert active(page) == (1, 1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Test 1")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("dialog", name="Test 2")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert active(page) == (2, 1), "the cell of the test that was shown last"
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()


def test_answers_side_by_side_have_their_differences_marked(page: Page) -> None:
    page.locator(CELL).nth(1).click()
    cards = page.locator("dialog article")
    assert cards.count() == 6
    assert cards.nth(0).locator("ins, del").count() == 0, "the base has no marks"
    answers = [str(cell.output) for cell in support_eval().cells() if cell.test_index == 0]
    marked = 0
    for number in range(1, 6):
        shown = cards.nth(number).locator(".output")
        kept = shown.evaluate("(one) => [...one.childNodes].filter((n) => n.nodeName !== 'DEL').map((n) => n.textContent).join('')")  # fmt: skip
        before = shown.evaluate("(one) => [...one.childNodes].filter((n) => n.nodeName !== 'INS').map((n) => n.textContent).join('')")  # fmt: skip
        assert kept == answers[number]
        if shown.locator("ins, del").count():
            marked += 1
            assert before == answers[0]
    assert marked
    page.get_by_label("Mark differences").uncheck()
    assert page.locator("dialog ins").count() == 0


def test_long_answers_are_compared_in_bounded_time(tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(written(tmp_path, large_eval(2, 2, characters=19_000)))
    page.locator(CELL).first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    took = page.evaluate("() => { const before = performance.now(); document.querySelectorAll('dialog button')[1].click(); return performance.now() - before; }")  # fmt: skip
    assert took < 2_000


def test_a_phone_needs_no_sideways_scroll(tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(written(tmp_path, support_eval()), PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    page.mouse.wheel(0, 6_000)
    expect(page.locator("tr[role=row]:not([aria-rowindex='1'])").nth(1)).to_be_visible()
    page.locator(CELL).nth(2).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert page.evaluate("document.querySelector('dialog[open]').scrollWidth") <= PHONE[0]


def test_the_dark_is_that_of_the_system_and_of_the_switch(tmp_path: Path, open_page: OpenPage) -> None:
    path = written(tmp_path, support_eval())

    def brightness(page: Page) -> int:
        colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))

    dark, light = open_page(path, dark=True), open_page(path)
    assert brightness(dark) < 150 < 600 < brightness(light)
    light.get_by_role("button", name="Use dark colours").click()
    assert brightness(light) == brightness(dark)
    light.get_by_role("button", name="Use light colours").click()
    assert brightness(light) > 600


def test_paper_has_whole_answers_and_no_controls(page: Page, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 1030, "height": 700})  # A4 across, less its margins.
    page.emulate_media(media="print")
    expect(page.locator(".filters")).to_be_hidden()
    assert page.evaluate("[...document.querySelectorAll('.scroll, .rows')].filter((one) => one.scrollWidth > one.clientWidth + 1).length") == 0  # fmt: skip
    assert page.locator("tbody tr[role=row]").count() == 48
    answer = page.locator(f"{CELL} .answer").first
    assert answer.evaluate("(one) => one.scrollHeight <= one.clientHeight + 1")
    pdf = page.pdf()
    assert pdf.startswith(b"%PDF")
    page.emulate_media(media="screen")
    expect(page.locator(".filters")).to_be_visible()
    assert page.locator("tbody tr[role=row]").count() < 48


def test_five_thousand_cells_open_at_once_and_scroll(tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(written(tmp_path, large_eval(1_000, 5)))
    assert opened_ms(page) < 3_000, "0.2 s on a quiet machine: tools/draw_eval_report.py --measure"
    assert page.locator("tbody tr[role=row]").count() < 60, "rows out of view are no elements"
    scroller = page.locator(".rows")
    scroller.evaluate("(one) => { one.scrollTop = one.scrollHeight; }")
    expect(page.locator("tr[aria-rowindex='1001']")).to_be_visible()
    expect(page.locator("tr[aria-rowindex='1001']")).to_contain_text("answer 4995")
    scroller.evaluate("(one) => { one.scrollTop = one.scrollHeight / 2; }")
    expect(page.locator("tr[aria-rowindex='502']")).to_be_visible()
    page.locator("#search").fill("answer 2222:")
    expect(page.locator("#count")).to_have_text("1 of 1,000 rows")
