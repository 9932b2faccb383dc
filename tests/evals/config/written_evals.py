"""Configurations that tests write, and what is read from them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

from headway.config import Config, ProviderConfig
from headway.errors import InputError
from headway.evals.config.eval_file import CheckedEval, check_eval, read_eval
from headway.evals.spec import EvalSpec

#: What most tests do not care for.
PROMPTS = "prompts: ['Say {{x}}']\n"
PROVIDERS = "providers: [openai:chat:gpt-x]\n"
BASE = PROMPTS + PROVIDERS


def written(folder: Path, text: str, **files: str) -> Path:
    """A configuration in a folder, with other files; `__` in their names stands for a dot."""
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_text(textwrap.dedent(content))
    path = folder / "eval.yaml"
    path.write_text(textwrap.dedent(text))
    return path


def settings(folder: Path, **providers: ProviderConfig) -> Config:
    """The settings of a headway.toml with these providers."""
    return Config(path=None, root=folder, db=str(folder / "headway.db"), providers=providers)


def read(path: Path, environ: Mapping[str, str] | None = None, config: Config | None = None) -> EvalSpec:
    """The eval of a file."""
    return read_eval(path, config=config or settings(path.parent), environ=environ or {})


def checked(path: Path, environ: Mapping[str, str] | None = None) -> CheckedEval:
    """The eval of a file, or what is wrong with it."""
    return check_eval(path, config=settings(path.parent), environ=environ or {})


def errors(path: Path, environ: Mapping[str, str] | None = None) -> list[str]:
    """The errors of a file, without its path."""
    try:
        read(path, environ)
    except InputError as error:
        lines = error.problems or (error.message,)
        return [line.removeprefix(f"{path}:").strip() for line in lines]
    return []
