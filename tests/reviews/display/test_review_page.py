"""The page of a review in a real browser: filters, files, keys, hostile texts, a phone, the dark, and its size."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.browser import DESKTOP, PHONE, opened_ms
from tests.evals.html.conftest import OpenPage
from tests.evals.html.test_accessible import low_contrasts, serious
from tests.reviews.display.review_views import (
    finding,
    hostile_review,
    large_review,
    shop_files,
    shop_review,
    view_of,
)

from headway.display.reviews.review_writers import write_report
from headway.reviews.records import FileReview, ReviewView


def written(folder: Path, view: ReviewView) -> Path:
    [path] = write_report(folder / "review.html", view)
    return path


@pytest.fixture
def page(tmp_path: Path, open_page: OpenPage) -> Page:
    return open_page(written(tmp_path, shop_review()))


def grid(page: Page, name: str = "Findings") -> Locator:
    return page.get_by_role("grid", name=name)


def rules(page: Page) -> list[str]:
    return grid(page).locator(".rule").all_inner_texts()


def test_the_gravest_come_first_with_their_code(page: Page) -> None:
    assert rules(page) == [
        "sql-injection",
        "off-by-one",
        "query-in-loop",
        "lost-error",
        "magic-value",
        "unclear-contract",
    ]
    first = grid(page).locator("tbody tr[aria-rowindex='2']")
    expect(first.locator(".source")).to_have_text(
        "query = f\"SELECT * FROM carts WHERE owner = '{owner}'\"\nreturn db.execute(query).fetchall()",
        use_inner_text=True,
    )
    expect(first.locator(".place")).to_have_text("src/shop/cart.py:41–42")
    assert page.locator(".fact b").all_inner_texts()[:5] == ["1", "1", "2", "1", "1"]


def test_findings_are_filtered_by_severity_axis_mark_and_text(page: Page) -> None:
    page.get_by_label("Severity", exact=True).select_option("high and graver")
    assert rules(page) == ["sql-injection", "off-by-one"]
    page.get_by_label("Axis", exact=True).select_option("correctness")
    assert rules(page) == ["off-by-one"]
    page.get_by_label("Severity", exact=True).select_option("Any severity")
    page.get_by_label("Axis", exact=True).select_option("All axes")
    page.get_by_label("Counted", exact=True).select_option("refuted")
    assert rules(page) == ["weak-cryptography"]
    page.get_by_label("Counted", exact=True).select_option("All findings")
    expect(page.locator("#count")).to_have_text("9 findings")
    page.get_by_label("Counted", exact=True).select_option("Counted findings")
    page.keyboard.press("/")
    page.keyboard.type("except exception")
    expect(page.locator("#count")).to_have_text("1 of 9 findings")
    assert rules(page) == ["lost-error"]
    page.locator("#search").fill("nothing says this")
    expect(page.get_by_text("No finding matches the filters.")).to_be_visible()


def test_order_by_file(page: Page) -> None:
    page.get_by_label("Order", exact=True).select_option("By file")
    in_order = [one.rule for review in shop_files() for one in review.findings if not one.mark]
    assert rules(page) == in_order


def test_a_file_shows_its_findings(page: Page) -> None:
    files = grid(page, "Files")
    files.scroll_into_view_if_needed()
    expect(files.locator("tbody th")).to_have_text([review.path for review in shop_files()])
    page.get_by_label("Status of files").select_option("error")
    expect(files.locator("tbody th")).to_have_text(["src/shop/payments.py"])
    expect(files).to_contain_text("security, performance: 429 after 5 retries")
    page.get_by_label("Status of files").select_option("With findings")
    files.get_by_role("gridcell").nth(3).click()
    assert rules(page) == ["lost-error"]
    page.get_by_role("button", name="Show the findings of all files").click()
    assert len(rules(page)) == 6


def test_it_is_used_with_keys_alone(page: Page) -> None:
    grid(page).get_by_role("gridcell").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="off-by-one")
    expect(dialog.locator(".code .line")).to_have_attribute("data-n", "77")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("dialog", name="query-in-loop")).to_be_visible()
    expect(page.get_by_role("dialog")).to_contain_text("Load the stock of all items with one query.")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    row = page.evaluate("document.activeElement.closest('tr').getAttribute('aria-rowindex')")
    assert row == "4", "the finding that was shown last"


def test_a_marked_finding_says_why_it_does_not_count(page: Page) -> None:
    page.get_by_label("Counted", exact=True).select_option("ignored")
    grid(page).get_by_role("gridcell").first.click()
    expect(page.get_by_role("dialog")).to_contain_text(
        "Not counted. A comment in the file ignores it. only in the demo"
    )


def test_hostile_text_is_text(tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(written(tmp_path, hostile_review()))
    assert page.locator("img, a, script[src], iframe").count() == 0
    page.get_by_label("Counted", exact=True).select_option("All findings")
    assert len(rules(page)) == 2
    grid(page).get_by_role("gridcell").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("</script><script>alert(1)</script><img src=x onerror=alert(2)>")
    expect(dialog).to_contain_text("\\x1b[2J\\u202eback")
    assert "\u202e" not in page.locator("body").inner_text()


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("dark", [False, True])
def test_everyone_can_read_it(tmp_path: Path, open_page: OpenPage, size: tuple[int, int], dark: bool) -> None:
    page = open_page(written(tmp_path, shop_review()), size, dark=dark)
    page.get_by_label("Counted", exact=True).select_option("All findings")
    assert low_contrasts(page) == []
    assert serious(page) == []
    grid(page).get_by_role("gridcell").first.click()
    assert low_contrasts(page) == []
    assert serious(page) == []


def test_the_change_is_listed(tmp_path: Path, open_page: OpenPage) -> None:
    settings = {"change": ["modified: src/<b>cart</b>.py (+3 -1)"], "base": "main"}
    page = open_page(written(tmp_path, shop_review(settings=settings)))
    expect(page.get_by_role("heading", name="The change: 1 file differs from main")).to_be_visible()
    expect(page.locator(".change li")).to_have_text(["modified: src/<b>cart</b>.py (+3 -1)"])


def test_a_phone_scrolls_in_one_direction(tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(written(tmp_path, shop_review()), PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


def test_a_review_without_findings_says_so(tmp_path: Path, open_page: OpenPage) -> None:
    files = (FileReview(path="a.py", hash="h", status="DONE", axes={"security": "DONE"}),)
    page = open_page(written(tmp_path, view_of(lambda: iter(files))))
    expect(page.get_by_text("Nothing was found.")).to_be_visible()
    expect(grid(page, "Files").locator("tbody th")).to_have_text(["a.py"])


def test_a_large_review_opens_quickly(tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(written(tmp_path, large_review(2_000, 10)))
    assert opened_ms(page) < 3_000
    assert page.locator("tbody tr").count() < 100, "only rows in view are elements"
    page.locator("#search").fill("Finding 7 of file 1999:")
    expect(page.locator("#count")).to_have_text("1 of 20,000 findings", timeout=20_000)
    assert rules(page) == ["sql-injection"]


def test_long_code_is_cut_and_says_so(tmp_path: Path, open_page: OpenPage) -> None:
    one = finding(quote="x = 1\n" * 5_000)
    files = (FileReview(path=one.file, hash="h", status="DONE", findings=(one,)),)
    page = open_page(written(tmp_path, view_of(lambda: iter(files))))
    grid(page).get_by_role("gridcell").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("Cut at 8,000 characters.")


def test_paper_has_all_findings_and_files(page: Page) -> None:
    page.emulate_media(media="print")
    assert grid(page).locator("tbody tr:not(.space)").count() == 6
    assert grid(page, "Files").locator("tbody tr:not(.space)").count() == len(shop_files())
    expect(page.get_by_role("search")).to_be_hidden()
    assert page.pdf().startswith(b"%PDF")
