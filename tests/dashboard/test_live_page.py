"""A job that runs, watched and steered in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.crash.stage import Stage, wait_for
from tests.dashboard.conftest import OpenPage
from tests.dashboard.dashboard_process import dashboard
from tests.dashboard.demo_site import DemoSite, demo_site, reviews
from tests.postgres_server import PostgresServer

from headway.fake.process import FakeProcess

PATIENCE_MS = 30_000
LANE = "openai/gpt-4.1-mini"
#: Speaks as Claude Code does. While `closed` exists its account is used up; it works until `go` exists.
AGENT = """#!/bin/sh
cat > /dev/null
echo '{"type": "system", "subtype": "init", "session_id": "s"}'
if test -e closed; then
  echo '{"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "rateLimitType": "five_hour", "resetsAt": '$(($(date +%s) + 3600))'}}'
  echo '{"type": "result", "subtype": "success", "is_error": true, "api_error_status": 429, "result": "You have hit your limit", "session_id": "s"}'
  exit 1
fi
echo '{"type": "assistant", "session_id": "s", "message": {"content": [{"type": "text", "text": "I look at the tests first."}]}}'
echo '{"type": "assistant", "session_id": "s", "message": {"content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pytest -q tests/lanes"}}]}}'
until test -e go; do sleep 0.05; done
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "mended", "num_turns": 2, "session_id": "s", "usage": {"input_tokens": 9, "output_tokens": 3}, "total_cost_usd": 0.01}'
"""


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[DemoSite]:
    """A folder with its records in a file, or as a parameter says in PostgreSQL."""
    with demo_site(tmp_path / "demo") as site:
        if getattr(request, "param", "") == "postgres":
            server: PostgresServer = request.getfixturevalue("postgres_server")
            site.stage.address = server.address()
        yield site


def lane_rate(page: Page) -> float:
    """The rate that the first lane shows, per second; 0 if it shows none, as before its first report."""
    text = page.locator(".lane-state").first.inner_text()
    found = re.search(r"([\d.]+)/(s|min)", text)
    return 0.0 if found is None else float(found[1]) / {"s": 1, "min": 60}[found[2]]


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


def test_agents_at_work_and_a_lane_that_is_opened(
    tmp_path: Path, open_page: OpenPage, expected_problems: list[str]
) -> None:
    """The account of an agent CLI is closed. It is opened by a click: one agent goes first, and its last action and its transcript are shown."""
    expected_problems.append("net::ERR_")
    stage = Stage(tmp_path, FakeProcess("", 0, 0), "agents", 3)
    program = tmp_path / "agent"
    program.write_text(AGENT)
    program.chmod(0o755)
    (tmp_path / "headway.toml").write_text(
        f'[providers.coder]\nkind = "claude"\ncommand = ["{program}"]\npreflight = "none"\n[providers.coder.limits]\nmax_concurrency = 3\n'
    )
    stage.write_input([{"id": f"task-{n}", "prompt": f"Mend test {n}."} for n in range(3)])
    (tmp_path / "closed").touch()
    with dashboard(stage) as server, stage.process("run", "in.jsonl", "--name", "agents") as run:
        page = open_page(server)
        page.get_by_role("link", name=re.compile("agents")).click(timeout=PATIENCE_MS)
        held = page.locator(".trouble", has_text="is held")
        expect(held).to_contain_text("headway lanes --reopen coder", timeout=PATIENCE_MS)
        (tmp_path / "closed").unlink()
        held.get_by_role("button", name="Open the lane now").click()
        expect(page.locator(".notice", has_text="headway lanes --reopen coder")).to_be_visible(
            timeout=PATIENCE_MS
        )
        expect(held).to_have_count(0, timeout=PATIENCE_MS)
        page.get_by_role("link", name="Agents").click()
        agent = page.locator(".agent")
        expect(agent.locator(".tool")).to_contain_text("Bash", timeout=PATIENCE_MS)
        expect(agent).to_contain_text("pytest -q tests/lanes", timeout=PATIENCE_MS)
        assert agent.count() == 1, "the others wait for it"
        agent.get_by_role("link").click()
        expect(page.locator(".conversation")).to_contain_text(
            "I look at the tests first.", timeout=PATIENCE_MS
        )
        (tmp_path / "go").touch()
        expect(page.locator("h1")).to_contain_text("finished", timeout=PATIENCE_MS)
        assert run.wait(PATIENCE_MS / 1000) == 0


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
