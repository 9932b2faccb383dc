"""The settings, the store and the jobs that a command works with, and warnings about where they come from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from headway.cli.shared.printing import say
from headway.config import (
    Config,
    dotenv_of,
    host_of,
    load,
    variables_of,
    with_agents,
    with_insecure_http,
    with_overrides,
)
from headway.config.env_file import exposed
from headway.config.routing import Router
from headway.errors import UsageError
from headway.jobs.base import RunKind
from headway.reports import jobs
from headway.stores.records import Job, State
from headway.stores.sqlite.mounts import network_warning
from headway.stores.store import Store
from headway.wiring.store_access import job_places, open_store_read_only

_RUN_KEYS: Final = (
    "provider",
    "concurrency",
    "max_attempts",
    "timeout",
    "max_duration",
    "max_wait",
    "max_cost",
    "max_hold",
    "weight",
    "cache",
    "order",
)


def settings(config: Path | None, db: str | None, **flags: Any) -> Config:
    """The configuration, changed by the flags of a command."""
    loaded = load(config, Path.cwd(), os.environ)
    if flags.get("insecure_http"):
        loaded = with_insecure_http(loaded)
    loaded = with_agents(
        loaded, (model.partition("/")[0] for model in flags.get("model") or () if "/" in model)
    )
    return with_overrides(loaded, db=db, **{name: flags.get(name) for name in _RUN_KEYS})


def settings_for(kind: RunKind, config: Path | None, db: str | None, **flags: Any) -> Config:
    """The same for a job of a kind. Where --concurrency counts nodes, it is not the cap of what is in flight."""
    return settings(config, db, **{**flags, "concurrency": None} if kind.counts_nodes else flags)


def print_config_notes(config: Config) -> None:
    """Print where settings and keys come from, in at most two lines."""
    _print_config_source(config)
    if dotenv_of(config) and (warning := exposed(config.root / ".env")):
        say(f"warning: {' — '.join(warning)}")


def _print_config_source(config: Config) -> None:
    """Name a config from outside the working directory, and the hosts that get a key from it."""
    if config.path is None or config.path.absolute().parent == Path.cwd():
        return
    dotenv = dotenv_of(config)
    providers = config.providers.values()
    hosts = dict.fromkeys(host_of(one) for one in providers if variables_of(one, os.environ, dotenv))
    say(
        f"settings: {config.path}; " + (f"keys are sent to {', '.join(hosts)}" if hosts else "no key is sent")
    )


def warn_network_file_system(config: Config) -> None:
    """Warn if the database is on a network file system."""
    if "://" not in config.db and (warning := network_warning(Path(config.db))) is not None:
        say(f"warning: {'; '.join(warning)}")


def require_provider(config: Config) -> None:
    """Raise one error before any row is read, instead of one for each row."""
    if not config.providers:
        raise UsageError(
            "no provider is configured",
            hint="write a headway.toml with 'headway init', or set OPENAI_API_KEY or ANTHROPIC_API_KEY",
        )


def require_routes(config: Config, models: Sequence[str]) -> None:
    """Raise one error that names --model, instead of one for each row."""
    router = Router(config)
    for model in models:
        router.check_flag("--model", model)


def open_read_only(config: Config) -> Store:
    """The store, for a command that changes nothing."""
    return open_store_read_only(config)


def choose_job(store: Store, name: str | None, *, quiet: bool) -> Job:
    """The job that a command works on. If it is the latest of several, one line on stderr names it, unless `quiet`."""
    chosen = jobs.find_job(store, name)
    if chosen.among > 1 and not quiet:
        which = f"jobs of {name}" if name else "jobs"
        say(f"using {chosen.job.name}, the latest of {chosen.among:,} {which}")
    return chosen.job


def is_live(config: Config, job: Job) -> bool:
    """Whether a process is running the job."""
    return job_places(config).is_live(job.name)


def state_of(config: Config, job: Job) -> State:
    """The job's state; "interrupted" if its process died."""
    return jobs.state_of(job_places(config), job)
