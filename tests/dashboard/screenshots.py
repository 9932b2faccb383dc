"""`make screenshots`: pictures of the main pages for the README and the docs, taken from real jobs against the fake provider.

They take a minute: a job over three accounts has to run until its plots say something. Look at each of them before you commit them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from playwright.sync_api import Browser, Page
from tests.browser import PHONE, Window, started_browser
from tests.crash.stage import wait_for
from tests.dashboard.dashboard_process import DashboardProcess, dashboard
from tests.dashboard.demo_site import DemoSite, demo_site, reviews

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
#: The size of a picture: a laptop's window.
LAPTOP: Final = (1280, 860)
MODELS: Final = ("openai/gpt-4.1-mini", "claude/claude-sonnet-4", "mistral/mistral-small")
#: How long the job runs before its pictures are taken.
RUNS_S: Final = 45.0


class Picture(NamedTuple):
    """A picture: its name, the address of its page, and what is done on the page first."""

    name: str
    path: str
    size: tuple[int, int] = LAPTOP
    dark: bool = False
    act: Callable[[Page], None] | None = None


def main() -> None:
    """Take all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    with tempfile.TemporaryDirectory() as root, demo_site(Path(root) / "demo") as site:
        batch, flow, evaluation, review = site.batch_with_failures(), site.flow(), site.evaluation(), site.review()  # fmt: skip
        site.write_rows("reviews.jsonl", reviews(2400, MODELS))
        with dashboard(site.stage) as server, site.stage.process("run", "reviews.jsonl", "--max-cost", "8", "--progress", "none"):  # fmt: skip
            job = _running(site, server)
            pictures = (
                Picture("ui-jobs", "/"),
                Picture("ui-job", f"/jobs/{job}"),
                Picture("ui-job-dark", f"/jobs/{job}", dark=True, act=_show_lanes),
                Picture("ui-job-phone", f"/jobs/{job}", PHONE),
                Picture("ui-lanes-phone", f"/jobs/{job}", PHONE, dark=True, act=_show_lanes),
                Picture("ui-units", f"/jobs/{batch}/units"),
                Picture("ui-unit", f"/jobs/{batch}/units/1"),
                Picture("ui-flow", f"/jobs/{flow}/flow"),
                Picture("ui-eval", f"/jobs/{evaluation}/eval"),
                Picture("ui-review", f"/jobs/{review}/review", dark=True),
            )
            with started_browser() as browser:
                for picture in pictures:
                    _take(browser, server, picture, folder)


def _running(site: DemoSite, server: DashboardProcess) -> str:
    """The name of the job, as soon as it has run for long enough."""

    def far_enough() -> bool:
        row = server.get("/api/jobs?limit=1").json["jobs"][0]
        return bool(row["live"]) and row["counts"]["succeeded"] > RUNS_S * 8

    wait_for("a job that has run for a while", far_enough, patience_s=6 * RUNS_S)
    return site.latest_job()


def _show_lanes(page: Page) -> None:
    page.locator(".section-head").scroll_into_view_if_needed()
    page.evaluate(
        "scrollTo(0, document.querySelector('.section-head').getBoundingClientRect().top + scrollY - 66)"
    )


def _take(browser: Browser, server: DashboardProcess, picture: Picture, folder: Path) -> None:
    window = Window(browser, picture.size, dark=picture.dark, origin=server.origin, still=True)
    page = window.page
    page.goto(f"{server.origin}{picture.path}?token={server.token}")
    page.locator("#main h1").wait_for()
    page.wait_for_load_state("load")
    page.wait_for_timeout(2_000)
    if picture.act is not None:
        picture.act(page)
        page.wait_for_timeout(1_000)
    page.screenshot(path=folder / f"{picture.name}.png")
    window.close()
    assert window.problems == [], (picture.name, window.problems)


if __name__ == "__main__":
    main()
