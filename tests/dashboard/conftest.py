"""A browser for pages of the dashboard, and one folder with jobs of every kind that have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page
from tests.browser import DESKTOP, Window, started_browser
from tests.dashboard.dashboard_process import DashboardProcess, dashboard
from tests.dashboard.demo_site import DemoSite, demo_site

#: Opens an address of a dashboard in a new window.
OpenPage = Callable[..., Page]


class EndedJobs(NamedTuple):
    """A folder with jobs that have ended, and its dashboard."""

    site: DemoSite
    server: DashboardProcess
    batch: str
    flow: str
    eval: str
    review: str


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as browser:
        yield browser


@pytest.fixture
def expected_problems() -> list[str]:
    """Parts of messages that the test provokes."""
    return []


@pytest.fixture
def open_page(browser: Browser, expected_problems: list[str]) -> Iterator[OpenPage]:
    """Opens pages by the URL that `headway ui` printed. Afterwards no script may have failed, and nothing may have come from elsewhere."""
    windows: list[Window] = []

    def open_address(
        server: DashboardProcess, path: str = "/", size: tuple[int, int] = DESKTOP, *, dark: bool = False
    ) -> Page:
        windows.append(Window(browser, size, dark=dark, origin=server.origin, still=True))
        page = windows[-1].page
        page.goto(f"{server.origin}{path}{'&' if '?' in path else '?'}token={server.token}")
        return page

    yield open_address
    for window in windows:
        window.close()
    problems = [problem for window in windows for problem in window.problems]
    assert [one for one in problems if not any(part in one for part in expected_problems)] == []


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EndedJobs]:
    root = tmp_path_factory.mktemp("jobs") / "demo"
    with demo_site(root, quick=True) as site:
        jobs = [site.batch_with_failures(), site.flow(), site.evaluation(), site.review()]
        with dashboard(site.stage) as server:
            yield EndedJobs(site, server, *jobs)
