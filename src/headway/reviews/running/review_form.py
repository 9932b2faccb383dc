"""What a job keeps of its review, so that `headway resume` and reports need no file again.

The form is small: the form of every job is read by `headway jobs`. Files and their texts are values of the job, one by one.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
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
_FILES_PAGE: Final = 200
#: Compressing more costs more time than it saves space.
_FAST: Final = 1


class ReviewForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A review as its job keeps it. `verifies`: a second model is asked about the findings."""

    root: str
    axes: tuple[str, ...]
    model: str
    files: int
    verifies: bool = False
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


class FirstUnits:
    """Where the units of each file begin: eight bytes a file."""

    def __init__(self, files: Iterable[KeptFile], axes: int) -> None:
        self._firsts = array("q")
        #: How many units judge an axis. Those that verify come after them.
        self.units = 0
        for file in files:
            self._firsts.append(file.first)
            self.units = file.first + len(file.parts) * axes

    @property
    def files(self) -> int:
        """How many files there are."""
        return len(self._firsts)

    def number_of(self, index: int) -> int:
        """The number of the file of a unit (by its index) that judges an axis."""
        return bisect_right(self._firsts, index) - 1


class KeptFiles(Sequence[KeptFile]):
    """All files of a job, with the file of each unit. Files are read when they are needed, a page at a time: a large tree takes no memory."""

    def __init__(self, store: Store, job: Job) -> None:
        self._store, self._job = store, job.id
        #: Judging units per part.
        self._axes = len(form_of(job).axes)
        self.of_units = first_units(store, job)
        self._page: list[KeptFile] = []
        self._page_number = -1

    def __getitem__(self, number: Any) -> Any:
        page, place = divmod(number, _FILES_PAGE)
        if page != self._page_number:
            values = self._store.values(self._job, FILES, page * _FILES_PAGE, _FILES_PAGE)
            self._page, self._page_number = list(map(_decode_file, values)), page
        return self._page[place]

    def __len__(self) -> int:
        return self.of_units.files

    def __iter__(self) -> Iterator[KeptFile]:
        return map(_decode_file, _values(self._store, self._job, FILES))

    def count(self, file: KeptFile) -> int:
        """How many units judge a file."""
        return len(file.parts) * self._axes


def first_units(store: Store, job: Job) -> FirstUnits:
    """The files of a job, for a caller who only asks which file a unit is about."""
    return FirstUnits(each_kept_file(store, job), len(form_of(job).axes))


def each_kept_file(store: Store, job: Job) -> Iterator[KeptFile]:
    """One after the other."""
    return map(_decode_file, _values(store, job.id, FILES))
