"""Finds the real promptfoo, and runs it where it can reach nothing but the fake.

`make promptfoo` installs the versions of package.json into a folder of the user's cache, whose name is a hash of that file.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from bench.evals.timed_command import TimedCommand, run_timed
from bench.servers import installed

PACKAGE: Final = installed.ROOT / "tests" / "evals_real" / "package.json"
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
    if not installed.namespaces():
        return "no network namespaces here: promptfoo must not reach the network"
    return ""


def targets(fake_url: str, openai_key: str = "any", anthropic_key: str = "any") -> dict[str, str]:
    """The variables that make the fake the provider of a configuration."""
    return {
        "FAKE_URL": fake_url,
        "OPENAI_BASE_URL": f"{fake_url}/v1",
        "OPENAI_API_KEY": openai_key,
        "ANTHROPIC_BASE_URL": fake_url,
        "ANTHROPIC_API_KEY": anthropic_key,
    }


def evaluate(
    prefix: tuple[str, ...],
    config: Path,
    results: Path,
    variables: dict[str, str],
    longest_s: float = PATIENCE_S,
) -> TimedCommand:
    """`promptfoo eval` on a configuration. `prefix` is the command that enters the namespace."""
    home = results.parent / "promptfoo-home"
    home.mkdir(exist_ok=True)
    environ = {
        **_ALONE,
        "PATH": f"{programs()}:{os.environ['PATH']}",
        "HOME": str(home),
        "PROMPTFOO_CONFIG_DIR": str(home / ".promptfoo"),
        **variables,
    }
    command = [*prefix, "promptfoo", "eval", "-c", str(config), "-o", str(results), "--no-table"]
    return run_timed(command, config.parent, environ, longest_s)
