"""`FLOW.results.json`: written at the end of every run, also of one that was interrupted or is parked. Its first key names its job.

A results file of another job, and a file that is none, is never replaced without --force.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from headway.errors import UsageError
from headway.flows.running.outputs.results import results_json
from headway.jobs.base import OutputOptions
from headway.jobs.output_options import opened_stream
from headway.stores.files import Replacement
from headway.stores.records import Job
from headway.stores.store import Store

_OWNER: Final = re.compile(rb'\s*\{\s*"job":\s*"([A-Za-z0-9_.-]+)"')
#: Of a file, so many bytes tell whose it is.
HEAD: Final = 4_096


class ResultsFile:
    """The results of one job."""

    def __init__(self, open_store: Callable[[], Store], job: Job, options: OutputOptions) -> None:
        self._open_store, self._job, self._options = open_store, job, options

    def look(self) -> None:
        """The end is soon enough."""

    def open(self) -> None:
        """The same."""

    def ended(self, indexes: Iterable[int]) -> None:
        """The same."""

    def advance(self) -> None:
        """The same."""

    def finish(self) -> None:
        with self._open_store() as store:
            job = store.job(self._job.name) or self._job
            if self._options.form == "stream":
                with opened_stream(self._options.path) as file:
                    write_results(file, store, job)
                return
            try:
                with Replacement(self._options.path) as new:
                    write_results(new.file, store, job)
                    new.commit()
            except OSError as error:
                raise _unwritable(self._options.path, error) from None

    def close(self) -> None:
        """Nothing is open."""


def write_results(file: BinaryIO, store: Store, job: Job) -> None:
    """The results as they are now, as indented JSON."""
    file.writelines(results_lines(store, job))


def results_lines(store: Store, job: Job) -> Iterator[bytes]:
    """The same in pieces."""
    yield from results_json(store, job)


def owner_of_results(head: bytes) -> str | None:
    """The job whose results begin like this; None if these are no results of a flow."""
    found = _OWNER.match(head)
    return found[1].decode() if found else None


def owner_at(path: Path) -> str | None:
    """The job whose results are in a file; None if there is none."""
    try:
        with path.open("rb") as file:
            return owner_of_results(file.read(HEAD))
    except OSError:
        return None


def _unwritable(path: Path, error: OSError) -> UsageError:
    why = (error.strerror or str(error)).lower()
    return UsageError(f"--out {path} cannot be written: {why}", hint="name another file")
