"""requirements.lock: hashed, whole, and free of where this machine gets its packages from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

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


def test_every_pin_is_within_its_bounds() -> None:
    pins: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==(\S+)", LOCK, re.MULTILINE):
        pins.setdefault(normalised(name), set()).add(version)
    wanted = [
        Requirement(one)
        for one in (*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"])
    ]
    extras = PROJECT["project"]["optional-dependencies"]
    wanted += [Requirement(one) for name in extras if name != "all" for one in extras[name]]
    outside = [
        f"{one.name} {version}"
        for one in wanted
        for version in pins.get(normalised(one.name), ())
        if version not in one.specifier
    ]
    assert outside == []


def test_the_tools_that_make_and_check_the_lock_are_pinned() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for tool in ("UV", "PIP_AUDIT"):
        assert re.search(rf"^{tool}_VERSION := \d+(\.\d+)+$", makefile, re.MULTILINE)
    installed = re.findall(r"pip install .*?(uv|pip-audit)(\S*)$", makefile, re.MULTILINE)
    assert installed == [("uv", "==$(UV_VERSION)"), ("pip-audit", "==$(PIP_AUDIT_VERSION)")]
