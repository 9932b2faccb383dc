"""Jobs that have ended in a real browser: units, a conversation, a flow, an eval, a review, for everyone and on every screen."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route, expect
from tests.browser import DESKTOP, PHONE
from tests.dashboard.conftest import EndedJobs, OpenPage
from tests.dashboard.demo_site import HOSTILE
from tests.evals.html.test_accessible import serious

PATIENCE_MS = 30_000


def test_units_are_filtered_and_searched_by_keys(ended: EndedJobs, open_page: OpenPage) -> None:
    page = open_page(ended.server, f"/jobs/{ended.batch}/units")
    rows = page.locator(".unit-line")
    expect(rows.first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator(".count")).to_have_text("120 units")
    page.get_by_label("Status").select_option("failed")
    expect(rows).to_have_count(2, timeout=PATIENCE_MS)
    expect(rows.first).to_contain_text("invalid")
    assert page.url.endswith("/units?status=failed")
    page.get_by_label("Status").select_option("")
    page.locator("body").click(position={"x": 2, "y": 400})
    page.keyboard.press("/")
    page.keyboard.type("ticket-077")
    expect(rows).to_have_count(1, timeout=PATIENCE_MS)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h2.unit-title")).to_contain_text("ticket-077", timeout=PATIENCE_MS)
    page.keyboard.press("Escape")
    expect(rows.first).to_be_visible(timeout=PATIENCE_MS)


def test_failed_units_are_tried_again(ended: EndedJobs, open_page: OpenPage) -> None:
    """One on its own page, then all: they fail again, with one attempt more each time."""
    page = open_page(ended.server, f"/jobs/{ended.batch}/units/13")
    attempts = page.locator(".attempts > li")
    expect(attempts).to_have_count(1, timeout=PATIENCE_MS)
    page.get_by_role("button", name="Retry this unit").click()
    expect(page.locator(".notice")).to_contain_text(
        f"headway retry {ended.batch} ticket-013", timeout=PATIENCE_MS
    )
    expect(attempts).to_have_count(2, timeout=PATIENCE_MS)
    heading = page.locator("h1")
    expect(heading).to_contain_text("failed", timeout=PATIENCE_MS)
    page.get_by_role("group", name="Steer the job").get_by_role("button", name="Retry 2 failed").click()
    expect(page.locator(".notice")).to_contain_text(
        f"headway retry {ended.batch} --failed", timeout=PATIENCE_MS
    )
    page.goto(f"{ended.server.origin}/jobs/{ended.batch}/units/13")
    expect(attempts).to_have_count(3, timeout=PATIENCE_MS)
    expect(heading).to_contain_text("failed", timeout=PATIENCE_MS)


def test_a_conversation_with_markup_is_text(ended: EndedJobs, open_page: OpenPage) -> None:
    page = open_page(ended.server, f"/jobs/{ended.batch}/units/1")
    answer = page.locator(".message.is-model .text-block")
    expect(answer).to_have_text(HOSTILE, timeout=PATIENCE_MS)
    assert page.locator("main script, main img").count() == 0
    assert "broken" not in page.title()
    assert "in flight" in (page.locator(".time-bar").get_attribute("aria-label") or "")


def test_a_flow_is_drawn_and_answered(ended: EndedJobs, open_page: OpenPage) -> None:
    page = open_page(ended.server, f"/jobs/{ended.flow}/flow")
    expect(page.locator(".graph .node")).to_have_count(6, timeout=PATIENCE_MS)
    expect(page.locator(".graph .n-success")).to_have_count(4)
    page.locator(".graph [data-node=draft]").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".node-card")).to_contain_text("6 of 6 done")
    page.locator(".trouble", has_text="sign_off asks").get_by_role("button", name="Answer…").click()
    page.get_by_label("Note").fill("looks good")
    expect(page.locator("dialog .command")).to_contain_text(
        f"headway approve {ended.flow} sign_off --note 'looks good'"
    )
    page.get_by_role("button", name="Send the answer").click()
    expect(page.locator("dialog")).to_have_count(0, timeout=PATIENCE_MS)
    page.get_by_role("group", name="Steer the job").get_by_role("button", name="Resume").click()
    expect(page.locator("h1")).to_contain_text("finished", timeout=PATIENCE_MS)
    expect(page.locator(".graph .n-success")).to_have_count(6, timeout=PATIENCE_MS)


def test_an_eval_and_a_review(ended: EndedJobs, open_page: OpenPage) -> None:
    page = open_page(ended.server, f"/jobs/{ended.eval}/eval")
    expect(page.locator(".matrix .cell")).to_have_count(12, timeout=PATIENCE_MS)
    expect(page.locator(".totals")).to_contain_text("4 failed", timeout=PATIENCE_MS)
    page.locator(".matrix .cell", has_text="fail").first.click()
    expect(page.locator("dialog")).to_contain_text("icontains")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page = open_page(ended.server, f"/jobs/{ended.review}/review")
    expect(page.locator(".finding")).to_contain_text("every caller gets a wrong sum", timeout=PATIENCE_MS)
    expect(page.locator(".line.is-found")).to_have_text("    return a - b")
    page.get_by_role("button", name="src/network/ping.py").click()
    expect(page.locator(".finding")).to_contain_text("critical", timeout=PATIENCE_MS)


def test_figures_of_an_eval_are_shown_when_they_are_counted(ended: EndedJobs, open_page: OpenPage) -> None:
    """The first answer may be without them: over a server, or of a large eval."""
    page = open_page(ended.server)
    answers: list[bool] = []

    def without_figures_at_first(route: Route) -> None:
        answer = route.fetch()
        body = answer.json() if answers else {**answer.json(), "totals": None}
        answers.append(body["totals"] is not None)
        route.fulfill(response=answer, json=body)

    page.route("**/api/jobs/*/eval", without_figures_at_first)
    page.goto(f"{ended.server.origin}/jobs/{ended.eval}/eval")
    expect(page.locator(".totals")).to_contain_text("4 failed", timeout=PATIENCE_MS)
    assert answers[0] is False


def test_an_unknown_job_says_what_to_do(
    ended: EndedJobs, open_page: OpenPage, expected_problems: list[str]
) -> None:
    expected_problems.append("status of 404")
    page = open_page(ended.server, "/jobs/none")
    expect(page.locator(".none")).to_contain_text("headway jobs", timeout=PATIENCE_MS)


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (PHONE, True)], ids=["desktop", "phone"])
def test_everybody_can_use_the_pages(
    ended: EndedJobs, open_page: OpenPage, size: tuple[int, int], dark: bool
) -> None:
    """Axe finds nothing serious, and nothing is wider than the screen."""
    page = open_page(ended.server, "/", size, dark=dark)
    shown = {
        "/": ".joblist a",
        "/lanes": "article.lane-card",
        f"/jobs/{ended.batch}": "article.lane",
        f"/jobs/{ended.batch}/units": ".unit-line",
        f"/jobs/{ended.batch}/units/13": ".time-bar",
        f"/jobs/{ended.flow}/flow": ".graph .node",
        f"/jobs/{ended.eval}/eval": ".matrix .cell",
        f"/jobs/{ended.review}/review": ".finding",
    }
    found = {}
    for path, part in shown.items():
        page.goto(f"{ended.server.origin}{path}")
        page.locator(part).first.wait_for(timeout=PATIENCE_MS)
        found[path] = serious(page)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= size[0], (path, width)
    assert {path: problems for path, problems in found.items() if problems} == {}


def test_an_instant_that_no_calendar_has_breaks_no_page(ended: EndedJobs, open_page: OpenPage) -> None:
    """A lane with a tiny limit waits until then."""
    page = open_page(ended.server)
    shown = (
        "([format, parts]) => [format.localTime(6e301), format.utcTime(6e301), parts.time(6e301).outerHTML]"
    )
    modules = ["format.js", "widgets.js"]
    loaded = f"Promise.all({modules}.map((name) => import('/assets/parts/' + name))).then({shown})"
    assert page.evaluate(loaded) == ["–", "", "<time>–</time>"]
