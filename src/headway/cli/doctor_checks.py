"""The checks of `headway doctor`, one per function. Each reports a state and, if needed, what to do.

They change nothing: no file is created and no database is migrated. Nothing is sent except `HEAD /` to configured hosts,
without a key.
"""

from __future__ import annotations

import locale
import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal

import msgspec

import headway
from headway.cli.connectivity import check_all
from headway.cli.shared import workspace
from headway.config import Config, ProviderConfig, dotenv_of, host_of, key_to_send, kind_of
from headway.config.api_keys import key_source
from headway.config.env_file import exposed
from headway.config.settings import is_plain_http
from headway.config.trust import foreign, user_name
from headway.core.lanes.learning.limit_doubt import DisprovedLimit
from headway.core.model import Dimension
from headway.display.formatting import count
from headway.errors import ConfigError, ForeignRecords, HeadwayError, NoRecords
from headway.install_hint import install_command
from headway.metrics.grafana import DASHBOARD
from headway.reason_text import disproved_text
from headway.reports.lanes import lane_reports
from headway.stores.files import readable_by_others
from headway.stores.records import LIVE
from headway.stores.sqlite.file import SqliteFile
from headway.stores.sqlite.mounts import network_warning
from headway.stores.store import Store
from headway.wiring.agent_work import is_program
from headway.wiring.builders import builder_of
from headway.wiring.store_access import open_store_read_only, refuse_foreign_store

State = Literal["ok", "warning", "problem"]

#: The packages of the core install; all others are extras.
PACKAGES: Final = ("aiohttp", "click", "msgspec", "pyyaml", "rich")
#: The first version with the operators -> and ->>, which a view of the schema uses. RETURNING came with 3.35.
LEAST_SQLITE: Final = (3, 38)
#: The write-ahead log alone can take more than 32 MB.
LEAST_FREE: Final = 100_000_000
SOME_FREE: Final = 1_000_000_000
#: File descriptors besides the connections: the database, files, the event loop.
OTHER_FILES: Final = 64
#: The keys of limits in headway.toml.
LIMIT_KEYS: Final = {
    Dimension.REQUESTS: "rpm",
    Dimension.TOKENS: "tpm",
    Dimension.INPUT: "input_tpm",
    Dimension.OUTPUT: "output_tpm",
}
#: Requests in flight that are assumed if nothing is configured.
USUAL_IN_FLIGHT: Final = 500


class Check(msgspec.Struct, frozen=True):
    """The result of one check. `next` is what to do about it."""

    name: str
    state: State
    text: str
    next: str = ""


def ok(name: str, text: str) -> Check:
    return Check(name, "ok", text)


def problem(name: str, error: HeadwayError) -> Check:
    """A failed check, from an error."""
    return Check(name, "problem", error.message, error.hint or "")


# -- this machine ----------------------------------------------------------------------------------------------------


def machine_checks() -> Iterator[Check]:
    """Python, packages and the terminal."""
    yield ok("python", f"{platform.python_version()} on {platform.system()}, headway {headway.__version__}")
    yield packages()
    yield uvloop()
    yield sqlite()
    yield terminal()
    yield ok("grafana", f"a dashboard to import: {DASHBOARD}")


def packages() -> Check:
    found = {name: _version(name) for name in PACKAGES}
    missing = [name for name, known in found.items() if not known]
    if missing:
        text = f"not installed: {', '.join(missing)}"
        return Check("packages", "problem", text, f"install headway again: {install_command()}")
    return ok("packages", ", ".join(f"{name} {known}" for name, known in found.items()))


def uvloop() -> Check:
    known = _version("uvloop")
    if known:
        return ok("uvloop", known)
    return Check("uvloop", "warning", "not installed: runs need more CPU time", "pip install uvloop")


def sqlite() -> Check:
    known = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < LEAST_SQLITE:
        least = ".".join(str(part) for part in LEAST_SQLITE)
        return Check("sqlite", "problem", f"{known} is too old", f"use a Python with SQLite {least} or newer")
    return ok("sqlite", known)


def terminal() -> Check:
    """Whether the terminal can show the live view and its characters."""
    encoding = (sys.stderr.encoding or locale.getpreferredencoding(False)).lower().replace("-", "")
    shown = "a terminal" if sys.stderr.isatty() else "not a terminal: progress is printed as lines"
    if os.environ.get("TERM") == "dumb":
        shown = "a simple terminal: progress is printed as lines"
    if encoding not in ("utf8", "utf8sig"):
        text = f"{shown}; its encoding is {encoding}, which lacks some characters"
        return Check("terminal", "warning", text, "export LC_ALL=C.UTF-8, or PYTHONUTF8=1")
    return ok("terminal", f"{shown}, UTF-8")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


# -- the configuration -----------------------------------------------------------------------------------------------


def config_checks(config: Config) -> Iterator[Check]:
    """The file, and whether it has a provider."""
    if config.path is None:
        yield ok(
            "config", "no headway.toml here or in a parent directory: providers are those whose keys are set"
        )
    else:
        yield ok("config", str(config.path))
    if not config.providers:
        yield Check(
            "providers",
            "problem",
            "none is configured, and neither OPENAI_API_KEY nor ANTHROPIC_API_KEY is set",
            "write a headway.toml with 'headway init'",
        )


def key_checks(config: Config) -> Iterator[Check]:
    """Whether each provider's key is set. Only names of variables are shown."""
    try:
        dotenv = dotenv_of(config)
    except ConfigError as error:
        yield problem(".env", error)
        return
    if dotenv and (warning := exposed(config.root / ".env")):
        yield Check(".env", "warning", *warning)
    for provider in config.providers.values():
        if provider.api_key_env or not is_program(provider):
            yield _key(provider, dotenv)


def _key(provider: ProviderConfig, dotenv: dict[str, str]) -> Check:
    name, variable = f"{provider.name} key", provider.api_key_env
    try:
        key = key_to_send(provider, os.environ, dotenv)
    except ConfigError as error:
        return problem(name, error)
    if not key and not variable:
        return ok(name, "none is configured")
    if not key:
        return ok(name, f"no key is set ({variable}): a server on this machine may need none")
    place = key_source(provider, os.environ, dotenv)
    if is_plain_http(provider.base_url):
        return ok(name, f"{place}; it is sent to {host_of(provider)} without encryption (insecure_http)")
    return ok(name, place)


def address_checks(config: Config) -> Iterator[Check]:
    """Whether each provider's host is reachable."""
    servers = [provider for provider in config.providers.values() if kind_of(provider).is_server]
    answers = check_all({provider.base_url for provider in servers})
    for provider in servers:
        answer = answers[provider.base_url]
        yield Check(f"{provider.name} address", answer.state, answer.text, answer.next)


def part_checks(config: Config) -> Iterator[Check]:
    """What a provider needs on this machine, such as a Python function."""
    for provider in config.providers.values():
        builder = builder_of(provider)
        if not builder.part or is_program(provider):
            continue
        name = f"{provider.name} {builder.part}"
        try:
            yield ok(name, builder.verify(config, provider))
        except ConfigError as error:
            yield problem(name, error)


# -- the records -----------------------------------------------------------------------------------------------------


def store_checks(config: Config) -> Iterator[Check]:
    """The database, its disk, and jobs left by a dead process."""
    if "://" in config.db:
        yield from _server_checks(config)
        return
    path = Path(config.db)
    try:
        refuse_foreign_store(config)
    except ForeignRecords as error:
        yield problem("database", error)
        return
    if os.path.lexists(path):
        yield from _existing_database(config, path)
    else:
        yield _missing_database(path)
    yield from file_system(path)
    yield disk(_nearest_existing(path))


def _server_checks(config: Config) -> Iterator[Check]:
    """A database server: whether it answers, and its schema. Nothing is changed."""
    try:
        with open_store_read_only(config) as store:
            yield ok("database", store.description())
            yield from dead_jobs(config, store)
            yield from disproved_limits(config, store)
    except NoRecords:
        yield ok("database", f"{config.shown_db} answers; the first run makes the tables")
    except HeadwayError as error:
        yield problem("database", error)


def _missing_database(path: Path) -> Check:
    above = _nearest_existing(path)
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        text = f"{path} cannot be created: {above} is not a writable directory"
        return Check("database", "problem", text, "name another place with --db")
    return ok("database", f"none yet; the first run creates {path}")


def _existing_database(config: Config, path: Path) -> Iterator[Check]:
    try:
        file = SqliteFile(path, read_only=True)
        with Store(file) as store:
            yield _schema_check(path, file)
            yield from dead_jobs(config, store)
            yield from disproved_limits(config, store)
    except HeadwayError as error:
        yield problem("database", error)
        return
    if reason := foreign(path, path.parent):
        text = f"{path} {reason}: another user could read and change the records"
        yield Check("database owner", "warning", text, f"chown {user_name(os.geteuid())} {path}")
    if readable_by_others(path):
        text = f"other users can read {path}, with every prompt and answer in it"
        yield Check("database mode", "warning", text, f"chmod 600 {path}")


def _schema_check(path: Path, file: SqliteFile) -> Check:
    """Whether the database is writable, and its schema version."""
    try:
        schema, newest = file.probe()
    except HeadwayError as error:
        return problem("database", error)
    older = "" if schema == newest else f" (the next run upgrades it to {newest})"
    return ok("database", f"{path}, schema {schema}{older}, {_size(path)}")


def file_system(path: Path) -> Iterator[Check]:
    """A warning if the database is on a network file system."""
    if (found := network_warning(path)) is not None:
        yield Check("file system", "warning", *found)


def dead_jobs(config: Config, store: Store) -> Iterator[Check]:
    """Jobs that are recorded as running but have no process."""
    live = [job for job in store.jobs() if job.state in LIVE]
    dead = [job.name for job in live if not workspace.is_live(config, job)]
    if dead:
        text = f"left by a process that died: {', '.join(dead[:5])}{', …' if len(dead) > 5 else ''}"
        yield Check("jobs", "warning", text, f"resume: headway resume {dead[0]}")
    else:
        yield ok("jobs", f"{len(live)} running" if live else "none running")


def disproved_limits(config: Config, store: Store) -> Iterator[Check]:
    """Configured limits that are too high, as refusals of earlier runs have shown."""
    for report in lane_reports(store):
        wrong = None if report.learned is None else report.learned.disproved
        if wrong is None or not _still_configured(config, report.lane, wrong):
            continue
        text = disproved_text(wrong.dimension, wrong.configured, wrong.found)
        provider = report.lane.partition("/")[0]
        key = LIMIT_KEYS[wrong.dimension]
        step = f"set the real {key} of your account in [providers.{provider}.limits] of headway.toml"
        yield Check(f"{report.lane} limits", "warning", text, step if provider in config.providers else "")


def _still_configured(config: Config, lane: str, wrong: DisprovedLimit) -> bool:
    """Whether the limit has not been changed since. A lane of another configuration, or of a Python program, is named too."""
    name, _, model = lane.partition("/")
    provider = config.providers.get(name)
    if provider is None:
        return True
    limits = provider.limits if provider.pool else provider.limits_for(model)
    return float(getattr(limits, LIMIT_KEYS[wrong.dimension]) or 0.0) == wrong.configured


def disk(place: Path) -> Check:
    """Free space for the database."""
    try:
        free = shutil.disk_usage(place).free
    except OSError as error:
        text = f"{place}: {(error.strerror or str(error)).lower()}"
        return Check("disk", "warning", text, "check that the disk is mounted")
    text = f"{free / 1e9:,.1f} GB free at {place}"
    if free < LEAST_FREE:
        return Check("disk", "problem", text, "free some space: a run stops when the disk is full")
    if free < SOME_FREE:
        return Check("disk", "warning", text, "free some space before a large job")
    return ok("disk", text)


def _nearest_existing(path: Path) -> Path:
    """The path itself if it exists, otherwise its nearest parent that does."""
    return next(place for place in (path, *path.absolute().parents) if place.exists())


def _size(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:,.1f} MB"


# -- how many at once ------------------------------------------------------------------------------------------------


def open_files(config: Config) -> Check:
    """The limit on open files: each request in flight needs one."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return ok("open files", "no limit")
    most = most_in_flight(config)
    needed = (most or USUAL_IN_FLIGHT) + OTHER_FILES
    text = f"limit {soft:,}, enough for {count(max(0, soft - OTHER_FILES), 'request')} in flight"
    if needed <= soft:
        return ok("open files", text)
    raised = "unlimited" if hard == resource.RLIM_INFINITY else str(min(hard, max(needed, 4096)))
    step = (
        f"ulimit -n {raised}"
        if hard == resource.RLIM_INFINITY or hard >= needed
        else "set concurrency in [run]"
    )
    asked = f"; {most:,} are configured" if most else ""
    return Check("open files", "warning", text + asked, step)


def most_in_flight(config: Config) -> int:
    """The most requests in flight that the settings allow; 0 if they set no limit."""
    most = 0
    for provider in config.providers.values():
        limits = [provider.limits, *provider.models.values()]
        known = [one.max_concurrency for one in limits if one.max_concurrency]
        if not known:
            return config.run.concurrency
        most += sum(known)
    return min(most, config.run.concurrency) if config.run.concurrency else most
