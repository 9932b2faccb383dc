"""Generates docs/images/eval-report*.png: the report of an eval, its answers side by side, in the dark, and on a phone.

`python tools/draw_eval_report.py`, about 5 s; needs Debian's chromium.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser import DESKTOP, PHONE, Window, started_browser  # noqa: E402
from tests.evals.html.eval_views import support_eval, written  # noqa: E402

IMAGES = ROOT / "docs" / "images"
CELL = "[role=gridcell]"
#: A window for pictures of parts.
LOW = (1360, 640)


def draw(browser: Browser, report: Path) -> None:
    """All pictures."""
    window = Window(browser, DESKTOP)
    page = window.open(report)
    save(page, "eval-report")
    page.set_viewport_size({"width": LOW[0], "height": LOW[1]})
    page.locator(CELL).nth(2).click()
    save(page, "eval-report-answers")
    window.close()
    window = Window(browser, LOW, dark=True)
    page = window.open(report)
    page.locator(".filters").evaluate("(one) => one.scrollIntoView()")
    page.get_by_label("Status", exact=True).select_option("Columns disagree")
    save(page, "eval-report-dark")
    window.close()
    window = Window(browser, PHONE)
    page = window.open(report)
    page.locator(".rows").evaluate("(one) => one.scrollIntoView()")
    save(page, "eval-report-phone")
    window.close()


def save(page: Page, name: str) -> None:
    """A picture, after the page was drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.screenshot(path=IMAGES / f"{name}.png")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, started_browser() as browser:
        draw(browser, written(Path(name), support_eval()))
