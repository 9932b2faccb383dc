"""The configurations that the section `evals` runs, and `headway eval` on one of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.evals.timed_command import TimedCommand, run_timed

#: Variables with the user's own settings.
_OWN: Final = ("ANTHROPIC_", "OPENAI_", "HEADWAY_")
#: A test of `headway eval` passed all cells, or some are below.
_ENDED: Final = (0, 5)


def write_eval(folder: Path, providers: list[dict[str, Any]], texts: list[str]) -> Path:
    """A configuration with a test for each text, which every answer repeats."""
    config = {
        "prompts": ["Repeat {{text}}"],
        "providers": providers,
        "tests": [
            {"vars": {"text": text}, "assert": [{"type": "contains", "value": text}]} for text in texts
        ],
    }
    path = folder / "promptfooconfig.yaml"
    path.write_bytes(msgspec.json.encode(config))  # JSON is YAML.
    return path


def headway_eval(
    prefix: tuple[str, ...], config: Path, results: Path, variables: dict[str, str], longest_s: float
) -> TimedCommand:
    """`headway eval` on a configuration; an exit code that is neither a pass nor a fail is an error."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    command = [*prefix, sys.executable, "-P", "-m", "headway", "eval", config.name]
    ended = run_timed([*command, "--out", str(results)], config.parent, {**environ, **variables}, longest_s)
    if ended.code not in _ENDED:
        raise RuntimeError(f"headway eval: exit code {ended.code}: {ended.printed[-2000:]}")
    return ended
