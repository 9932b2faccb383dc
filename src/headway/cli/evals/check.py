"""`headway eval --check CONFIG`: what a configuration uses and is not supported."""

from __future__ import annotations

from pathlib import Path

from headway.cli.shared.printing import print_json
from headway.display.terminal import echo
from headway.evals.config.eval_file import unsupported


def list_unsupported(path: Path, *, as_json: bool) -> int:
    """Print each key with its line, why, and what to write instead; returns the exit code."""
    problems = unsupported(path)
    if as_json:
        print_json({"unsupported": [problem._asdict() for problem in problems]})
    elif not problems:
        echo(f"{path}: everything in it is supported")
    for line, key, why, instead in () if as_json else problems:
        echo(f"{path.name}, line {line}: {key}: {why}" + (f" ({instead})" if instead else ""))
    return 2 if problems else 0
