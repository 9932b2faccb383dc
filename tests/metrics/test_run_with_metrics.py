"""`headway run --metrics`: what a scrape says is what the store has."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.crash.stage import Stage, wait_for
from tests.metrics.metrics_page import numbers_of, scrape, total, url_in

from headway.config import load
from headway.fake.process import fake_process
from headway.metrics.store_metrics import StoreMetrics
from headway.wiring.store_access import job_places, open_store_read_only

PLAN = """
accounts:
  default: {latency: {min: 10ms, max: 30ms}, faults: [{kind: 500, chance: 0.2}, {kind: 429, chance: 0.1}]}
"""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN, encoding="utf-8")
    with fake_process("--config", str(plan)) as fake:
        stage = Stage(tmp_path, fake, f"metrics-{os.getpid()}", units=400)
        prices = "[providers.alpha.prices]\ninput = 100\noutput = 300\n"
        retry = '[providers.alpha.retry]\nbase = "10ms"\n'
        stage.configure("rpm = 3000\nmax_concurrency = 8", more=prices + retry)
        stage.write_input()
        yield stage


def test_a_scrape_says_what_the_store_has(stage: Stage) -> None:
    log = stage.root / "run.log"
    with stage.process("run", "in.jsonl", "--metrics", "0", "--log-file", str(log)) as process:
        url = wait_for("the address", lambda: url_in(log.read_text() if log.exists() else ""))
        wait_for(
            "units", lambda: scrape(url).get(("headway_units", stage.job()["name"], "succeeded"), 0) >= 60
        )
        assert stage.run("pause").returncode == 0
        wait_for("the pause", lambda: scrape(url)["headway_lane_in_flight", "alpha/gpt-x"] == 0)
        numbers = wait_for("the last commit", lambda: same_as_store(stage, url))
        process.kill()
    job = stage.job()
    lane = "alpha/gpt-x"
    limit = numbers["headway_lane_limit", lane, "requests per minute"]
    assert 0 < limit <= 3000, "refusals may have proven it lower"
    assert 0 <= numbers["headway_lane_level", lane, "requests per minute"] <= 1.001 * limit
    assert numbers["headway_lane_window", lane] <= 8
    ended = total(
        {key: value for key, value in numbers.items() if key[-1] not in ("pending", "running")},
        "headway_units",
    )
    assert numbers["headway_lane_queued", lane] == 400 - ended
    assert numbers["headway_lane_oldest_wait_seconds", lane] > 0
    assert total(numbers, "headway_units") == 400
    assert numbers["headway_store_commit_seconds_count",] > 2
    assert 0 < numbers["headway_store_commit_seconds_sum",] < 60
    assert job["state"] in ("running", "paused")
    # A process that goes on counts from 0: Prometheus takes that for a restart.
    log.unlink()
    with stage.process("resume", "--metrics", "0", "--log-file", str(log)):
        url = wait_for("the address", lambda: url_in(log.read_text() if log.exists() else ""))
        again = wait_for("attempts", lambda: attempted(scrape(url)))
        assert now_and_before(again, job["name"], numbers)


def attempted(numbers: dict[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    """The numbers, once there are attempts and a view."""
    return numbers if total(numbers, "headway_attempts_total") and total(numbers, "headway_units") else {}


def now_and_before(
    again: dict[tuple[str, ...], float], job: str, before: dict[tuple[str, ...], float]
) -> bool:
    """Units are those of the whole job, and attempts those of this process."""
    units = ("headway_units", job, "succeeded")
    return again[units] >= before[units] and total(again, "headway_attempts_total") < total(
        before, "headway_attempts_total"
    )


def same_as_store(stage: Stage, url: str) -> dict[tuple[str, ...], float]:
    """The numbers, if all of them are in the store; {} while a commit is under way."""
    numbers = scrape(url)
    recorded: dict[tuple[str, ...], float] = {}
    lane = "alpha/gpt-x"
    for outcome, kind, count in stage.query("SELECT outcome, kind, count(*) FROM attempts GROUP BY 1, 2"):
        key = ("headway_attempts_total", lane, outcome)
        recorded[key] = recorded.get(key, 0) + count
        if kind in ("rate", "concurrency", "overload"):
            recorded["headway_refusals_total", lane, kind] = count
    for reason, seconds in stage.query("SELECT reason, sum(seconds) FROM lane_waits GROUP BY 1"):
        counted = numbers.get(("headway_wait_seconds_total", lane, reason), -1.0)
        recorded["headway_wait_seconds_total", lane, reason] = (
            counted if counted == pytest.approx(seconds) else seconds
        )
    [(input_tokens, output_tokens, usd)] = stage.query(
        "SELECT sum(input_tokens), sum(output_tokens), sum(cost_usd) FROM attempts"
    )
    recorded["headway_tokens_total", lane, "input"] = input_tokens
    recorded["headway_tokens_total", lane, "output"] = output_tokens
    cost = numbers["headway_cost_usd_total", lane]
    for status, count in stage.query("SELECT status, count(*) FROM units GROUP BY 1"):
        recorded["headway_units", stage.job()["name"], status] = count
    same = all(numbers.get(key) == value for key, value in recorded.items())
    return numbers if same and cost == pytest.approx(usd) and len(recorded) >= 8 else {}


def test_a_taken_port_is_an_error_before_anything_is_made(stage: Stage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = stage.run("run", "in.jsonl", "--metrics", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "cannot be opened: Address already in use — name another port" in done.stderr
    assert not stage.db.exists()


def test_the_page_of_all_jobs_has_the_same_numbers(stage: Stage) -> None:
    """What `headway ui` serves, while a run serves its own."""
    log = stage.root / "run.log"
    stage.units = 60
    stage.write_input()
    with stage.process("run", "in.jsonl", "--metrics", "0", "--log-file", str(log)) as process:
        url = wait_for("the address", lambda: url_in(log.read_text() if log.exists() else ""))
        wait_for("attempts", lambda: attempted(scrape(url)))
        assert stage.run("pause").returncode == 0
        wait_for("the pause", lambda: scrape(url)["headway_lane_in_flight", "alpha/gpt-x"] == 0)
        config = load(None, stage.root, {})
        pages = StoreMetrics(lambda: open_store_read_only(config), job_places(config))
        wait_for("the same numbers", lambda: comparable(scrape(url)) == comparable(numbers_in(pages.text())))
        process.kill()
    numbers = numbers_in(pages.text())
    assert total(numbers, "headway_units") == 60
    assert total(numbers, "headway_lane_in_flight") == 0
    assert ("headway_lane_in_flight", "alpha/gpt-x") not in numbers, "no process uses the lane"
    assert stage.run("resume").returncode == 0
    after = numbers_in(pages.text())
    assert after["headway_units", stage.job()["name"], "succeeded"] == 60
    [(attempts, usd)] = stage.query("SELECT count(*), sum(cost_usd) FROM attempts")
    assert total(after, "headway_attempts_total") == attempts
    assert total(after, "headway_cost_usd_total") == pytest.approx(usd)


def numbers_in(page: tuple[bytes, str]) -> dict[tuple[str, ...], float]:
    return numbers_of(page[0].decode())


def comparable(numbers: dict[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    """What does not depend on the instant, nor on the process."""
    changing = ("wait", "level", "commit")
    return {
        key: round(value, 6) for key, value in numbers.items() if not any(part in key[0] for part in changing)
    }
