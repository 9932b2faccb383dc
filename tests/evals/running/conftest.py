"""Evals that are run in this process against a fake provider whose answers follow from the prompt."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headway.cli.shared import run_job
from headway.config import load
from headway.evals.records import CellResult
from headway.evals.running.eval_source import EvalSource
from headway.evals.running.job_kind import EvalKind
from headway.evals.running.view import eval_view
from headway.evals.spec import EvalProvider, EvalSpec, PromptSpec, TestSpec
from headway.jobs.base import IngestOptions, OutputOptions
from headway.stores.records import Job
from headway.stores.store import Store
from headway.testing import FakeProvider, fake_provider
from headway.wiring.run_plan import RunFlags
from headway.wiring.store_access import open_store
from headway.wiring.submission import submitted


@dataclass
class EvalRuns:
    """A folder with settings, in which evals are run."""

    root: Path
    provider: FakeProvider

    def spec(self, **fields: Any) -> EvalSpec:
        """An eval with one prompt and one provider, unless others are given."""
        usual: dict[str, Any] = {
            "path": self.root / "promptfooconfig.yaml",
            "prompts": (prompt("say {{x}}"),),
            "providers": (named("alpha"),),
        }
        return EvalSpec(**{**usual, **fields})

    def run(self, spec: EvalSpec, *, fresh: bool = False, **flags: Any) -> list[CellResult]:
        """Run an eval to its end; returns its cells."""
        self.job = self.start(spec, fresh=fresh, **flags)
        return self.cells()

    def start(self, spec: EvalSpec, *, fresh: bool = False, **flags: Any) -> Job:
        config = load(None, self.root, os.environ)
        kind, source = EvalKind(), EvalSource(spec)
        config = kind.with_named_providers(config, source)
        run_flags = RunFlags(output=OutputOptions(self.root / "results.json"), limits=source.limits, **flags)
        with submitted(
            config, source, run_flags, IngestOptions(fresh=fresh), None, self.lines.append
        ) as ready:
            self.code = run_job.run_ready(ready, progress="none", quiet=True, as_json=False)
            return ready.store.job(ready.job.name) or ready.job

    def cells(self) -> list[CellResult]:
        with self.store() as store:
            return list(eval_view(store, store.job(self.job.name) or self.job).cells())

    def store(self) -> Store:
        return open_store(load(None, self.root, os.environ))

    def __post_init__(self) -> None:
        self.lines: list[str] = []
        self.code = -1

    def sent(self) -> int:
        """Requests that the provider has received."""
        received: int = self.provider.stats()["total"]["received"]
        return received


def prompt(raw: str, label: str = "") -> PromptSpec:
    return PromptSpec(raw=raw, label=label or raw)


def named(provider: str, model: str = "m", **fields: Any) -> EvalProvider:
    """A provider of headway.toml."""
    return EvalProvider(id=f"{provider}/{model}", provider=provider, model=model, **fields)


def rows_of(values: Sequence[str], **fields: Any) -> tuple[TestSpec, ...]:
    """A test for each value of the variable x."""
    return tuple(TestSpec(vars={"x": value}, **fields) for value in values)


TOML = """
[run]
provider = "alpha"
[providers.alpha]
kind = "openai"
base_url = "URL"
api_key_env = "P_KEY"
model = "m"
LIMITS
[providers.beta]
kind = "openai"
base_url = "URL"
api_key_env = "P_KEY"
model = "m"
LIMITS
"""


def settings(url: str, *, limited: bool = False) -> str:
    """headway.toml for a provider. Unlimited lanes need no time to find their pace."""
    limits = "" if limited else "limits = {rpm = 0, max_concurrency = 0}\n"
    return TOML.replace("URL", url).replace("LIMITS\n", limits)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with a key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("P_KEY", "any")
    for name in ("HEADWAY_DB", "HEADWAY_CONFIG", "HEADWAY_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture(scope="session")
def answering() -> Iterator[FakeProvider]:
    """A fast provider that says what it was asked."""
    with fake_provider(latency="2ms") as provider:
        yield provider


@pytest.fixture
def evals(folder: Path, answering: FakeProvider) -> EvalRuns:
    (folder / "headway.toml").write_text(settings(answering.openai_url))
    return EvalRuns(folder, answering)


#: Runs one eval in a folder of its own.
RunOnce = Callable[[EvalSpec], list[CellResult]]
