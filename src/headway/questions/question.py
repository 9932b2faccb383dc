"""One question as a job: its text with the files that belong to it, and a unit for each model."""

from __future__ import annotations

import difflib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.batch.attachments.row_attachments import RowAttachments
from headway.batch.request_options import RequestOptions
from headway.batch.rows import BadRow, Row, from_fields
from headway.config.routing import NAME_ONE, NO_MODEL, Router, named_by
from headway.errors import UsageError

#: Characters of the question that a job's record has as its input.
LONGEST_NAME: Final = 80
#: A larger file is a mistake more often than a question.
LARGEST_FILE: Final = 50_000_000
_WHAT_FILES: Final = "a text, an image (PNG, JPEG, GIF, WebP) or a PDF"
#: The first bytes of PNG, JPEG, GIF, WebP and PDF files. `attachments.media` checks the rest.
_ATTACHED: Final = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"%PDF")


class Question(msgspec.Struct, frozen=True):
    """A text for one or more models. `models` has names as rows have them; None is the default model."""

    text: str
    #: Images and PDFs that go with it.
    files: tuple[str, ...] = ()
    models: tuple[str | None, ...] = (None,)
    request_options: RequestOptions = RequestOptions()
    temperature: float | None = None
    path: str = ""
    is_table: bool = False
    template: str = ""
    attachments: RowAttachments = msgspec.field(default_factory=lambda: RowAttachments(Path()))
    #: Each question is a job of its own, however often it is asked.
    digest: str = msgspec.field(default_factory=lambda: secrets.token_hex(32))

    @property
    def name(self) -> str:
        """The beginning of the question, in one line."""
        line = " ".join(self.text[: 4 * LONGEST_NAME].split())
        return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1] + "…"

    def numbered(self, router: Router) -> Iterator[tuple[int, Row | BadRow]]:
        """A row for each model."""
        options, schema = self.request_options, self.request_options.schema_requests()
        for number, model in enumerate(self.models, 1):
            fields: dict[str, Any] = {
                "id": model or "answer",
                "prompt": self.text,
                "system": options.system,
                "model": model,
            }
            if options.max_tokens is not None:
                fields["max_tokens"] = options.max_tokens
            if self.files:
                fields["attachments"] = [{"path": file} for file in self.files]
            if self.temperature is not None:
                fields["temperature"] = self.temperature
            row = from_fields(number, fields, router, schema)
            if isinstance(row, Row) and row.references:
                row = self._with_files(number, row)
            if isinstance(row, BadRow):
                raise _question_error(row, model)
            yield number, row

    def _with_files(self, number: int, row: Row) -> Row | BadRow:
        try:
            return self.attachments.attach(row)
        except UsageError as error:
            return BadRow(number, str(error))


def _question_error(row: BadRow, model: str | None) -> UsageError:
    """What is wrong with a question, without the words of files and rows."""
    if model is None:
        return UsageError(
            row.message.replace(NO_MODEL, "no model is named").replace(NAME_ONE, "name one with -m")
        )
    return UsageError(named_by("-m", model, row.message))


def is_attachment(file: Path) -> bool:
    """Whether a file goes with the question as it is: an image or a PDF, by its first bytes."""
    try:
        with file.open("rb") as opened:
            return opened.read(12).startswith(_ATTACHED) if file.is_file() else False
    except OSError:
        return False  # Reading it as a text reports what is wrong.


def question_text(prompt: str | None, piped: str | None, files: list[Path]) -> str:
    """The prompt, then what was piped in, then the text files with their names."""
    parts = [part.strip("\n") for part in (prompt, piped) if part is not None and part.strip()]
    parts += [f'<file name="{_shown(file)}">\n{_content(file).strip(chr(10))}\n</file>' for file in files]
    if not parts:
        raise UsageError("there is no question", hint="headway ask 'Why is the sky blue?'")
    return "\n\n".join(parts)


def _shown(file: Path) -> str:
    return str(file).replace('"', "'").replace("\n", " ")


def _content(file: Path) -> str:
    name = f"-f {file}"
    try:
        if file.is_file() and file.stat().st_size > LARGEST_FILE:
            raise UsageError(f"{name}: larger than {LARGEST_FILE / 1e6:g} MB", hint="name a smaller file")
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file", hint=_missing(file)) from None
    except UnicodeDecodeError:
        raise UsageError(
            f"{name}: neither a text (UTF-8) nor an image or PDF", hint=f"name {_WHAT_FILES}"
        ) from None
    except OSError as error:
        raise UsageError(
            f"{name}: {(error.strerror or str(error)).lower()}", hint=f"name {_WHAT_FILES}"
        ) from None


def _missing(file: Path) -> str:
    """The hint for a file that does not exist."""
    try:
        near = difflib.get_close_matches(file.name, os.listdir(file.parent), n=1)
    except OSError:
        return f"there is no directory {file.parent}"
    return f"did you mean '{file.parent / near[0]}'?" if near else "check its name"
