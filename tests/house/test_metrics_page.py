"""docs/reference/metrics.md names every metric, label value and field, as the code has them."""

from __future__ import annotations

import re
from pathlib import Path

from headway.core.reasons import WaitCode
from headway.core.unit_states import Status
from headway.metrics.counted import REFUSALS_BY_LIMIT
from headway.metrics.families import FAMILIES
from headway.notifications.message import Notification

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(headway_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", PAGE, re.MULTILINE)
    assert rows == [
        (family.name, family.type, ", ".join(f"`{label}`" for label in family.labels) or "—", family.help)
        for family in FAMILIES
    ]


def values_of(label: str) -> set[str]:
    """The values that the page lists for a label."""
    [listed] = re.findall(rf"`{label}`:\s([a-z_, \n]+)\.", PAGE)
    return {value.strip() for value in listed.split(",")}


def test_the_values_of_labels() -> None:
    assert values_of("reason") == {str(code) for code in WaitCode}
    assert values_of("kind") == REFUSALS_BY_LIMIT
    assert values_of("status") == {str(status) for status in Status} - {"assigned"}
    assert values_of("direction") == {"input", "output"}


def test_the_fields_of_a_notification() -> None:
    table = PAGE.partition("## Notifications")[2].partition("## Spans")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(Notification.__struct_fields__)
