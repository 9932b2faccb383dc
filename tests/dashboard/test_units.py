"""Units as the API lists, finds and shows them; the history of a job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from tests.cli.programs import program_stage
from tests.crash.stage import Stage, wait_for
from tests.dashboard.dashboard_process import DashboardProcess, EventReader, dashboard

HOSTILE = "</script><script>alert(1)</script>\x1b[2J"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    made = program_stage(tmp_path_factory.mktemp("units"), ["true"])
    rows = [{"id": f"row-{n}", "prompt": f"echo saffron{n}", "metadata": {"page": n}} for n in range(8)]
    rows += [{"id": f"bad{HOSTILE}", "prompt": f"echo '{HOSTILE}' >&2; exit 3"}]
    made.write_input(rows)
    assert made.run("run", "in.jsonl", "--name", "j", "--max-attempts", "2").returncode == 1
    return made


@pytest.fixture(scope="module")
def page(stage: Stage) -> Iterator[DashboardProcess]:
    with dashboard(stage) as running:
        yield running


def test_units_come_in_pages_with_filters(page: DashboardProcess) -> None:
    first = page.get("/api/jobs/j/units?limit=5").json
    rest = page.get(f"/api/jobs/j/units?limit=5&after={first['next']}").json
    assert [unit["index"] for unit in [*first["units"], *rest["units"]]] == list(range(9))
    assert (first["matches"], rest["next"]) == (9, None)
    failed = page.get("/api/jobs/j/units?status=failed,timed_out").json
    assert [unit["index"] for unit in failed["units"]] == [8]
    assert page.get("/api/jobs/j/units?status=none").status == 400
    assert page.get("/api/jobs/j/units?limit=0").status == 400
    assert page.get("/api/jobs/j/units?after=z9").status in (400, 409)
    assert page.get("/api/jobs/none/units").status == 404


def test_words_of_answers_are_found_once_the_index_is_built(stage: Stage, page: DashboardProcess) -> None:
    def found() -> list[str]:
        return [unit["id"] for unit in page.get("/api/jobs/j/units?q=saffron3").json["units"]]

    wait_for("the index", lambda: found() == ["row-3"])
    assert [unit["id"] for unit in page.get("/api/jobs/j/units?q=row-5").json["units"]] == ["row-5"]
    index = stage.root / ".headway" / "jobs" / "j" / "search.db"
    assert index.stat().st_mode & 0o077 == 0, "it has the texts of the units"


def test_one_unit_has_every_second_of_its_life_and_what_was_said(page: DashboardProcess) -> None:
    shown = page.get("/api/jobs/j/units/3").json
    unit = shown["unit"]
    assert (unit["id"], unit["status"], unit["metadata"], unit["prompt"]) == (
        "row-3",
        "succeeded",
        {"page": 3},
        "echo saffron3",
    )
    pieces = shown["timeline"]
    assert all(one["until_utc"] == other["from_utc"] for one, other in pairwise(pieces))
    assert "in_flight" in {piece["state"] for piece in pieces}
    texts = [turn["text"] for turn in shown["conversation"]]
    assert texts[0] == "echo saffron3"
    assert "saffron3" in texts[-1]
    assert shown["command"] == "headway show j row-3"
    assert shown["error"] is None


def test_a_failed_unit_says_why_and_what_to_do_and_its_text_is_text(page: DashboardProcess) -> None:
    answer = page.get("/api/jobs/j/units/8")
    assert answer.headers["content-type"] == "application/json"
    assert b"\\u001b" not in answer.body
    shown = answer.json
    assert len(shown["attempts"]) == 2
    assert {"queued", "in_flight", "backing_off"} >= {piece["state"] for piece in shown["timeline"]} - {
        "paused",
        "writing",
    }
    assert shown["error"]["do"]
    assert "<script>alert(1)</script>" in shown["unit"]["id"]
    assert "\\x1b[2J" in shown["unit"]["id"]
    assert "<script>" in json.dumps(shown["attempts"])


@pytest.mark.parametrize("index", ["9", "-1", "x", "1e3", "99999999999", "3%00"])
def test_a_unit_that_is_not_there_is_a_404(page: DashboardProcess, index: str) -> None:
    answer = page.get(f"/api/jobs/j/units/{index}")
    assert (answer.status, bool(answer.error)) == (404, True)


def test_the_history_has_columns_for_each_lane(page: DashboardProcess) -> None:
    history = page.get("/api/jobs/j/history").json
    lane = history["lanes"]["sh/sh"]
    assert len(history["t"]) == len(lane["starts_per_min"]) == len(history["done"]) >= 1
    assert history["done"][-1] == 9
    assert page.get("/api/jobs/j/history?lane=none").json["lanes"] == {}
    assert page.get("/api/jobs/j/history?since_utc=soon").status == 400


def test_samples_of_a_running_job_are_sent_as_they_are_recorded(tmp_path: Path) -> None:
    stage = program_stage(tmp_path, ["sleep 0.05"] * 200, at_once=2)
    with dashboard(stage) as page:
        assert stage.run("run", "in.jsonl", "--name", "j", "--detach").returncode == 0
        watched = EventReader(page, "/api/events?job=j")
        try:
            wait_for("two samples", lambda: len(watched.of("sample")) >= 2)
            times = [at for sample in watched.of("sample") for at in sample["t"]]
            assert times == sorted(set(times))
            assert "sh/sh" in watched.of("sample")[-1]["lanes"]
            assert page.post("/api/jobs/j/cancel").status == 200
            wait_for("the end", lambda: watched.of("ended"))
        finally:
            watched.close()
