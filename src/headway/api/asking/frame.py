"""`headway.frame`: a question about every row of a data frame, answered in new columns.

It is a job like a batch: rows go into a database, the engine answers them, and the answers are read back in pages. Memory holds
the frame, the new columns, and what is in flight. Without `db=` the database is a temporary file.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, TypedDict, TypeVar, Unpack

import msgspec

from headway.api.asking.answer_types import AnswerType, answer_type
from headway.api.asking.frame_in_program import run_to_end
from headway.api.asking.frames import FrameAdapter, NewColumn, frame_adapter
from headway.api.call_errors import python_hints
from headway.batch.answer_text import answer_of, decoded, text_of
from headway.batch.output_file import Reasons, reasons
from headway.batch.request_options import RequestOptions
from headway.batch.schema_adapter import SchemaAdapter
from headway.batch.tables.answer_columns import FieldKind, fields_of
from headway.config import Config, load, with_overrides
from headway.config.argument_checks import brief, must_be_text, must_be_whole, path_of
from headway.config.call_settings import Duration
from headway.config.routing import Router
from headway.core.unit_states import GOOD
from headway.errors import UnitError, UsageError
from headway.jobs.base import AnswerCheck
from headway.providers.adapter import Adapter
from headway.questions.frame_source import FrameSource, frame_source
from headway.stores.records import Job, UnitResult
from headway.stores.store import Store
from headway.wiring.frame_run import frame_job, frame_plan
from headway.wiring.store_access import open_store

F = TypeVar("F")

#: The column with the reason why a row has no answer.
ERROR: Final = "_error"
#: Results that are read at once.
PAGE: Final = 1_000
#: Settings of `[run]` that a call may override.
_RUN: Final = ("concurrency", "max_attempts", "timeout", "max_duration", "max_cost", "cache")


class FrameArguments(TypedDict, total=False):
    """The keyword arguments of `frame`, besides the question.

    model: "MODEL" or "PROVIDER/MODEL" (default: the model of the provider in headway.toml).
    system: the system prompt; {{column}} works here too.
    max_tokens: the longest answer.
    column: the name of the new column (default "answer"); with a schema, its fields are columns.
    prefix: put in front of the names of those columns.
    db: a database that keeps the answers, so that a run that was killed continues where it stopped.
    config: another file than the nearest headway.toml.
    cache: "deterministic" or "all" reuses answers to identical requests in that database; "off" does not.
    concurrency, max_attempts, timeout, max_duration, max_cost: as in [run] of headway.toml.
    progress: a bar; None: on a terminal or in a notebook.
    """

    model: str | None
    system: str | None
    max_tokens: int | None
    column: str
    prefix: str
    db: str | PathLike[str] | None
    config: str | PathLike[str] | None
    cache: Literal["off", "deterministic", "all"]
    concurrency: int
    max_attempts: int
    timeout: Duration
    max_duration: Duration
    max_cost: float
    progress: bool | None


def frame(df: F, prompt: str, *, schema: Any = None, **choices: Unpack[FrameArguments]) -> F:
    """Ask about every row of a pandas or polars frame, and return a new frame with the answers in more columns.

    {{name}} in the prompt stands for the row's cell in that column. With `schema` (a Pydantic model, a dataclass, a msgspec
    struct, or a JSON Schema as a dict) each field of the answer is a column. The rows keep their order and index. A row without
    an answer has the reason in `_error`. Requests go to the providers of headway.toml, at the pace that their limits allow.

    >>> import headway
    >>> headway.frame(df, prompt="Classify: {{text}}", schema=Review, db="reviews.db")  # doctest: +SKIP
    """
    for name in sorted(set(choices) - FrameArguments.__annotations__.keys()):
        raise TypeError(
            f"there is no argument '{name}': {', '.join(sorted((*FrameArguments.__annotations__, 'schema')))}"
        )
    table, kind = frame_adapter(df), None if schema is None else answer_type(schema)
    columns = _AnswerColumns(kind, choices.get("column", "answer"), choices.get("prefix", ""), table)
    with python_hints("db"), _settings(choices) as config:
        options = _options(prompt, kind, choices)
        source = frame_source(options, table.columns, table.texts)
        mistake = Router(config).suspected_mistake(options.model) if options.model else None
        if mistake is not None:
            warnings.warn(mistake, UserWarning, stacklevel=2)
        if table.rows:
            _answer(config, source, columns, choices.get("progress"))
    made: F = table.extended(columns.made)
    return made


def _answer(config: Config, source: FrameSource, columns: _AnswerColumns, progress: bool | None) -> None:
    """Run the job, unless it is complete, and read its answers."""
    with frame_job(config, source) as (store, job):
        state = job.state
        if job.good < job.total or state != "complete":
            plan = frame_plan(config, store, job, _check(columns.kind))
            state = run_to_end(lambda: open_store(config), plan, progress).state
        job = store.job(job.name) or job
        left = reasons(store, job)
        if not job.good and state not in ("complete", "failed") and left:
            raise UnitError(*next(iter(left.values())))
        columns.read(store, job, left)


def _options(prompt: str, kind: AnswerType | None, choices: FrameArguments) -> RequestOptions:
    given: object = prompt
    if not isinstance(given, str) or not given.strip():
        raise UsageError(f"prompt is {brief(prompt)}", hint="it is a text: 'Classify: {{text}}'")
    for name in ("model", "system", "column", "prefix"):
        must_be_text(choices.get(name), name, "it is a text")
    if (most := choices.get("max_tokens")) is not None:
        must_be_whole(most, "max_tokens", 1, "it is a whole number above 0")
    return RequestOptions(
        prompt=prompt,
        system=choices.get("system"),
        max_tokens=most,
        model=choices.get("model"),
        schema=None if kind is None else msgspec.json.encode(kind.schema).decode(),
    )


@contextmanager
def _settings(choices: FrameArguments) -> Iterator[Config]:
    """The settings of the run, with a database that lasts as long as the run if none is named."""
    path = path_of(choices.get("config"), "config")
    loaded = load(None if path is None else Path(path), Path.cwd(), os.environ)
    if not loaded.providers:
        raise UsageError(
            "no provider is configured",
            hint="write a headway.toml with 'headway init', or set OPENAI_API_KEY or ANTHROPIC_API_KEY",
        )
    config = with_overrides(loaded, **{name: choices.get(name) for name in _RUN})
    db = path_of(choices.get("db"), "db")
    if db is not None:
        yield with_overrides(config, db=db)
        return
    with TemporaryDirectory(prefix="headway-") as folder:
        yield with_overrides(config, db=str(Path(folder, "frame.db")))


def _check(kind: AnswerType | None) -> AnswerCheck | None:
    if kind is None:
        return None

    def checked(adapter: Adapter, provider_kind: str) -> Adapter:
        return SchemaAdapter(adapter, provider_kind, kind)

    return checked


class _AnswerColumns:
    """The new columns, filled row by row."""

    def __init__(self, kind: AnswerType | None, column: str, prefix: str, table: FrameAdapter) -> None:
        self.kind = kind
        properties = [] if kind is None else list(kind.field_names)
        plain = {} if kind is None else {field.name: field.kind for field in fields_of(kind.schema)}
        #: The field of an answer → the name of its column. Without fields, the whole answer is one column.
        self._fields = {name: prefix + name for name in properties}
        self._column = column
        kinds: dict[str, FieldKind | None] = {prefix + name: plain.get(name) for name in properties}
        if not properties:
            kinds[column] = "string" if kind is None else None
        kinds[ERROR] = "string"
        for name in kinds:
            if name in table.columns:
                what = "prefix='answer_'" if properties and name != ERROR else "column='…'"
                hint = f"drop or rename it, or give {what}" if name != ERROR else "drop or rename it"
                raise UsageError(f"the frame has a column '{name}' already", hint=hint)
        self.made = {name: NewColumn([None] * table.rows, each) for name, each in kinds.items()}

    def read(self, store: Store, job: Job, left: Reasons) -> None:
        """Read the answers from the store, page by page."""
        errors = self.made[ERROR].values
        errors[:] = ["invalid: the row makes no request: its prompt is empty"] * len(errors)
        after = -1
        while page := store.results(job.id, after, PAGE):
            after = page[-1].index
            for row in page:
                errors[int(row.custom_id)] = self._take(row, left)

    def _take(self, row: UnitResult, left: Reasons) -> str | None:
        """Put an answer into its columns; returns why there is none."""
        if row.status not in GOOD:
            code, message = left.get((row.provider, row.model), ("interrupted", "it was not finished"))
            if row.finished_utc is not None:
                code, message = row.code or row.status, row.message or ""
            return f"{code}: {message}"
        position, body = int(row.custom_id), row.body or b""
        if self.kind is None:
            self.made[self._column].values[position] = answer_of(body)
            return None
        try:
            value = self.kind.parse(text_of(decoded(body)) or "")
        except ValueError as error:  # The class has changed since the answer was recorded.
            return f"invalid: {error}"
        if not self._fields:
            self.made[self._column].values[position] = self.kind.plain(value)
            return None
        fields = self.kind.plain(value)
        for name, column in self._fields.items():
            self.made[column].values[position] = fields.get(name)
        return None
