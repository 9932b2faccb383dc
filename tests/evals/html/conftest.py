"""A browser, and windows that must end without a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from tests.browser import DESKTOP, Window, started_browser

#: Opens a file in a new window of a size.
OpenPage = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as browser:
        yield browser


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens pages. Afterwards no script may have failed, and nothing may have been requested."""
    windows: list[Window] = []

    def open_file(path: Path, size: tuple[int, int] = DESKTOP, *, dark: bool = False) -> Page:
        windows.append(Window(browser, size, dark=dark))
        return windows[-1].open(path)

    yield open_file
    for window in windows:
        window.close()
    assert [problem for window in windows for problem in window.problems] == []
