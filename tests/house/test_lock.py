"""requirements.lock: hashed, whole, and free of where this machine gets its packages from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def normalised(requirement: str) -> str:
    """The package name of a requirement, in the one spelling that counts (PEP 503)."""
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> set[str]:
    return {normalised(line) for line in LOCK.splitlines() if re.match(r"\w", line)}


def test_lock_has_no_address() -> None:
    assert not re.findall(r"\S*://\S*|--(?:extra-)?index-url|--find-links| @ |^-e .*", LOCK, re.MULTILINE)


def test_every_pin_is_exact_and_hashed() -> None:
    pins = re.split(r"\n(?=\w)", LOCK)
    loose = [pin.split()[0] for pin in pins if not re.match(r"[\w.-]+==\S+ .*\n +--hash=sha256:", pin)]
    assert loose == []


def test_dependencies_and_dev_group_stand_in_the_lock() -> None:
    wanted = [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"]]
    assert {normalised(requirement) for requirement in wanted} <= locked()
