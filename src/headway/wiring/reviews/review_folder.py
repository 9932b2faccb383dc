"""The results of a review while it runs: a file for each reviewed file, `PATH.review.md`, and the states of all files for `progress.json`.

A review is written when all axes of its file have an answer: as a whole, or not at all. A run writes what is missing, so a file that was not
written before a crash is written by the next run. If a file fails, its earlier review is removed: it is about another text or other axes. At
the end the reviews of files that are gone are removed, and reports over all files are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.batch.output_file import unwritable
from headway.display.reviews.review_markdown import file_markdown
from headway.display.reviews.review_writers import write_report
from headway.jobs.base import OutputOptions
from headway.reviews.records import FileReview
from headway.reviews.running.file_results import FileResults
from headway.reviews.running.review_form import form_of, left_out_of
from headway.reviews.running.unit_names import verified_path
from headway.reviews.running.view import review_view
from headway.stores.files import ForeignFile, Replacement
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.reviews.known_findings import without_known
from headway.wiring.reviews.stale_reviews import SUFFIX, remove_review, remove_stale_reviews

#: The longest name of a file that file systems allow, in bytes, and what a cut name ends with.
_LONGEST: Final = 255
_HASH_BYTES: Final = 8
#: Files that are read at once.
_PAGE: Final = 200
_WHOLE: Final = frozenset({"DONE", "CACHED"})
_FAILED: Final = frozenset({"ERROR", "TIMEOUT"})


class FileState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file in `progress.json`."""

    hash: str
    status: str
    updated_utc: float | None
    error: str
    axes: dict[str, str]


class ReviewFolder:
    """Writes the results of one job. One call at a time, except `progress`."""

    def __init__(self, open_store: Callable[[], Store], job: Job, options: OutputOptions) -> None:
        self._open_store, self._job, self._options = open_store, job, options
        self._store: Store | None = None
        self._axes = form_of(job).axes
        self._ended: set[int] = set()
        self._states: dict[str, FileState] = {}
        self._left_out: dict[str, str] = {}
        self._running: set[int] = set()
        self._is_changed = True
        self._fields: Mapping[str, Any] = {}

    def look(self) -> None:
        """Nothing is taken from the records before the run changes them."""

    def open(self) -> None:
        """Write the reviews that are missing."""
        store = self._opened()
        self._left_out = left_out_of(store, self._job.id)
        self._take(range(len(self._results.files)))
        self._publish()

    def ended(self, indexes: Iterable[int]) -> None:
        self._ended.update(indexes)

    def advance(self) -> None:
        """Write the reviews of files that have ended since, and note which files are in flight."""
        ended, self._ended = self._ended, set()
        running = {self._number_of(one.index) for one in self._opened().running(self._job.id)} - {None}
        numbers = {self._number_of(index) for index in ended} | running | self._running
        self._running = {number for number in running if number is not None}
        self._take(sorted(number for number in numbers if number is not None))
        self._publish()

    def finish(self) -> None:
        """Write all that is missing, and the reports."""
        store = self._opened()
        files = self._results.files
        ended = {self._number_of(index) for index in self._ended}
        known = (self._states.get(file.path) for file in files)
        self._take(
            n for n, state in enumerate(known) if n in ended or state is None or state.status not in _WHOLE
        )
        self._publish()
        job = store.job(self._job.name) or self._job
        remove_stale_reviews(store, job, self._options)
        if not self._options.more:
            return
        view = without_known(store, self._options.baseline or "", review_view(store, job))
        for path in self._options.more:
            if str(path) == self._options.baseline:
                continue  # It would lose what it is there for.
            write_report(path, view)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
            del self._results  # The results that are printed at the end are read anew.
            self._states = {}

    def progress(self) -> Mapping[str, Any]:
        """The fields of `progress.json` as they were last published."""
        return self._fields

    # -- files ------------------------------------------------------------------------------------------------------------

    def _opened(self) -> Store:
        if self._store is None:
            self._store = self._open_store()
            self._results = FileResults(self._store, self._job)
            verified = self._results.files if form_of(self._job).verifies else ()
            self._numbers = {file.path: number for number, file in enumerate(verified)}
        return self._store

    def _number_of(self, index: int) -> int | None:
        """The number of the file of a unit."""
        files = self._results.files
        if index < files.of_units.units:
            return files.of_units.number_of(index)
        path = verified_path(self._opened().custom_id(self._job.id, index))
        return None if path is None else self._numbers.get(path)

    def _take(self, numbers: Iterable[int]) -> None:
        """Read the present results of files, and write the reviews that are whole."""
        for review in self._reviews(iter(numbers)):
            state = FileState(review.hash, review.status, review.updated_utc, review.error, dict(review.axes))
            if self._states.get(review.path) == state:
                continue
            self._states[review.path], self._is_changed = state, True
            if review.status in _WHOLE:
                write_review(self._options.path, review, self._axes)
            elif review.status in _FAILED:
                remove_review(self._options.path, review_path(self._options.path, review.path), review.path)

    def _reviews(self, numbers: Iterator[int]) -> Iterator[FileReview]:
        while page := list(islice(numbers, _PAGE)):
            yield from self._results.of(page)

    def _publish(self) -> None:
        if not self._is_changed:
            return
        self._is_changed = False
        files = {path: self._states[path] for path in sorted(self._states)}
        self._fields = {"files": msgspec.Raw(msgspec.json.encode(files)), "left_out": self._left_out}


def review_path(folder: Path, path: str) -> Path:
    """src/a.py → FOLDER/src/a.py.review.md. A folder that is named like a review gets another name: the review may be there, too."""
    *folders, name = path.split("/")
    own = [_hashed(one, "") if one.endswith(SUFFIX) else one for one in folders]
    if len((name + SUFFIX).encode()) > _LONGEST:
        return folder.joinpath(*own, _hashed(name, SUFFIX))
    return folder.joinpath(*own, name + SUFFIX)


def _hashed(name: str, suffix: str) -> str:
    """A name with its hash, cut to the longest that file systems allow."""
    whole = (name + suffix).encode()
    end = f"-{blake2b(whole, digest_size=_HASH_BYTES).hexdigest()}{suffix}"
    return (name + suffix).encode()[: _LONGEST - len(end)].decode(errors="ignore") + end


def write_review(folder: Path, review: FileReview, axes: tuple[str, ...]) -> None:
    """Write the review of a file, unless it is there already. The folder may be a link; those in it may not, because trees bring links along."""
    path, data = review_path(folder, review.path), file_markdown(review, axes).encode(errors="replace")
    with suppress(OSError):
        if path.read_bytes() == data:
            return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with Replacement(path, levels=len(path.relative_to(folder).parts) - 1) as fresh:
            fresh.file.write(data)
            fresh.commit(durable=False)
    except OSError as error:
        foreign = Path(error.filename) if isinstance(error, ForeignFile) else path
        raise unwritable(foreign, error, "--out-dir") from error
