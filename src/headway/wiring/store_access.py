"""Opens the store, and finds the folder and the lock of a job. Imports little, for commands that only read.

A database that no setting names is used only if neither it nor its folder belongs to another user. `open_store`,
`headway_folder`, `jobs_folder` and `job_folder` check that each time; commands access Headway's files only through them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from headway.config import Config
from headway.config.trust import foreign, user_name
from headway.errors import ConfigError, ForeignRecords
from headway.stores.job_lock import JobLock
from headway.stores.sqlite.file import SqliteFile
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store


def open_store_file(db: str, *, read_only: bool = False) -> Store:
    """Open a store that the caller named."""
    if "://" in db:
        raise ConfigError("only SQLite databases can be used so far", hint="name a file with --db")
    return Store(SqliteFile(Path(db), read_only=read_only))


def open_store(config: Config, *, read_only: bool = False) -> Store:
    """Open the store of a configuration."""
    refuse_foreign_store(config)
    store = open_store_file(config.db, read_only=read_only)
    try:
        refuse_foreign_store(config)  # Another user may have made the folder first.
    except BaseException:
        store.close()
        raise
    return store


def open_store_read_only(config: Config) -> Store:
    """Open the store for reading: nothing is changed, and a file of an older Headway is not migrated."""
    return open_store(config, read_only=True)


def open_store_or_empty(config: Config) -> Store:
    """Open the store for reading; without a file, an empty store in memory."""
    refuse_foreign_store(config)
    return (
        open_store_read_only(config)
        if "://" in config.db or Path(config.db).exists()
        else Store(SqliteMemory())
    )


def refuse_foreign_store(config: Config) -> None:
    """Raise `ForeignRecords` if no setting names the database, and it or its folder belongs to another user."""
    if config.db_is_named:
        return
    if (foreign_part := foreign_store_part(config)) is not None:
        path, reason = foreign_part
        raise ForeignRecords(
            f"{path} {reason}: another user could read and change the records",
            hint=f"if you trust it: --db {config.db}; another file: --db FILE; "
            f"to make it yours: chown -R {user_name(os.geteuid())} {path}",
        )


def foreign_store_part(config: Config) -> tuple[Path, str] | None:
    """The folder of the database or the database itself, if another user may have made it, and the reason."""
    if "://" in config.db:
        return None
    db = Path(config.db)
    for path in (db.parent, db):
        if reason := foreign(path, config.root):
            return path, reason
    return None


def headway_folder(config: Config) -> Path:
    """The folder of Headway's own files: that of the database, or `.headway` beside the configuration."""
    refuse_foreign_store(config)
    return config.root / ".headway" if "://" in config.db else _home(config.db)


def _home(db: str) -> Path:
    """The folder of the database file itself: two links to it must not give two locks."""
    return Path(os.path.realpath(db)).parent


def jobs_folder(config: Config) -> Path:
    """The folder beside the database with a folder for each job."""
    refuse_foreign_store(config)
    return _home(config.db) / "jobs"


def hide_from_git(config: Config) -> None:
    """Have git ignore Headway's folder: `git add -A` would commit the records, and `git stash -u` take them along."""
    folder = headway_folder(config)
    if folder.name == ".headway":
        with suppress(OSError), (folder / ".gitignore").open("x") as file:  # An own file of the user stays.
            file.write("*\n")


def job_folder(config: Config, job: str) -> Path:
    """The folder of a job's small files."""
    return jobs_folder(config) / job


def _folder(db: str, job: str) -> Path:
    return _home(db) / "jobs" / job


def job_lock(config: Config, job: str) -> JobLock:
    """The lock that the process which runs the job holds."""
    return JobLock(job_folder(config, job) / "lock", job)


def job_lock_at(db: str, job: str) -> JobLock:
    """The lock of a job for a caller without a configuration. A program's job has no other files: nothing of it is left at the end."""
    return JobLock(_folder(db, job) / "lock", job, temporary=True)
