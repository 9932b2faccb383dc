"""Generates docs/images/eval-report*.png: the report of an eval, its answers side by side, in the dark, and on a phone.

`python tools/draw_eval_report.py`, about 5 s; needs Debian's chromium. With `--measure` it draws nothing, and prints how long large
reports take to write and to open, and how large their files are.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser import DESKTOP, PHONE, Window, opened_ms, started_browser  # noqa: E402
from tests.evals.html.eval_views import large_eval, support_eval, written  # noqa: E402

IMAGES = ROOT / "docs" / "images"
CELL = "[role=gridcell]"
#: Rows and columns of the large reports.
SIZES = ((1_000, 5), (20_000, 5))
TRIES = 3
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


def measure(browser: Browser, folder: Path, rows: int, columns: int) -> str:
    """One line: a report of so many cells, the median of some tries."""
    began = time.perf_counter()
    report = written(folder, large_eval(rows, columns))
    wrote = time.perf_counter() - began
    opened = sorted(open_ms(browser, report) for _ in range(TRIES))[TRIES // 2]
    size = report.stat().st_size / 1e6
    return f"{rows * columns:,} cells: {size:.1f} MB, written in {wrote:.2f} s, painted in {opened:.0f} ms\n"


def open_ms(browser: Browser, report: Path) -> float:
    """Milliseconds from the navigation to the first paint with the matrix in it."""
    window = Window(browser, DESKTOP)
    page = window.open(report)
    shown = opened_ms(page)
    window.close()
    return shown


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, started_browser() as browser:
        if sys.argv[1:] == ["--measure"]:
            for rows, columns in SIZES:
                sys.stdout.write(measure(browser, Path(name), rows, columns))
        else:
            draw(browser, written(Path(name), support_eval()))
