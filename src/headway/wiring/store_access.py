"""Opens the store, and finds the folder and the lock of a job. Imports little, for commands that only read.

A database that no setting names is used only if neither it nor its folder belongs to another user. `open_store`,
`headway_folder`, `jobs_folder` and `job_folder` check that each time; commands access Headway's files only through them.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headway.config import Config
from headway.config.trust import foreign, user_name
from headway.errors import ConfigError, ForeignRecords, NoRecords, StoreError
from headway.install_hint import install_command
from headway.stores.job_lock import JobLock, JobPlaces, is_folder_name
from headway.stores.sqlite.file import SqliteFile
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store

if TYPE_CHECKING:
    from headway.stores.postgres.running_jobs import RunningJobs
    from headway.stores.writer import Outage

#: The file of a job with results that wait for a database server.
JOURNAL: Final = "journal"


def open_store_file(db: str, *, read_only: bool = False) -> Store:
    """Open a store that the caller named."""
    if "://" in db:
        _require_driver()
        from headway.stores.postgres.address import parse_address
        from headway.stores.postgres.database import PostgresDatabase

        return Store(PostgresDatabase(parse_address(db), read_only=read_only))
    return Store(SqliteFile(Path(db), read_only=read_only))


def _require_driver() -> None:
    """ConfigError if the driver of PostgreSQL is not installed. It is imported only for such a store: 60 ms."""
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "a database at postgresql://… needs psycopg", hint=f"install it: {install_command('postgres')}"
        ) from error


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
    """Open the store for reading; without one, an empty store in memory."""
    refuse_foreign_store(config)
    if "://" not in config.db and not Path(config.db).exists():
        return Store(SqliteMemory())
    try:
        return open_store_read_only(config)
    except NoRecords:
        if "://" not in config.db:
            raise
        return Store(SqliteMemory())


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
    return _home(config.db, config.root)


def _home(db: str, root: Path) -> Path:
    """The folder of the database file itself: two links to it must not give two locks. With a server: `.headway` in `root`."""
    return root / ".headway" if "://" in db else Path(os.path.realpath(db)).parent


def jobs_folder(config: Config) -> Path:
    """The folder with a folder for each job."""
    return headway_folder(config) / "jobs"


def hide_from_git(config: Config) -> None:
    """Have git ignore Headway's folder: `git add -A` would commit the records, and `git stash -u` take them along."""
    folder = headway_folder(config)
    if folder.name == ".headway":
        with suppress(OSError), (folder / ".gitignore").open("x") as file:  # An own file of the user stays.
            file.write("*\n")


def job_folder(config: Config, job: str) -> Path:
    """The folder of a job's small files."""
    return jobs_folder(config) / _folder_name(job)


def _folder_name(job: str) -> str:
    """The name of a job as that of its folder. A shared database may have a name that leads elsewhere."""
    if not is_folder_name(job):
        raise StoreError(
            f"the name '{job}' of a job leads out of its folder", hint="Headway made no job of that name"
        )
    return job


def journal_of(config: Config, job: str) -> Path | None:
    """Where results of a job wait while its database is away; None: a file is never away."""
    return job_folder(config, job) / JOURNAL if "://" in config.db else None


def outage_at(db: str, job: str, say: Callable[[str], None]) -> Outage | None:
    """The same for a caller without a configuration, which is told of it."""
    from headway.stores.journal import Journal
    from headway.stores.writer import Outage

    return (
        Outage(Journal(_home(db, Path.cwd()) / "jobs" / _folder_name(job) / JOURNAL), say)
        if "://" in db
        else None
    )


def job_places(config: Config) -> JobPlaces:
    """Where jobs have their small files, and which of them a process runs now."""
    server = _running_jobs(config.db) if "://" in config.db else None
    return JobPlaces(jobs_folder(config), server)


#: The database that was asked last, and one connection for all questions about it.
_asked: dict[str, RunningJobs] = {}


def _running_jobs(db: str) -> RunningJobs:
    _require_driver()
    from headway.stores.postgres.address import parse_address
    from headway.stores.postgres.running_jobs import RunningJobs

    if db not in _asked:
        while _asked:
            _asked.popitem()[1].close()
        _asked[db] = RunningJobs(parse_address(db))
        atexit.register(_asked[db].close)
    return _asked[db]


def job_lock(config: Config, job: str, store: Store | None = None) -> AbstractContextManager[Any]:
    """The lock that the process which runs the job holds. `store` writes nothing once another process has taken the job."""
    return _lock(config.db, job, JobLock(job_folder(config, job) / "lock", job), store)


def job_lock_at(db: str, job: str, store: Store | None = None) -> AbstractContextManager[Any]:
    """The lock of a job for a caller without a configuration. A program's job has no other files: nothing of it is left at the end."""
    folder = _home(db, Path.cwd()) / "jobs" / _folder_name(job)
    return _lock(db, job, JobLock(folder / "lock", job, temporary=True), store)


def _lock(db: str, job: str, local: JobLock, store: Store | None) -> AbstractContextManager[Any]:
    """The lock of the folder keeps other processes of this machine from its files; the lock of the server is for all machines."""
    if "://" not in db:
        return local
    _require_driver()
    from headway.stores.postgres.address import parse_address
    from headway.stores.postgres.job_lock import PostgresJobLock

    return PostgresJobLock(parse_address(db), job, local, store)


def same_store(config: Config, store: Store) -> Store:
    """Another connection of the process that runs a job, with the lease that `store` has."""
    opened = open_store(config)
    opened.hold(store.lease)
    return opened
