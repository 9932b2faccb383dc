"""Every figure that docs/explanations/how-close.md claims is held to bench/RESULTS.md, or to the code.

A claim says "at most". It is wrong if a measured row is above it, and if it is far from what was measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from bench import results

from headway.providers.limits.profiles import PROFILES

ROOT = Path(__file__).parents[2]
PAGE = " ".join((ROOT / "docs" / "explanations" / "how-close.md").read_text(encoding="utf-8").split())
PARTS = results.read(ROOT / "bench" / "RESULTS.md")
CELL = re.compile(r"([\d.]+) \(([\d.]+)(?:, (\d+) failed)?\)")


class Row(NamedTuple):
    """Headway's cell in a row of a table: the first column, its ratio and its refusals."""

    name: str
    ratio: float
    refused: float
    failed: int


def rows(section: str) -> Iterator[Row]:
    """The rows of a section with a column `headway`; skips the test where the section has not been measured yet."""
    if section not in PARTS:
        pytest.skip(f"the section '{section}' is not in RESULTS.md yet: make bench SECTION={section}")
    place = -1
    for line in PARTS[section].lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if "headway" in cells:
            place = cells.index("headway")
        elif line.startswith("| ") and 0 <= place < len(cells) and (found := CELL.fullmatch(cells[place])):
            yield Row(cells[0], float(found[1]), float(found[2]), int(found[3] or 0))


def lane_rows(*scenarios: str) -> list[Row]:
    """The rows of these scenarios in virtual time."""
    found = [row for row in rows("lanes") if row.name in scenarios]
    assert {row.name for row in found} == set(scenarios)
    return found


def told() -> list[Row]:
    names = [f"{kind}-{depth}s" for kind in ("headers", "known", "levels") for depth in (60, 10, 1)]
    return lane_rows(*names, "minute-headers")


def not_told() -> list[Row]:
    return lane_rows("blind-60s", "blind-10s", "blind-1s")


def short_rows(start: str) -> list[Row]:
    """The rows of 100, 400 and 1,000 units."""
    return [row for row in rows("short") if row.name.startswith(start) and " units" in row.name]


def percent(found: list[Row]) -> float:
    return 100.0 * (max(row.ratio for row in found) - 1.0)


def beside_trouble() -> float:
    if "real" not in PARTS:
        pytest.skip("not measured yet: make bench SECTION=real")
    found = re.findall(r"beside a \w+ one: [\d.]+ s, ([\d.]+)", "\n".join(PARTS["real"].lines))
    assert len(found) == 2
    return max(0.0, 100.0 * (max(map(float, found)) - 1.0))


#: The claim on the page, what was measured, and how far below the claim it may be.
CLAIMS: dict[str, tuple[Callable[[], float], float]] = {
    r"jobs of ten minutes take at most ([\d.]+) % longer": (lambda: percent(told()), 2.0),
    r"at most (\d+) 429s per 1000 units \(usually": (lambda: max(row.refused for row in told()), 2.0),
    r"Jobs of ten minutes take at most ([\d.]+) % longer": (lambda: percent(not_told()), 2.5),
    r"at most (\d+) 429s per 1000 units; jobs": (lambda: max(row.refused for row in not_told()), 8.0),
    r"jobs of a minute take at most ([\d.]+) % longer": (lambda: percent(lane_rows("blind-short")), 8.0),
    r"They take at most ([\d.]+) times as long": (
        lambda: max(row.ratio for name in ("short-headers", "short-known") for row in short_rows(name)),
        0.2,
    ),
    r"and at most ([\d.]+) times if nothing is reported": (
        lambda: max(row.ratio for row in short_rows("short-blind")),
        0.4,
    ),
    r"\(held or dead\) takes at most ([\d.]+) % longer than alone": (beside_trouble, 1.0),
    r"up to (\d+) of 4,250 units fail": (lambda: max(row.failed for row in lane_rows("storms")), 4.0),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_is_what_was_measured(claim: str) -> None:
    [claimed] = re.findall(claim, PAGE)
    measure, slack = CLAIMS[claim]
    measured = measure()
    assert measured <= float(claimed), f"RESULTS.md has {measured:.2f}"
    assert float(claimed) - measured <= slack, f"RESULTS.md has {measured:.2f}: the claim is too modest"


def test_the_number_of_profiles() -> None:
    [(providers, agents)] = re.findall(r"error texts of (\d+) providers and (\d+) agent CLIs", PAGE)
    clis = {"claude", "codex", "gemini-cli", "opencode"}
    known = {name for name in PROFILES if name != "generic"}
    assert len(known & clis) == int(agents)
    assert len(known - clis) == int(providers)
