"""Committed files name neither a package registry nor a path of this machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REGISTRY = r"https?://[\w.-]*(?:pypi|pythonhosted|npmjs|debian)[\w.-]*"


def tracked_files() -> list[Path]:
    """Every file that is committed, or that `git add --all` would commit."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def leak_pattern() -> re.Pattern[str]:
    places = {ROOT, Path.home()} - {Path("/")}
    paths = "|".join(re.escape(f"{place}/") for place in places)
    return re.compile(rf"{REGISTRY}|(?<![\w.-])(?:{paths})")


def text_of(path: Path) -> str:
    """The file's text; empty for a binary file."""
    data = path.read_bytes()
    return "" if b"\0" in data else data.decode("utf-8", errors="replace")


def leaks_in(text: str) -> list[int]:
    pattern = leak_pattern()
    return [number for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
def test_no_registry_address_and_no_path_of_this_machine() -> None:
    files = tracked_files()
    assert files
    leaks = [f"{path.relative_to(ROOT)}:{line}" for path in files for line in leaks_in(text_of(path))]
    assert leaks == []


@pytest.mark.parametrize(
    ("line", "leaks"),
    [
        ("--index-url https" + "://pypi.org/simple", True),
        (f"open('{ROOT}/x')", True),
        ("see https" + "://docs.python.org/3/", False),
        (f"a relative{ROOT}/x", False),
    ],
)
def test_leaks_are_recognised(line: str, leaks: bool) -> None:
    assert bool(leaks_in(line)) is leaks


#: The only file of the commands and displays that prints.
TERMINAL = "src/headway/display/terminal.py"


def test_commands_and_displays_print_through_one_file() -> None:
    """That file escapes control characters of foreign text before it reaches a terminal."""
    printing = re.compile(r"^(?!.*(?:>>>|\.\.\. )).*(?:\bclick\.s?echo\(|(?<![\w.])print\()", re.MULTILINE)
    files = [*ROOT.glob("src/headway/cli/**/*.py"), *ROOT.glob("src/headway/display/**/*.py")]
    found = [str(path.relative_to(ROOT)) for path in files if printing.search(path.read_text())]
    assert found == [TERMINAL]
