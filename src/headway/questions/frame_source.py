"""The rows of a data frame as the units of a job. Knows no library of frames: it gets the texts of the columns that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.batch.attachments.row_attachments import RowAttachments
from headway.batch.prompt_template import Template
from headway.batch.request_options import DIGEST_BYTES, RequestOptions
from headway.batch.rows import BadRow, Row, from_fields
from headway.config.routing import Router
from headway.questions.job_kinds import FRAME
from headway.stores.records import Job
from headway.stores.store import Store

#: Characters of the prompt that a job's record has as its input.
LONGEST_NAME: Final = 80

#: The texts of some columns, row by row. Called several times.
ReadTexts = Callable[[Sequence[str]], Iterator[Sequence[str]]]


class FrameSource(msgspec.Struct, frozen=True):
    """A frame and what to ask about each of its rows. A unit's id is the position of its row."""

    request_options: RequestOptions
    #: The columns that the prompts name.
    columns: tuple[str, ...]
    texts: ReadTexts
    digest: str = ""

    kind: str = FRAME
    name: str = "the frame"
    stem: str = FRAME
    is_table: bool = True
    attachments: RowAttachments = msgspec.field(default_factory=lambda: RowAttachments(Path()))

    @property
    def path(self) -> str:
        """The beginning of the prompt, for the records."""
        line = " ".join((self.request_options.prompt or "")[: 4 * LONGEST_NAME].split())
        return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1] + "…"

    @property
    def template(self) -> str:
        """The template of all texts."""
        return self.request_options.template

    @property
    def question(self) -> str:
        """The digest of what is asked, whatever the cells are."""
        return self.request_options.digest(FRAME, "")

    def form(self) -> dict[str, Any]:
        """What is asked. The program has the schema."""
        return {"question": self.question}

    def continues(self, store: Store, job: Job) -> bool:
        """Whatever its state is."""
        return True

    def is_sibling(self, job: Job) -> bool:
        """There is no sample of a frame."""
        return False

    def is_predecessor(self, job: Job) -> bool:
        """Whether a job asked the same about other cells."""
        return (job.kind, job.form.get("question")) == (self.kind, self.question)

    @property
    def row_numbers(self) -> str:
        """All ids."""
        return "%"

    def numbered(self, router: Router) -> Iterator[tuple[int, Row | BadRow]]:
        """A row for each row of the frame."""
        options, columns = self.request_options, self.columns
        prompt = Template(options.prompt or "", "prompt").bind(columns, self.name)
        system = Template(options.system or "", "system").bind(columns, self.name)
        schema = options.schema_requests()
        for position, record in enumerate(self.texts(columns)):
            fields: dict[str, Any] = {
                "id": str(position),
                "prompt": prompt.render(record),
                "system": system.render(record) or None,
                "model": options.model,
            }
            if options.max_tokens is not None:
                fields["max_tokens"] = options.max_tokens
            yield position + 1, from_fields(position + 1, fields, router, schema)


def frame_source(options: RequestOptions, columns: Sequence[str], texts: ReadTexts) -> FrameSource:
    """The source, with the digest of what is asked and of every cell that it is asked about."""
    prompt, system = Template(options.prompt or "", "prompt"), Template(options.system or "", "system")
    prompt.must_name_one_of(columns)
    for template in (prompt, system):
        template.bind(columns, "the frame")
    named = tuple(dict.fromkeys((*prompt.names, *system.names)))
    digest = blake2b(msgspec.json.encode([FRAME, named, options]), digest_size=DIGEST_BYTES)
    for record in texts(named):
        for text in record:
            data = text.encode("utf-8", "surrogatepass")
            digest.update(b"%d:" % len(data))
            digest.update(data)
        digest.update(b"\n")
    return FrameSource(options, named, texts, digest.hexdigest())
