"""Which job an output belongs to: a job never overwrites the results of another, or a file of the user.

Rows name their job. Tables, rows of `--text-only` and folders of answers do not: the store records who wrote to a path last.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Final

from headway.batch.file_types import is_parquet, is_table
from headway.batch.result_rows import owner_of
from headway.errors import UsageError
from headway.stores.output_lock import real_path
from headway.stores.records import LIVE, Job, JobEvent
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

#: Of the first row, so many bytes are read.
_BLOCK: Final = 1 << 20
#: The event of a job that writes an output which does not name its job; its text is the path.
WROTE: Final = "wrote"


def _owner_of_rows(start: bytes) -> str | None:
    return owner_of(start.partition(b"\n")[0])


def claim(
    path: Path,
    job: str,
    *,
    force: bool = False,
    store: Store | None = None,
    make: bool = True,
    text_only: bool = False,
    owner_in: Callable[[bytes], str | None] = _owner_of_rows,
) -> None:
    """Raise unless this job may write the file. Nothing is changed before that.

    A table and rows of `--text-only` do not name their job, so the `store` is searched for their writer. `make`: make the folder of
    the file. `owner_in` finds the job in the beginning of a file.
    """
    if is_table(path):
        must_be_writable_table(path)
    try:
        if path.is_dir():
            raise UsageError(f"--out {path} is a directory", hint="name a file")
        if path.exists() and not path.is_file():
            raise UsageError(
                f"--out {path} is not a regular file",
                hint="name a file; 'headway export' writes to standard output",
            )
        if not path.exists():
            above = next(folder for folder in path.absolute().parents if folder.exists())
            if not above.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, f"{above.name} is not a directory")
            if make:
                path.parent.mkdir(parents=True, exist_ok=True)
            _must_be_writable(above)
            return
        _must_be_writable(path)
        with path.open("rb") as file:
            first = file.read(_BLOCK)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"--out {path} cannot be written: {why}", hint="name another file") from error
    owner = None if is_table(path) else owner_in(first)
    if owner is None and (is_table(path) or text_only):
        owner = writer_of(path, store)
    if force or not first or owner == job:
        return
    what = (
        f"has the results of another job, '{owner}'"
        if owner
        else f"exists and is not the output of job '{job}'"
    )
    raise UsageError(
        f"{path} {what}",
        hint="name another file with --out, or replace it with --force",
    )


def must_be_writable_table(path: Path) -> None:
    """Raise if a table of this name cannot be written on this machine."""
    if is_parquet(path):
        from headway.batch.tables.arrow_types import pyarrow

        pyarrow(path.name)


def note_written(store: Store, job: Job, path: Path | str) -> None:
    """Record that the job writes this output. Recorded before the writing, so that no crash leaves one without an owner."""
    batch = WriteBatch(job.id)
    batch.events.append(JobEvent(time.time(), None, WROTE, str(path)))
    store.commit(batch)


def wrote(store: Store, path: str) -> str | None:
    """The job that recorded last that it writes to this path."""
    writes = (
        (event.at_utc, event.id, job.name)
        for job in store.jobs()
        for event in store.events(job.id)
        if (event.what, event.text) == (WROTE, path)
    )
    return max(writes, default=(0.0, 0, None))[2]


def may_share(store: Store, job: str, owner: str) -> bool:
    """Whether two jobs asked the same about one input, before and after it changed: they may write to the same folder.

    A job of `--fresh` does not replace the answers of an earlier one.
    """
    one, other = store.job(job), store.job(owner)
    if one is None or other is None or "question" not in one.form:
        return False
    same = [(each.kind, each.input, each.form.get("question")) for each in (one, other)]
    return same[0] == same[1] and not (one.form.get("fresh") and other.id < one.id)


def owner_at(path: Path, store: Store) -> str | None:
    """The job whose results are in a file, or will be when its run ends; None if there is none."""
    try:
        with path.open("rb") as file:
            first = file.readline(_BLOCK)
    except OSError:
        live = (job for job in store.jobs() if job.state in LIVE and job.out == str(path))
        return next((job.name for job in live), None)
    return owner_of(first) or writer_of(path, store)


def writer_of(path: Path, store: Store | None) -> str | None:
    """The job that wrote a file last, according to the store. A job may have written several files."""
    if store is None:
        return None
    writes: list[tuple[float, int, str]] = []
    for job in store.jobs():
        if job.out and job.state != "ingesting" and real_path(Path(job.out)) == path:
            at_utc = inf if job.state in LIVE else job.finished_utc or job.created_utc
            writes.append((at_utc, job.id, job.name))
        written = (event for event in store.events(job.id) if (event.what, event.text) == (WROTE, str(path)))
        writes += ((event.at_utc, job.id, job.name) for event in written)
    return max(writes, default=(0.0, 0, None))[2]


def _must_be_writable(path: Path) -> None:
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
