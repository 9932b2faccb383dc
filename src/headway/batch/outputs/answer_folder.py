"""A folder with one file for each answer: `DIR/ID.answer.md`, which has the text of the answer and nothing else.

Files are written as units end, each of them completely or not at all. A unit without an answer has no file. A run writes the files that
are missing, so a file that was lost or not written before a crash is written by the next run. An answer never changes, so an
existing file of the job is left as it is.

The files do not name their job: the store knows which job wrote to the folder last. When an input has changed, its new job may take
the folder over: the files of unchanged answers stay, the others are written again. Files of inputs that are gone are left.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

from headway.batch.answer_text import answer_of, plain_text
from headway.batch.inputs.model_variants import models_of, split_id
from headway.batch.output_file import PAGE, unwritable
from headway.batch.outputs.ownership import may_share, note_written, wrote
from headway.core.unit_states import GOOD
from headway.errors import UsageError
from headway.stores.files import USUAL_MODE
from headway.stores.records import Job, UnitResult
from headway.stores.store import Store

#: The end of the names of all answer files. Files with this end are never read as input.
SUFFIX: Final = ".answer.md"
#: The longest part of a name that is kept; a longer one is cut and gets a hash. File systems allow 255 bytes.
_LONGEST_PART: Final = 180
_HASH_BYTES: Final = 8
_TEMPORARY: Final = ".answer.headway-tmp-"


def answer_path(folder: Path, custom_id: str, models: Iterable[str] = ()) -> Path:
    """The file of a unit: `ID.answer.md`. The id is a path below the folder: it never leads out of it.

    An id that is no plain path (`/a`, `../a`, `a//b`), or whose folder could be the file of another one, gets a hash, so that no two
    units have the same file. `models`: of a job with several models, whose ids end with `@MODEL`. A slash in a model makes no folder.
    """
    models = tuple(models)
    base, model = split_id(custom_id, models)
    given = base.split("/")
    parts = [_part(part) for part in given if part not in ("", ".")] or ["_"]
    flat = [name.replace("/", "_") for name in models]
    is_plain = parts == given and flat.count(model.replace("/", "_")) < 2
    *folders, name = parts
    folders = [f"{part}_" if part.endswith(SUFFIX) else part for part in folders]
    if model:
        name += "@" + model.replace("/", "_")
    if not is_plain or folders != parts[:-1]:
        name = f"{name}-{_hash(custom_id.encode(errors='replace'))}"
    return folder.joinpath(*folders, _part(name) + SUFFIX)


def _part(part: str) -> str:
    """A part of a path that is a valid name. `..` would lead out of the folder."""
    if part == "..":
        return "__"
    raw = part.encode(errors="replace")
    if len(raw) <= _LONGEST_PART:
        return part
    return raw[:_LONGEST_PART].decode(errors="ignore") + "-" + _hash(raw)


def _hash(raw: bytes) -> str:
    return blake2b(raw, digest_size=_HASH_BYTES).hexdigest()


def claim_folder(path: Path, job: str, *, force: bool, store: Store | None, make: bool) -> None:
    """Raise unless this job may write to the folder. A folder with other files is fine; answers of another job are not."""
    try:
        if os.path.lexists(path) and not path.is_dir():
            raise UsageError(f"--out-dir {path} is not a directory", hint="name another one")
        above = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
        if not (above.is_dir() and os.access(above, os.W_OK)):
            raise UsageError(f"--out-dir {path} cannot be written: no permission", hint="name another one")
        if make:
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"--out-dir {path} cannot be written: {why}", hint="name another one") from error
    owner = None if store is None else wrote(store, _key(path))
    if store is None or owner is None:
        return
    if not (force or owner == job or may_share(store, job, owner)):
        raise UsageError(
            f"{path} has the answers of another job, '{owner}'",
            hint="name another directory with --out-dir, or replace them with --force",
        )


def _key(path: Path) -> str:
    """The folder as it is recorded."""
    return f"{path}/"


def export_answers(folder: AnswerFolder, store: Store, job: Job, *, force: bool) -> int:
    """Write the answers of a job to a folder, without a record of it; returns how many. Existing files are replaced with `force`."""
    path = folder.path
    claim_folder(path, job.name, force=True, store=None, make=True)
    written = 0
    try:
        for unit in folder.units(store):
            file = folder.file_of(unit)
            if os.path.lexists(file) and unit.status in GOOD:
                if not force:
                    raise UsageError(f"{file} already exists", hint="replace such files with --force")
                file.unlink()
            written += folder.write(unit)
    except OSError as error:
        raise unwritable(path, error, "--out-dir") from error
    return written


def outdated_answers(path: Path, store: Store, job: Job, earlier: Job) -> int:
    """How many answer files of `earlier` are in the folder whose ids the job does not have."""
    if wrote(store, _key(path)) is None:
        return 0
    before = AnswerFolder(lambda: store, earlier, path)
    return sum(
        1
        for unit in before.units(store)
        if unit.status in GOOD
        and store.index_of(job.id, unit.custom_id) is None
        and os.path.lexists(before.file_of(unit))
    )


class _EarlierAnswers:
    """The answers of the jobs that had the folder before the input changed. `owner` is the last of them."""

    def __init__(self, store: Store, owner: str | None) -> None:
        self._store = store
        last = None if owner is None else store.job(owner)
        self._owner = last
        self._jobs = [
            job for job in store.jobs() if last is not None and may_share(store, last.name, job.name)
        ]

    def has_same(self, unit: UnitResult) -> bool:
        """Whether the owner has the same answer to the unit: its file stays."""
        earlier = None if self._owner is None else self._answer(self._owner, unit.custom_id)
        return earlier is not None and unit.status in GOOD and earlier == unit.body

    def wrote(self, custom_id: str) -> bool:
        """Whether one of the jobs has an answer of this id, so that its file may be replaced."""
        return any(self._answer(job, custom_id) is not None for job in self._jobs)

    def _answer(self, job: Job, custom_id: str) -> bytes | None:
        index = self._store.index_of(job.id, custom_id)
        return None if index is None else self._store.answer(job.id, index)


class AnswerFolder:
    """The answers of one job as files."""

    def __init__(self, open_store: Callable[[], Store], job: Job, path: Path, *, force: bool = False) -> None:
        self._open_store, self._job, self.path, self._force = open_store, job, path, force
        self._models = models_of(job)
        self._store: Store | None = None
        self._ended: list[int] = []
        #: The folders that were found to be below the folder.
        self._inside: set[Path] = set()

    def look(self) -> None:
        """Open the store."""
        self._store = self._open_store()

    def open(self) -> None:
        """Claim the folder, and write the answers of earlier runs that are missing."""
        if self._store is None:
            self.look()
        assert self._store is not None
        try:
            claim_folder(self.path, self._job.name, force=self._force, store=self._store, make=True)
            for left in self.path.glob(
                f"{_TEMPORARY}*"
            ):  # Of a process that was killed: the lock of the folder is ours.
                left.unlink(missing_ok=True)
            if wrote(self._store, _key(self.path)) != self._job.name:
                self._take_over(self._store)
            self._write_missing()
        except OSError as error:
            raise unwritable(self.path, error, "--out-dir") from error

    def _take_over(self, store: Store) -> None:
        """The first writing to this folder: no file of another job, or of the user, may stand for an answer of this one."""
        owner = wrote(store, _key(self.path))
        shared = owner is not None and may_share(store, self._job.name, owner)
        earlier = _EarlierAnswers(store, owner if shared else None)
        for unit in self.units(store):
            file = self.file_of(unit)
            self._must_be_inside(file.parent)
            if not os.path.lexists(file) or earlier.has_same(unit):
                continue
            if not (self._force or earlier.wrote(unit.custom_id)):
                raise UsageError(
                    f"{file} exists and is not an answer of job '{self._job.name}'",
                    hint="name another directory with --out-dir, or replace such files with --force",
                )
            file.unlink()
        note_written(store, self._job, _key(self.path))

    def ended(self, indexes: Iterable[int]) -> None:
        """Units have ended, and their ends are committed."""
        self._ended.extend(indexes)

    def advance(self) -> None:
        """Write the answers of the units that have ended since the last call."""
        assert self._store is not None
        ended, self._ended = self._ended, []
        try:
            for index in ended:
                for unit in self._store.results(self._job.id, index - 1, 1):
                    self.write(unit)
        except OSError as error:
            raise unwritable(self.path, error, "--out-dir") from error

    def finish(self) -> None:
        """Write every answer that has no file yet: those of units that ended without an event, for example from the cache."""
        self.advance()
        try:
            self._write_missing()
        except OSError as error:
            raise unwritable(self.path, error, "--out-dir") from error

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()

    def _write_missing(self) -> None:
        assert self._store is not None
        for unit in self.units(self._store):
            self.write(unit)

    def units(self, store: Store) -> Iterator[UnitResult]:
        """Every unit of the job, a page at a time."""
        after = -1
        while page := store.results(self._job.id, after, PAGE):
            yield from page
            after = page[-1].index

    def file_of(self, unit: UnitResult) -> Path:
        """The file of a unit."""
        return answer_path(self.path, unit.custom_id, self._models)

    def write(self, unit: UnitResult) -> bool:
        """Write the file of a unit that has an answer and no file yet; returns whether it did."""
        if unit.status not in GOOD or has_content(file := self.file_of(unit)):
            return False
        body = unit.body or b""
        text = plain_text(body)
        data = (answer_of(body) if text is None else text).encode(errors="replace")
        self._must_be_inside(file.parent)
        file.parent.mkdir(parents=True, exist_ok=True)
        self.write_file(file, data if data.endswith(b"\n") else data + b"\n")
        return True

    def write_file(self, file: Path, data: bytes) -> None:
        """Write a file completely or not at all."""
        fresh = self.path / f"{_TEMPORARY}{os.urandom(8).hex()}"
        try:
            with open(
                os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, USUAL_MODE), "wb"
            ) as out:
                out.write(data)
            fresh.replace(file)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise

    def _must_be_inside(self, folder: Path) -> None:
        """Raise if a link leads an answer out of the job's folder."""
        if folder in self._inside:
            return
        top = os.path.realpath(self.path)
        if os.path.commonpath((top, real := os.path.realpath(folder))) != top:
            raise UsageError(
                f"{folder} leads out of --out-dir {self.path}, to {real}",
                hint="remove the link, or name another directory",
            )
        self._inside.add(folder)


def has_content(file: Path) -> bool:
    """Whether the file is there. After a power failure it may be there and empty; an answer file never is."""
    try:
        return file.stat().st_size > 0
    except OSError:
        return False
