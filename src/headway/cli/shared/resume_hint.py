"""The command that resumes a job, with the flags that it needs to find the job and to keep its cost cap."""

from __future__ import annotations

import math
import os
import shlex
from pathlib import Path

from headway.config import Config, load
from headway.config.database_address import public_address
from headway.config.settings import is_plain_http
from headway.display.stop_advice import shown_path
from headway.errors import HeadwayError
from headway.jobs.base import RunKind, spent_budgets
from headway.jobs.kinds import kind_of
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.store_access import foreign_store_part


def resume_command(config: Config, store: Store, job: Job, state: str) -> str:
    """`headway resume JOB`, or `headway retry --failed JOB` if only failed units are left."""
    words = ["headway", "resume", job.name]
    if state == "failed" and job.ended == job.total and job.has_failures:
        words = ["headway", "retry", "--failed", job.name]
    return shlex.join([*words, *_flags(config, store, job, state)])


def next_step(config: Config, store: Store, job: Job, state: str) -> str:
    """What the user can do now, in one line."""
    kind = kind_of(job)
    if state in ("parked", "failed") and isinstance(kind, RunKind):
        flags = place_flags(config)
        place = f" {shlex.join(flags)}" if flags else ""
        step_of = kind.parked_step if state == "parked" else kind.failed_step
        if step := step_of(store, job, place, resume_command(config, store, job, state)):
            return step
    return kind.next_step(job, state, lambda: resume_command(config, store, job, state))


def place_flags(config: Config) -> list[str]:
    """The flags that a command without any would need to find the same settings and records."""
    return _place_flags(config)[0]


def _place_flags(config: Config) -> tuple[list[str], Config | None]:
    """The same, and the settings that the flag --config alone gives."""
    flags = []
    default = _default_config(None)
    if config.path is not None and (default is None or default.path != config.path):
        flags += ["--config", shown_path(config.path)]
        default = _default_config(config.path)
    if default is None or default.db != config.db or (config.db_is_named and _is_refused(default)):
        flags += ["--db", public_address(config.db) if "://" in config.db else shown_path(Path(config.db))]
    return flags, default


def _flags(config: Config, store: Store, job: Job, state: str) -> list[str]:
    """Flags for settings that differ from the defaults of a plain command."""
    flags, default = _place_flags(config)
    if _needs_insecure_http(config, default):
        flags.append("--insecure-http")
    cap = float(job.settings.get("run", {}).get("max_cost_usd", 0.0))
    if cap and state == "budget" and not spent_budgets(job):
        flags += ["--max-cost", f"{_suggested_cap(config, store, job, cap):g}"]
    elif cap and (default is None or default.run.max_cost_usd != cap):
        flags += ["--max-cost", f"{cap:g}"]
    return flags


def _is_refused(default: Config) -> bool:
    """Whether the database is accepted only if it is named explicitly."""
    return not default.db_is_named and foreign_store_part(default) is not None


def _needs_insecure_http(config: Config, default: Config | None) -> bool:
    """Whether a provider needs --insecure-http to use plain http."""
    known = {} if default is None else default.providers
    return any(
        provider.insecure_http and is_plain_http(provider.base_url)
        for name, provider in config.providers.items()
        if name not in known or not known[name].insecure_http
    )


def _suggested_cap(config: Config, store: Store, job: Job, cap: float) -> float:
    """A cap that is probably high enough, rounded up to two digits."""
    from headway.wiring.remaining_cost import sufficient_cap_usd  # Loaded only if a budget is used up.

    wanted = max(sufficient_cap_usd(config, store, job), 1.05 * cap)
    step = 10.0 ** (math.floor(math.log10(wanted)) - 1)
    return float(f"{math.ceil(wanted / step - 1e-9) * step:.6g}")


def _default_config(path: Path | None) -> Config | None:
    """The settings that a command without flags would use."""
    try:
        return load(path, Path.cwd(), os.environ)
    except HeadwayError:
        return None
