"""A job that runs, watched and steered in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.crash.stage import wait_for
from tests.dashboard.conftest import OpenPage
from tests.dashboard.dashboard_process import dashboard
from tests.dashboard.demo_site import DemoSite, demo_site, reviews
from tests.postgres_server import PostgresServer

PATIENCE_MS = 30_000
LANE = "openai/gpt-4.1-mini"


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[DemoSite]:
    """A folder with its records in a file, or as a parameter says in PostgreSQL."""
    with demo_site(tmp_path / "demo") as site:
        if getattr(request, "param", "") == "postgres":
            server: PostgresServer = request.getfixturevalue("postgres_server")
            site.stage.address = server.address()
        yield site


def lane_rate(page: Page) -> float:
    """The rate that the first lane shows, per second."""
    text = page.locator(".lane-state").first.inner_text()
    found = re.search(r"([\d.]+)/(s|min)", text)
    assert found is not None, text
    return float(found[1]) / {"s": 1, "min": 60}[found[2]]


@pytest.mark.parametrize("site", ["sqlite", "postgres"], indirect=True)
def test_a_run_is_watched_to_its_end(
    site: DemoSite, open_page: OpenPage, expected_problems: list[str]
) -> None:
    """The page is open before the job exists, and is never loaded again. It says when the server has gone."""
    expected_problems.append("net::ERR_")
    site.write_rows("reviews.jsonl", reviews(13, ("openai/gpt-4.1-mini", "claude/claude-sonnet-4")))
    with dashboard(site.stage) as server:
        page = open_page(server)
        expect(page.get_by_text("No job has run yet.")).to_be_visible(timeout=PATIENCE_MS)
        assert "token" not in page.url
        with site.stage.process("run", "reviews.jsonl", "--name", "watched") as run:
            page.get_by_role("link", name=re.compile("watched")).click(timeout=PATIENCE_MS)
            heading = page.locator("h1")
            expect(heading).to_contain_text("running", timeout=PATIENCE_MS)
            expect(page.locator("article.lane")).to_have_count(2, timeout=PATIENCE_MS)
            expect(page.locator(".connection")).to_have_text("live")
            expect(heading).to_contain_text("finished", timeout=PATIENCE_MS)
            expect(page.locator(".figure-done b")).to_have_text("100 %")
            expect(page.locator("article.lane canvas").first).to_be_visible(timeout=PATIENCE_MS)
            assert run.wait(PATIENCE_MS / 1000) == 0
        expect(page.locator("[role=status]", has_text="The job is finished.")).to_have_count(1)
    expect(page.locator(".connection")).to_contain_text("disconnected", timeout=PATIENCE_MS)


def test_a_run_is_steered(site: DemoSite, open_page: OpenPage, expected_problems: list[str]) -> None:
    """Pause, resume, a new limit, a budget, cancel: each says its command, and the job follows."""
    expected_problems.append("net::ERR_")  # The server ends before the page.
    site.write_rows("reviews.jsonl", reviews(3000, (LANE,)))
    with dashboard(site.stage) as server, site.stage.process("run", "reviews.jsonl", "--name", "steered"):
        page = open_page(server)
        page.get_by_role("link", name=re.compile("steered")).click(timeout=PATIENCE_MS)
        page.locator("article.lane").first.wait_for(timeout=PATIENCE_MS)
        _pause_and_resume(page)
        _change_the_limit(page)
        _change_the_budget(page)
        page.get_by_role("button", name="Cancel…").click()
        expect(page.locator("dialog")).to_contain_text("headway cancel steered")
        page.get_by_role("button", name="Cancel the job").click()
        expect(page.locator("h1")).to_contain_text("cancelled", timeout=PATIENCE_MS)
        expect(page.locator(".trouble", has_text="was cancelled")).to_be_visible(timeout=PATIENCE_MS)


def _pause_and_resume(page: Page) -> None:
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator(".notice", has_text="headway pause steered")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("h1")).to_contain_text("paused", timeout=PATIENCE_MS)
    expect(page.locator(".trouble", has_text="is paused")).to_contain_text("headway resume steered")
    page.keyboard.press("p")
    expect(page.locator("h1")).to_contain_text("running", timeout=PATIENCE_MS)


def _change_the_limit(page: Page) -> None:
    """The rate is a mean over half a minute, so it follows slowly."""
    wait_for("a rate near the limit of 360 a minute", lambda: lane_rate(page) > 4.5)
    page.get_by_role("button", name="Limits…").click()
    page.get_by_label("Requests per minute").fill("60")
    expect(page.locator("dialog .command")).to_have_text(f"headway lanes --rpm {LANE}=60")
    page.get_by_role("button", name="Change the limits").click()
    expect(page.locator("dialog")).to_have_count(0, timeout=PATIENCE_MS)
    expect(page.locator(".limits li.binds")).to_have_text(re.compile("^60 requests/min"), timeout=PATIENCE_MS)
    wait_for("a falling rate", lambda: lane_rate(page) < 4.2)


def _change_the_budget(page: Page) -> None:
    page.get_by_role("button", name="Budget…").click()
    page.get_by_label("Most that the job may cost").fill("9")
    page.get_by_role("button", name="Change the budget").click()
    expect(page.locator(".figure-cost")).to_contain_text("budget $9", timeout=PATIENCE_MS)
