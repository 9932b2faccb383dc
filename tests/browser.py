"""Debian's Chromium for tests of pages: one browser for each test module, and a fresh window with recorded errors for each test.

The browser reaches nothing: a page from a file has no server, and every request that is no file is refused. Without a browser the tests are skipped;
where `CI` is set they fail, because `.ci/run` installs one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright

FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE: Final = (360, 740)
DESKTOP: Final = (1360, 900)


AXE: Final = Path(__file__).parent.parent / ".cache" / "axe" / "node_modules" / "axe-core" / "axe.min.js"


def chromium_path() -> str:
    """The browser's program; skips the test where there is none."""
    path = shutil.which("chromium")
    return path if path is not None else _missing("chromium is not installed: apt-get install chromium")


def axe_script() -> str:
    """The script that judges the accessibility of a page; skips the test where it is not installed."""
    return (
        AXE.read_text(encoding="utf-8") if AXE.exists() else _missing("axe-core is not installed: make axe")
    )


def _missing(what: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


@contextmanager
def started_browser() -> Iterator[Browser]:
    """A browser with a profile of its own, which is removed at the end."""
    path = chromium_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Window:
    """A window of the browser. `problems` are errors of scripts, messages of the console and requests that are no file.

    With an `origin` it may load from this address, too.
    """

    def __init__(
        self,
        browser: Browser,
        size: tuple[int, int] = DESKTOP,
        *,
        dark: bool = False,
        origin: str = "file:",
        still: bool = False,
    ) -> None:
        self.problems: list[str] = []
        self._allowed = origin
        self._context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce" if still else "no-preference",
        )
        self.page: Page = self._context.new_page()
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("console", lambda message: self.problems.append(f"console: {message.text}"))
        self.page.on("dialog", lambda shown: self.problems.append(f"dialog: {shown.message}"))
        self.page.route("**/*", self._only_allowed)

    def _only_allowed(self, route: Route) -> None:
        if route.request.url.startswith(self._allowed):
            route.continue_()
        else:
            self.problems.append(f"request: {route.request.url}")
            route.abort()

    def open(self, path: Path) -> Page:
        """Open a file and wait until its script has run."""
        self.page.goto(path.as_uri())
        return self.page

    def close(self) -> None:
        self._context.close()


def opened_ms(page: Page) -> float:
    """Milliseconds from the navigation until the page was first painted and its script had run."""
    shown: float = page.evaluate(
        "() => new Promise((done) => new PerformanceObserver((list) => {"
        " const paint = list.getEntriesByName('first-contentful-paint')[0];"
        " if (paint) done(Math.max(paint.startTime, performance.getEntriesByName('headway-opened')[0].startTime));"
        " }).observe({ type: 'paint', buffered: true }))"
    )
    return shown
