"""Finds the real promptfoo, and runs it where it can reach nothing but the fake.

`make promptfoo` installs the versions of package.json into a folder of the user's cache, whose name is a hash of that file.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Final

import msgspec
from bench.servers import installed

PACKAGE: Final = Path(__file__).with_name("package.json")
#: CI sets it: there a missing promptfoo fails the tests instead of skipping them.
REQUIRED: Final = "HEADWAY_REQUIRE_PROMPTFOO"
PATIENCE_S: Final = 120.0
#: Nothing is sent anywhere, and nothing is kept from one run to the next.
_ALONE: Final = {
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
    "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
    "PROMPTFOO_DISABLE_SHARING": "1",
    "PROMPTFOO_CACHE_ENABLED": "false",
    "PYTHONDONTWRITEBYTECODE": "1",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "TZ": "UTC",
}


def folder() -> Path:
    """Where `make promptfoo` puts it."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    name = hashlib.sha256(PACKAGE.read_bytes()).hexdigest()[:12]
    return Path(cache) / "headway-promptfoo" / name


def programs() -> Path:
    """The folder with `promptfoo` and `node`."""
    return folder() / "node_modules" / ".bin"


def missing() -> str:
    """Why promptfoo cannot be run; empty if it can."""
    if not (folder() / ".complete").exists():
        return "promptfoo: not installed. Node's npm and `make promptfoo` install what is needed (1.6 GB)"
    return (
        "" if installed.namespaces() else "no network namespaces here: promptfoo must not reach the network"
    )


class Run(msgspec.Struct, frozen=True):
    """A run of promptfoo that has ended."""

    code: int
    printed: str
    results: Path
    #: Seconds of processor time of all its processes, and seconds from start to end.
    cpu_s: float
    seconds: float


def environ(home: Path, fake_url: str) -> dict[str, str]:
    """The variables of a run: a home of its own, and the fake as every provider."""
    return {
        **_ALONE,
        "PATH": f"{programs()}:{os.environ['PATH']}",
        "HOME": str(home),
        "PROMPTFOO_CONFIG_DIR": str(home / ".promptfoo"),
        **targets(fake_url),
    }


def targets(fake_url: str) -> dict[str, str]:
    """The variables that make the fake every provider of the configurations."""
    return {
        "FAKE_URL": fake_url,
        "OPENAI_BASE_URL": f"{fake_url}/v1",
        "OPENAI_API_KEY": "any",
        "ANTHROPIC_BASE_URL": fake_url,
        "ANTHROPIC_API_KEY": "any",
    }


def evaluate(prefix: tuple[str, ...], config: Path, fake_url: str, results: Path, *flags: str) -> Run:
    """`promptfoo eval` on a configuration. `prefix` is the command that enters the namespace."""
    home = results.parent / "promptfoo-home"
    home.mkdir(exist_ok=True)
    command = [*prefix, "promptfoo", "eval", "-c", str(config), "-o", str(results), "--no-table", *flags]
    before = os.times()
    done = subprocess.run(
        command, cwd=config.parent, env=environ(home, fake_url), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return Run(done.returncode, done.stdout, results, cpu_s, after.elapsed - before.elapsed)
