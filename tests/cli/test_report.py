"""`headway report`: a job as one page, opened in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.browser import DESKTOP, PHONE, Window, started_browser
from tests.cli.conftest import Headway
from tests.crash.stage import Stage

MOOD = {"type": "object", "properties": {"mood": {"type": "string"}}, "required": ["mood"]}

EVAL = """
prompts: ["Hello {{name}}"]
providers: [echo]
tests:
  - {vars: {name: Ada}, assert: [{type: equals, value: Hello Ada}]}
  - {vars: {name: Bob}, assert: [{type: equals, value: Hello Ada}]}
"""


@contextmanager
def opened(path: Path, size: tuple[int, int] = DESKTOP) -> Iterator[Page]:
    """A page in a browser. The browser lives no longer, because its loop and one of a command in this process exclude each other."""
    with started_browser() as browser:
        window = Window(browser, size)
        page = window.open(path)
        page.locator("#search").evaluate(
            "element => element.scrollIntoView()"
        )  # Rows exist while they are in view.
        yield page
        window.close()
    assert window.problems == []


@pytest.fixture
def finished(stage: Stage, headway: Headway) -> Stage:
    """A job of ten units, two of which are hostile: one by its id, one by its answer, which echoes the prompt."""
    rows = [(f"row-{n}", f"say {n}") for n in range(8)]
    rows += [("<script>alert(1)</script>", "plain"), ("markup", "</script><script>alert(1)</script>")]
    requests = [
        {
            "custom_id": name,
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "m", "messages": [{"role": "user", "content": text}]},
        }
        for name, text in rows
    ]
    path = stage.root / "ten.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in requests), encoding="utf-8")
    done = headway("run", "ten.jsonl", "--name", "ten", "-q")
    assert done.code == 0, done.err
    return stage


def test_the_report_of_a_job_is_a_page_that_needs_nothing_else(finished: Stage, headway: Headway) -> None:
    done = headway("report", "ten")
    assert (done.code, done.out) == (0, "ten.html\n"), done.err
    assert str(finished.root) not in (finished.root / "ten.html").read_text(encoding="utf-8")
    with opened(finished.root / "ten.html") as page:
        expect(page.get_by_role("heading", level=1)).to_have_text("ten")
        expect(page.locator(".fact").first).to_have_text("10of 10 units succeeded")
        expect(page.locator("tbody tr[role=row]")).to_have_count(10)
        page.locator("#search").fill("say 7")
        expect(page.locator("#count")).to_have_text("1 of 10 units")
        page.locator("[role=gridcell]").last.click()
        expect(page.get_by_role("dialog", name="row-7")).to_contain_text("echo: say 7")


def test_the_report_says_how_the_job_ran_also_without_scripts(stage: Stage, headway: Headway) -> None:
    stage.configure("rpm = 600\nburst = 1")
    rows = [json.dumps({"id": f"r{n}", "prompt": f"say {n}", "model": "m"}) for n in range(24)]
    (stage.root / "slow.jsonl").write_text("\n".join(rows), encoding="utf-8")
    assert headway("run", "slow.jsonl", "--name", "slow", "-q").code == 0
    done = headway("report", "slow", "-o", "slow.html", "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    pace = [wait for wait in facts["waits"] if wait["reason"] == "pace"]
    assert pace[0]["for_limit"] == "requests per minute"
    faster = facts["faster"]
    assert 1.4 <= faster["simulated_s"] <= 2.4, "ten at once, and one each tenth of a second"
    gains = {one["change"]["what"]: one["seconds"] for one in faster["changes"]}
    assert set(gains) == {"requests", "key"}
    assert gains["requests"] < 0.7 * faster["simulated_s"]
    with opened(stage.root / "slow.html") as page:
        run = page.locator("main #run")
        expect(run.get_by_role("img", name="Requests: started, limit")).to_be_visible()
        expect(run).to_contain_text("its limit of requests per minute")
        expect(run).to_contain_text("twice the requests per minute for alpha/m")
        assert run.locator("[style], script, image").count() == 0
    with started_browser() as browser:
        page = browser.new_context(java_script_enabled=False).new_page()
        page.goto((stage.root / "slow.html").as_uri())
        expect(page.get_by_role("heading", name="What would have made it faster")).to_be_visible()
        expect(page.locator("#run svg.plot")).not_to_have_count(0)


def test_what_units_say_stays_text(finished: Stage, headway: Headway) -> None:
    headway("report", "ten", "--out", "page.html")
    with opened(finished.root / "page.html") as page:
        expect(page.get_by_text("<script>alert(1)</script>", exact=True)).to_be_visible()
        page.locator("#search").fill("</script><script>")
        expect(page.locator("#count")).to_have_text("1 of 10 units")
        assert page.locator("body script:not([type])").count() == 1


def test_a_unit_is_opened_and_left_with_keys(finished: Stage, headway: Headway) -> None:
    headway("report", "ten")
    with opened(finished.root / "ten.html") as page:
        page.locator("[role=gridcell]").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog", name="row-1")).to_be_visible()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("dialog", name="row-2")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_failures_and_their_reasons(stage: Stage, headway: Headway) -> None:
    (stage.root / "mood.json").write_text(json.dumps(MOOD), encoding="utf-8")
    rows = [{"custom_id": text.strip("#"), "prompt": text} for text in ("#fits", "#never")]
    (stage.root / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert headway("run", "in.jsonl", "--schema", "mood.json", "--name", "bad", "-q").code == 1
    assert headway("report", "bad").code == 0
    with opened(stage.root / "bad.html") as page:
        expect(page.get_by_role("table", name="Failures")).to_contain_text("the answer is not JSON")
        page.get_by_label("Status").select_option("failed")
        expect(page.locator("#count")).to_have_text("1 of 2 units")
        expect(page.locator("tbody tr[role=row]")).to_contain_text("never")


def test_the_report_of_an_eval_has_its_matrix(stage: Stage, headway: Headway) -> None:
    (stage.root / "promptfooconfig.yaml").write_text(EVAL, encoding="utf-8")
    done = headway("eval", "promptfooconfig.yaml", "--name", "greetings", "--out", "first.html", "-q")
    assert done.code == 5, done.err
    assert headway("report", "greetings", "--out", "second.html").code == 0
    for name in ("first.html", "second.html"):
        with opened(stage.root / name) as page:
            assert page.locator("tbody [role=gridcell] .mark").all_inner_texts() == ["✓ pass", "✗ fail"]
            expect(page.locator(".rate b")).to_have_text("50.0%")


def test_a_phone_needs_no_sideways_scroll(finished: Stage, headway: Headway) -> None:
    headway("report", "ten")
    with opened(finished.root / "ten.html", PHONE) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


def test_only_a_report_of_the_same_job_is_replaced(finished: Stage, headway: Headway) -> None:
    foreign = finished.root / "ten.html"
    foreign.write_text("<h1>my page</h1>", encoding="utf-8")
    refused = headway("report", "ten")
    assert refused.code == 2
    assert "ten.html exists and is no report of ten" in refused.err
    assert foreign.read_text() == "<h1>my page</h1>"
    assert headway("report", "ten", "--force").code == 0
    assert headway("report", "ten").code == 0, "its own report is replaced"


@pytest.mark.parametrize(
    ("out", "says"), [("a.pdf", "a report is an .html file"), ("no/a.html", "there is no directory no")]
)
def test_a_file_that_cannot_be_a_report(finished: Stage, headway: Headway, out: str, says: str) -> None:
    refused = headway("report", "ten", "--out", out)
    assert refused.code == 2
    assert says in refused.err
    assert not Path(out).exists()


def test_json_names_the_job_and_the_file(finished: Stage, headway: Headway) -> None:
    done = headway("report", "ten", "--out", "page.html", "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert (facts["job"], facts["path"]) == ("ten", "page.html")
    assert facts["worked_s"] > 0.0
    assert facts["costs"][0] | {"input_tokens": 0, "output_tokens": 0} == {
        "lane": "alpha/m", "kind": "openai", "attempts": 10, "input_tokens": 0, "output_tokens": 0, "cost_usd": None,
        "repeated_usd": None,
    }  # fmt: skip
