"""Shared by the scripts that generate pages of the documentation: write a page, or check that it is current."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def write_or_check(arguments: list[str], page: Path, drawn: str, usage: str, command: str) -> int:
    """Without arguments write the page; with `--check` report whether it is stale."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write(usage)
        return 2
    if not arguments:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(drawn, encoding="utf-8")
    elif not page.exists() or page.read_text(encoding="utf-8") != drawn:
        sys.stderr.write(f"{page.relative_to(ROOT)} is stale: run `{command}`\n")
        return 1
    return 0
