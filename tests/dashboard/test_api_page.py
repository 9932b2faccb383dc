"""docs/reference/dashboard-api.md has every address of the API, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from headway.dashboard.actions.actions import ACTIONS
from headway.dashboard.answers.api_answers import ANSWERS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "dashboard-api.md"
NAMES = {"name:path": "LANE", "name": "JOB", "job": "JOB", "index": "INDEX"}


def test_the_page_has_every_address() -> None:
    served = {("GET", path) for path in (*ANSWERS, "/api/events", "/metrics")} | {
        ("POST", path) for path in ACTIONS
    }
    expected = {
        (method, re.sub(r"\{([^}]+)\}", lambda part: NAMES[part[1]], path)) for method, path in served
    }
    text = PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"`(GET|POST) (/[\w/]+)[`?]", text)) == expected
