"""`headway eval --check CONFIG`: what a configuration uses and is not supported, and everything else that is wrong with it."""

from __future__ import annotations

from pathlib import Path

from headway.cli.shared.printing import print_json
from headway.display.terminal import echo
from headway.evals.config.eval_file import CheckedEval


def list_unsupported(path: Path, checked: CheckedEval, *, as_json: bool) -> int:
    """Print each key with its line, why, and what to write instead, then other problems; returns the exit code."""
    listed = [f"{one.key}: not supported: {one.why}" for one in checked.unsupported]
    others = [one for one in checked.problems if not one.message.endswith(tuple(listed) or ("\0",))]
    if as_json:
        print_json(
            {
                "unsupported": [problem._asdict() for problem in checked.unsupported],
                "problems": [problem.text(path.name) for problem in others],
            }
        )
        return 2 if checked.spec is None else 0
    for line, key, why, instead in checked.unsupported:
        echo(f"{path.name}, line {line}: {key}: {why}" + (f" ({instead})" if instead else ""))
    for problem in others:
        echo(problem.text(path.name))
    if not checked.problems:
        echo(f"{path}: everything in it is supported")
    return 2 if checked.spec is None else 0
