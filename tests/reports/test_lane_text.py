"""The text of `headway lanes`."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from headway.core.lanes.lane_memory import LaneRecord
from headway.core.model import AccountWindow
from headway.core.reasons import Wait, WaitCode
from headway.core.snapshot import LaneView, MeterView
from headway.display.lane_text import lane_lines, meter_text
from headway.reports.lanes import LaneReport
from headway.reports.usage import use_report
from headway.stores.records import UsageTotals


@pytest.mark.parametrize(
    ("meter", "text"),
    [
        (
            MeterView("requests per minute", 600.0, 599.0, 1.0, True),
            "600 requests per minute (reported): 599 available",
        ),
        (
            MeterView("requests per minute", 50.0, 50.0, 1.0, True),
            "50 requests per minute (reported): 50 available",
        ),
        (
            MeterView("requests per minute", 600.0, 8.0, 1.0, True),
            "600 requests per minute (reported): 8 available, bucket depth 1.0 s",
        ),
        (
            MeterView("requests per minute", 600.0, 600.0, 60.0, False),
            "600 requests per minute (configured or learned): 600 available, bucket depth 60 s",
        ),
        (
            MeterView("tokens per day", 9_000.0, 12.4, 86_400.0, True, "tokens"),
            "9,000 tokens per day (reported): 12 available",
        ),
    ],
)
def test_a_depth_never_contradicts_what_is_available(meter: MeterView, text: str) -> None:
    assert meter_text(meter) == text


CODEX = (
    "You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing), visit "
    "https://chatgpt.com/codex/settings/usage to purchase more credits or try again at 1:38 PM."
)


def _held(**seen: Any) -> list[str]:
    view = LaneView(
        "k", 2, 0, 2, 0, 3, 1, 0, 2, 1, 0.0, 0.0, (), "", 0.0, Wait(WaitCode.HOLD, 2000.0, CODEX), None,
        held_s=60.0, holds=1, held_for=CODEX, windows=(AccountWindow("five_hour", 1.0, 2000.0, "rejected"),),
    )  # fmt: skip
    key = "codex|codex (fixer)|8fb9074e3b|default"
    spent = use_report(UsageTotals())
    learned = LaneRecord("k", 1000.0, 2000.0, CODEX)
    return lane_lines(LaneReport("fixer/default", key, 1000.0, spent, learned, replace(view, **seen)), 1000.0)


def test_a_held_lane_says_once_why_and_until_when() -> None:
    lines = _held()
    text = "\n".join(lines)
    assert lines[0].startswith("fixer/default  (codex, account 8fb9074e3b, as of ")
    assert text.count("You've hit your usage limit") == 1
    assert "try again at 1:38 PM" in text, "the time is at the end of a long message"
    assert "  at most 1 in flight, 0 now; 2 of 3 rate-limited" in lines
    assert "window 1" not in text


def test_a_run_whose_first_attempts_are_in_flight_has_no_result_yet() -> None:
    text = "\n".join(_held(in_flight=3, succeeded=0, refused=0))
    assert "latest run" not in text
    assert "latest run: no request was answered" in "\n".join(
        _held(succeeded=0, refused=0, holds=0, held_for="")
    )
