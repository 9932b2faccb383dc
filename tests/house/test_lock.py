"""requirements.lock has a hash for every package, is complete, and names no registry."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def normalised_name(requirement: str) -> str:
    """The normalised package name of a requirement (PEP 503)."""
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def locked_names() -> set[str]:
    return {normalised_name(line) for line in LOCK.splitlines() if re.match(r"\w", line)}


def test_lock_names_no_registry() -> None:
    assert not re.findall(r"\S*://\S*|--(?:extra-)?index-url|--find-links| @ |^-e .*", LOCK, re.MULTILINE)


def test_every_pin_is_exact_and_hashed() -> None:
    pins = re.split(r"\n(?=\w)", LOCK)
    loose = [pin.split()[0] for pin in pins if not re.match(r"[\w.-]+==\S+ .*\n +--hash=sha256:", pin)]
    assert loose == []


def test_lock_has_all_dependencies_and_the_dev_group() -> None:
    required = [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"]]
    assert {normalised_name(requirement) for requirement in required} <= locked_names()


def test_every_pin_is_within_its_bounds() -> None:
    pins: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==(\S+)", LOCK, re.MULTILINE):
        pins.setdefault(normalised_name(name), set()).add(version)
    required = [
        Requirement(one)
        for one in (*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"])
    ]
    extras = PROJECT["project"]["optional-dependencies"]
    required += [Requirement(one) for name in extras if name != "all" for one in extras[name]]
    outside = [
        f"{one.name} {version}"
        for one in required
        for version in pins.get(normalised_name(one.name), ())
        if version not in one.specifier
    ]
    assert outside == []


def test_uv_and_pip_audit_are_pinned() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for tool in ("UV", "PIP_AUDIT"):
        assert re.search(rf"^{tool}_VERSION := \d+(\.\d+)+$", makefile, re.MULTILINE)
    installed = re.findall(r"pip install .*?(uv|pip-audit)(\S*)$", makefile, re.MULTILINE)
    assert installed == [("uv", "==$(UV_VERSION)"), ("pip-audit", "==$(PIP_AUDIT_VERSION)")]
