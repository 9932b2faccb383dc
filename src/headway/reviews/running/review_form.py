"""What a job keeps of its review, so that `headway resume` and reports need no file again.

The form is small: the form of every job is read by `headway jobs`. Files and their texts are values of the job, one by one.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from headway.reviews.records import SourcePart
from headway.stores.records import Job
from headway.stores.store import Store

#: The name of this kind of job in the store.
REVIEW: Final = "review"
#: The lists of the job's values: its files, their texts, and the files that are left out.
FILES: Final = "files"
TEXTS: Final = "texts"
LEFT_OUT: Final = "left_out"
#: Values that are read at once.
_PAGE: Final = 2_000
#: Compressing more costs more time than it saves space.
_FAST: Final = 1


class ReviewForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A review as its job keeps it. `units` does not count those that verify."""

    root: str
    axes: tuple[str, ...]
    model: str
    files: int
    units: int
    verifier: str = ""
    settings: dict[str, Any] = {}


class KeptFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of a review. Its units begin at the index `first`."""

    path: str
    size: int
    hash: str
    first: int
    parts: tuple[SourcePart, ...]


def form_of(job: Job) -> ReviewForm:
    return msgspec.convert(job.form["review"], ReviewForm)


_encode: Final = msgspec.json.Encoder().encode
_decode_file: Final = msgspec.json.Decoder(KeptFile).decode


def file_value(file: KeptFile) -> bytes:
    return _encode(file)


def text_value(text: str) -> bytes:
    return zlib.compress(text.encode("utf-8", "surrogateescape"), _FAST)


def kept_text(store: Store, job: int, number: int) -> str:
    """The text of a file as it was reviewed."""
    [value] = store.values(job, TEXTS, number, 1)
    return zlib.decompress(value).decode("utf-8", "surrogateescape")


def left_out_value(path: str, reason: str) -> bytes:
    return _encode([path, reason])


def left_out_of(store: Store, job: int) -> dict[str, str]:
    """Path → reason."""
    return dict(map(msgspec.json.decode, _values(store, job, LEFT_OUT)))


def _values(store: Store, job: int, name: str) -> Iterator[bytes]:
    first = 0
    while page := store.values(job, name, first, _PAGE):
        yield from page
        first += len(page)


class KeptFiles(Sequence[KeptFile]):
    """All files of a job, with the file of each unit."""

    def __init__(self, files: Sequence[KeptFile]) -> None:
        self._files = files
        self._firsts = [file.first for file in files]

    def __getitem__(self, number: Any) -> Any:
        return self._files[number]

    def __len__(self) -> int:
        return len(self._files)

    def number_of(self, index: int) -> int:
        """The number of the file of a unit (by its index) that judges an axis."""
        return bisect_right(self._firsts, index) - 1


@lru_cache(2)
def _read(store: Store, job: int) -> KeptFiles:
    return KeptFiles([_decode_file(value) for value in _values(store, job, FILES)])


def kept_files(store: Store, job: int) -> KeptFiles:
    """The files of a job that has all its units. They are kept in memory: a hundred bytes and the path for each."""
    return _read(store, job)
