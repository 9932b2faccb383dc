"""A set of text files as the input of a batch: one request for each file, in the order of their paths.

The id of a unit is the path of its file. The job is the content of the files and their paths: a changed, new or missing file makes
another job, which keeps the answers about the other files. Files are read one at a time, twice: for the digest, and for the requests.

What Headway writes is never input: answer files, folders of agents' results, results with their usual names, and the output of this command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from headway.batch.attachments.attached_file import FileFacts
from headway.batch.attachments.input_scan import file_digest
from headway.batch.attachments.references import AttachTemplates, references_of
from headway.batch.attachments.row_attachments import RowAttachments
from headway.batch.file_types import is_unit_folder
from headway.batch.input_source import BatchSource
from headway.batch.inputs.path_patterns import files_of, is_rows_or_table, results_place
from headway.batch.prompt_template import BoundTemplate, Template
from headway.batch.reader import CHUNK, DIGEST_BYTES, LONGEST_LINE
from headway.batch.request_options import RequestOptions
from headway.batch.rows import BadRow, Row, from_fields
from headway.config.routing import Router
from headway.errors import ConfigError, UsageError
from headway.executors.evidence.log_files import open_regular

#: What a template may name.
FIELDS: Final = ("path", "name", "text")
#: Files that Headway writes.
_WRITTEN: Final = re.compile(r".+\.answer\.md|.+\.results\.(jsonl|csv|tsv|parquet)")
_BOM: Final = b"\xef\xbb\xbf"
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")


class TextFilesSource(BatchSource, frozen=True):
    """Files in place of rows. `out` is the real path of the output, which is never read."""

    arguments: tuple[str, ...] = ()
    out: str = ""

    @property
    def stem(self) -> str:
        """The name of their folder."""
        return results_place(self.arguments).name

    @property
    def is_table(self) -> bool:
        """No: the name of a pattern says nothing about the files."""
        return False

    @property
    def digest_path(self) -> str:
        """Nothing: the digest of the content has the paths of the files."""
        return ""

    @property
    def question(self) -> str:
        """What is asked, and which files were named."""
        options = msgspec.structs.replace(self.request_options, limit=None)
        return options.digest(msgspec.json.encode(list(map(_visible, self.arguments))).decode(), "")

    def form(self) -> dict[str, Any]:
        """As for rows; `files` names the files, and says that metadata are the columns of a table."""
        return {**super().form(), "files": self.name}

    def rows(self, router: Router, options: RequestOptions) -> Iterator[tuple[int, Row | BadRow]]:
        """Every file as a row, in order, including those that cannot be used."""
        made = _FileRows(options)
        schema = options.schema_requests()
        content = blake2b(digest_size=DIGEST_BYTES)
        for number, path in enumerate(_inputs(self.arguments, self.out), 1):
            file = _read(path)
            _add(content, path, file, made.attached(path, self.attachments.files))
            problem = file.problem or (made.problem(file.data))
            row = BadRow(number, problem) if problem else made.row(number, path, file.data, router, schema)
            yield (
                number,
                msgspec.structs.replace(row, path=_visible(path)) if isinstance(row, BadRow) else row,
            )
        if content.hexdigest() != self.content:
            raise ConfigError(f"{self.name}: files have changed while they were read", hint="run it again")


def open_files(
    arguments: Sequence[str],
    options: RequestOptions,
    out: Path | None,
    say: Callable[[str], None],
) -> TextFilesSource:
    """Find the files, and read them once for their digest."""
    if all(is_rows_or_table(argument) for argument in arguments):
        raise _read_by_row(arguments)
    if options.prompt is None:
        raise UsageError(
            f"{_name(arguments)} is a set of files: say what to ask about each",
            hint="--prompt 'Summarise: {{text}}'",
        )
    made = _FileRows(options)  # Wrong names in a template are found before any file is read.
    attachments = RowAttachments(Path.cwd())
    own = "" if out is None else os.path.realpath(out)
    digest, count, rows_only = blake2b(digest_size=DIGEST_BYTES), 0, True
    for path in _inputs(arguments, own):
        _add(digest, path, _read(path, keep=False), made.attached(path, attachments.files))
        count += 1
        rows_only = rows_only and is_rows_or_table(path)
    name = _name(arguments)
    if not count:
        raise _no_files(arguments)
    if rows_only:
        raise _read_by_row(arguments)
    left_out = sum(1 for path in files_of(arguments) if _is_written(path, own))
    if left_out:
        files = (
            "1 file that Headway wrote was"
            if left_out == 1
            else f"{left_out:,} files that Headway wrote were"
        )
        say(f"{files} left out: *.answer.md, *.results.* and folders of agents' results")
    content = digest.hexdigest()
    path = str(Path(arguments[0]).absolute()) + (
        f" and {len(arguments) - 1:,} more" if len(arguments) > 1 else ""
    )
    return TextFilesSource(
        name, path, options.digest(content, ""), None, options, content, attachments, tuple(arguments), own
    )


def _no_files(arguments: Sequence[str]) -> UsageError:
    if len(arguments) == 1 and os.path.isdir(arguments[0]):
        folder = arguments[0].rstrip("/") or "/"
        hint = f"name another, or search its subfolders: '{folder}/**/*.txt'"
        return UsageError(f"{folder} has no files to ask about", hint=hint)
    return UsageError(f"no file matches {_name(arguments)}", hint="'**' searches subfolders: 'docs/**/*.txt'")


def _read_by_row(arguments: Sequence[str]) -> UsageError:
    return UsageError(
        f"{_name(arguments)}: tables and .jsonl files are read row by row, one file at a time",
        hint="run each file by itself",
    )


def _name(arguments: Sequence[str]) -> str:
    return arguments[0] if len(arguments) == 1 else f"{arguments[0]} and {len(arguments) - 1:,} more"


def _inputs(arguments: Sequence[str], out: str) -> Iterator[str]:
    return (path for path in files_of(arguments) if not _is_written(path, out))


def _is_written(path: str, out: str) -> bool:
    """Whether Headway writes this file."""
    if _WRITTEN.fullmatch(os.path.basename(path)) or (out and os.path.realpath(path) == out):
        return True
    return any(is_unit_folder(folder) for folder in Path(path).parents)


def _visible(path: str) -> str:
    """The path with bytes that are not UTF-8 replaced."""
    return path.encode(errors="surrogateescape").decode(errors="replace")


class _FileContent(NamedTuple):
    """The content of a file and its digest, or why it cannot be read."""

    data: bytes
    digest: bytes
    problem: str = ""


def _read(path: str, *, keep: bool = True) -> _FileContent:
    """Read a file. Without `keep`, only its digest is kept."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    pieces: list[bytes] = []
    length = 0
    try:
        with open_regular(Path(path)) as file:
            while piece := file.read(CHUNK):
                digest.update(piece)
                length += len(piece)
                if keep and length <= LONGEST_LINE:
                    pieces.append(piece)
    except OSError as error:
        return _FileContent(b"", b"", f"cannot be read: {(error.strerror or str(error)).lower()}")
    if length > LONGEST_LINE:
        return _FileContent(b"", digest.digest(), f"longer than {LONGEST_LINE / 1e6:g} MB")
    return _FileContent(b"".join(pieces), digest.digest())


def _add(digest: Any, path: str, file: _FileContent, attached: bytes) -> None:
    """Add a file to the digest of the input. Lengths are fixed or in front, so that no two inputs look the same."""
    name = os.fsencode(path)
    digest.update(len(name).to_bytes(4, "big") + name + (file.digest or bytes(DIGEST_BYTES)) + attached)


class _FileRows:
    """Makes the rows of files. A file is decoded only if a template uses its text."""

    def __init__(self, options: RequestOptions) -> None:
        prompt, system = (
            Template(options.prompt or "", "--prompt"),
            Template(options.system or "", "--system"),
        )
        prompt.must_name_one_of(FIELDS)
        self._attach = AttachTemplates(options.attach, FIELDS, "a file")
        names = {*prompt.names, *system.names, *self._attach.names}
        self._prompt, self._system = self._bound(prompt), self._bound(system)
        self._options = options
        if not names:
            raise UsageError(
                "--prompt uses nothing of the files: each would get the same question",
                hint="--prompt 'Summarise: {{text}}'; {{path}} and {{name}} can be used, too",
            )
        self._uses_text = "text" in names

    def attached(self, path: str, files: FileFacts) -> bytes:
        """The digests of the files that are attached to a file's question."""
        record = (path, os.path.basename(path), "")
        references = references_of(list(self._attach.of(record)))
        return b"".join(file_digest(files, reference) for reference in references if reference.path)

    def _bound(self, template: Template) -> BoundTemplate:
        return template.bind(FIELDS, "a file")

    def problem(self, data: bytes) -> str:
        """Why a file cannot be a text; "" if it can."""
        if not self._uses_text:
            return ""
        if data.startswith(_UTF_16):
            return "written in UTF-16: save it as UTF-8"
        if b"\0" in data:
            return "a binary file, not a text"
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return "not valid UTF-8: save it as UTF-8"
        return "" if text.strip("\ufeff \t\r\n") else "an empty file"

    def row(self, number: int, path: str, data: bytes, router: Router, schema: Any) -> Row | BadRow:
        """The row of a file that has no problem."""
        text = data.removeprefix(_BOM).decode() if self._uses_text else ""
        name = os.path.basename(path)
        if _visible(path) != path:
            return BadRow(number, "its name is not valid UTF-8")
        record = (path, name, text)
        row: dict[str, Any] = {
            "prompt": self._prompt.render(record),
            "system": self._system.render(record) or None,
            "id": path,
            "model": self._options.model,
            "metadata": {"path": path, "name": name},
        }
        if attachments := self._attach.of(record):
            row["attachments"] = attachments
        if self._options.max_tokens is not None:
            row["max_tokens"] = self._options.max_tokens
        return from_fields(number, row, router, schema)
