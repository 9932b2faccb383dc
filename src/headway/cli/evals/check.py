"""`headway eval --check CONFIG`: everything in a configuration that is wrong, or not supported."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from headway.cli.shared.printing import print_json
from headway.config import Config, dotenv_of
from headway.display.terminal import echo
from headway.evals.config.eval_file import check_eval


def check_config(path: Path, settings: Config, *, as_json: bool) -> int:
    """Print each problem with its line, and what to write instead; returns the exit code."""
    environ = {**dotenv_of(settings), **os.environ}
    checked = check_eval(path.absolute(), config=settings, environ=environ)
    if as_json:
        unsupported = [one._asdict() for one in checked.unsupported]
        print_json({"unsupported": unsupported, "problems": msgspec.to_builtins(checked.problems)})
    else:
        for problem in checked.problems:
            echo(problem.text(str(path)))
        if checked.spec is not None:
            echo(f"{path}: everything in it is supported")
    return 0 if checked.spec is not None else 2
