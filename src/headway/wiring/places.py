"""Where things are: the store, a job's folder, its lock. Light enough for commands that only look."""

from __future__ import annotations

import os
from pathlib import Path

from headway.config import Config
from headway.errors import ConfigError
from headway.stores.base import Store
from headway.stores.lock import JobLock
from headway.stores.memory import MemoryStore
from headway.stores.sqlite import SqliteStore


def store_at(db: str, *, read_only: bool = False) -> Store:
    """Open the records."""
    if "://" in db:
        raise ConfigError("only SQLite databases can be used so far", hint="name a file with --db")
    return SqliteStore(Path(db), read_only=read_only)


def look_at(db: str) -> Store:
    """The records for reading: nothing is changed, and those of an older Headway are read as they are."""
    return store_at(db, read_only=True)


def records_at(db: str) -> Store:
    """The records for looking; where there are none, empty ones that are nowhere."""
    return look_at(db) if "://" in db or Path(db).exists() else MemoryStore()


def home_of(config: Config) -> Path:
    """The folder of Headway's own files: that of the database, or `.headway` beside the configuration."""
    return config.root / ".headway" if "://" in config.db else _home(config.db)


def _home(db: str) -> Path:
    """The folder of the file that the database really is: two names of it must not mean two locks."""
    return Path(os.path.realpath(db)).parent


def folder_of(config: Config, job: str) -> Path:
    """Where a job's small files are: beside the database."""
    return _folder(config.db, job)


def _folder(db: str, job: str) -> Path:
    return _home(db) / "jobs" / job


def lock_of(config: Config, job: str) -> JobLock:
    """The lock that whoever runs the job holds."""
    return job_lock(config.db, job)


def job_lock(db: str, job: str) -> JobLock:
    """The same for a caller that has no configuration."""
    return JobLock(_folder(db, job) / "lock", job)
