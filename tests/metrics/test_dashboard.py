"""The dashboard for Grafana: Debian's Prometheus scrapes a real run, and every query of the dashboard returns data."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.crash.stage import Stage, wait_for
from tests.metrics.metrics_page import url_in
from tests.metrics.prometheus import Prometheus, program, scraping

from headway.fake.process import fake_process
from headway.metrics.families import FAMILIES
from headway.metrics.grafana import DASHBOARD

PLAN = """
accounts:
  default: {latency: {min: 20ms, max: 60ms}, faults: [{kind: 529, chance: 0.1}]}
"""
#: What Grafana fills in.
VARIABLES = {"$job": ".*", "$lane": ".*", "$__rate_interval": "10s"}
METRIC = re.compile(r"headway_\w+")


def dashboard() -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return shown


def expressions() -> list[str]:
    """All queries of the dashboard, its variables included."""
    shown = dashboard()
    queries = [target["expr"] for panel in shown["panels"] for target in panel["targets"]]
    listed = [one["definition"] for one in shown["templating"]["list"] if one["type"] == "query"]
    return queries + [found[1] for text in listed if (found := re.match(r"label_values\((.+), \w+\)", text))]


def filled_in(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


def test_the_dashboard_asks_for_every_family_and_no_other() -> None:
    asked = {name for text in expressions() for name in METRIC.findall(text)}
    assert asked == {
        f"{family.name}_bucket" if family.type == "histogram" else family.name for family in FAMILIES
    }
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] and panel["targets"] for panel in panels)


def test_every_query_returns_data_of_a_real_run(tmp_path: Path) -> None:
    program("prometheus")
    plan, log = tmp_path / "plan.yaml", tmp_path / "run.log"
    plan.write_text(PLAN, encoding="utf-8")
    with fake_process("--config", str(plan)) as fake:
        # Far more units than the test needs: the process is killed at its end.
        stage = Stage(tmp_path, fake, f"grafana-{os.getpid()}", units=3000)
        prices = "[providers.alpha.prices]\ninput = 100\noutput = 300\n"
        stage.configure("rpm = 1200\ntpm = 100_000\nmax_concurrency = 8", more=prices)
        stage.write_input()
        with stage.process("run", "in.jsonl", "--metrics", "0", "--log-file", str(log)) as run:
            url = wait_for("the address", lambda: url_in(log.read_text() if log.exists() else ""))
            with scraping(url, tmp_path) as prometheus:
                for text in expressions():
                    expression = filled_in(text)
                    wait_for(f"data of {expression}", lambda: has_numbers(prometheus, expression), 60.0)  # noqa: B023
                types = prometheus.metadata()
            assert_lint_finds_nothing(url)
            run.kill()
    # OpenMetrics names a counter without its suffix.
    assert (
        types.items() >= {family.name: family.type for family in FAMILIES}.items()
        or types.items() >= {family.name.removesuffix("_total"): family.type for family in FAMILIES}.items()
    )


def has_numbers(prometheus: Prometheus, expression: str) -> bool:
    """Whether there are samples, and a number among them."""
    return any(sample["value"][1] != "NaN" for sample in prometheus.query(expression))


def assert_lint_finds_nothing(url: str) -> None:
    with urlopen(url, timeout=20) as answer:
        text = answer.read()
    checked = subprocess.run(
        [program("promtool"), "check", "metrics"], check=False, input=text, capture_output=True, timeout=60
    )
    assert (checked.returncode, checked.stderr) == (0, b"")
