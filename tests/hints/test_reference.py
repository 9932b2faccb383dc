"""The reference page matches the profiles."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from headway.providers.limits.profiles import PROFILES

ROOT = Path(__file__).parents[2]


def test_the_page_is_generated_from_the_profiles() -> None:
    drawn = subprocess.run(
        [sys.executable, "tools/draw_hints.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (drawn.returncode, drawn.stderr) == (0, "")


def test_the_page_names_every_provider() -> None:
    page = (ROOT / "docs" / "reference" / "hints.md").read_text(encoding="utf-8")
    assert [name for name in PROFILES if f"| {name} |" not in page] == []
