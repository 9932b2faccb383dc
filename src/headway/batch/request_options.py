"""The flags of `headway run` that say what to ask: --prompt, --system, --max-tokens, --model, --limit, --schema, --attach.

They are part of a job's identity. A table needs them, since its rows have only cells. A row of a .jsonl file overrides them.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from headway.batch.attachments.references import add_templates
from headway.batch.file_types import delimiter_of, is_parquet, is_table
from headway.batch.prompt_template import Template
from headway.errors import UsageError
from headway.providers.dialects.structured_output import SchemaRequests

DIGEST_BYTES: Final = 32
_SYSTEM_ROLES: Final = frozenset({"system", "developer"})
_TOKEN_LIMITS: Final = ("max_tokens", "max_completion_tokens")


class RequestOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """How rows become requests. `limit`: only the first rows of the input, this many."""

    prompt: str | None = None
    system: str | None = None
    max_tokens: int | None = None
    model: str | None = None
    limit: int | None = None
    #: The JSON Schema of the answers, as compact JSON.
    schema: str | None = None
    #: Templates of paths and addresses that go with each request.
    attach: tuple[str, ...] = ()
    #: Several models, each of which gets every row. Then `model` is None.
    models: tuple[str, ...] = ()

    def for_each_model(self) -> list[Self]:
        """The options of each model; these options if there is one model or none."""
        if not self.models:
            return [self]
        return [msgspec.structs.replace(self, model=model, models=()) for model in self.models]

    def check(self, path: str) -> None:
        """Raise if these options do not fit a file of this name."""
        if is_parquet(path) and path.endswith(".gz"):
            raise UsageError(
                f"{path}: a Parquet file cannot be compressed again", hint="unpack it with gunzip"
            )
        if not is_table(path) and self.prompt is not None:
            raise UsageError(
                f"--prompt is for tables (.csv, .tsv, .parquet), and {path} is not a table",
                hint="every row of a .jsonl file has a prompt of its own",
            )
        if is_table(path) and self.prompt is None:
            raise UsageError(
                f"{path} is a table: say what to ask about each row", hint="--prompt 'Translate: {{text}}'"
            )

    def digest(self, content: str, path: str) -> str:
        """The identity of a job: content and options. Without options it is the digest of the content."""
        delimiter = delimiter_of(path)
        if delimiter is None and self == RequestOptions():
            return content
        identity = msgspec.json.encode([content, delimiter, self])
        return blake2b(identity, digest_size=DIGEST_BYTES).hexdigest()

    def schema_requests(self) -> SchemaRequests | None:
        """Adds the schema to requests; None without a schema."""
        return None if self.schema is None else SchemaRequests(msgspec.json.decode(self.schema))

    @property
    def template(self) -> str:
        """The template of a table's texts; "" if rows have their own texts."""
        return "" if self.prompt is None else f"{self.prompt}\0{self.system or ''}"

    @property
    def fills(self) -> bool:
        """Whether there is anything to add to a short row."""
        values = (self.system, self.max_tokens, self.model, self.schema)
        return bool(self.attach) or any(value is not None for value in values)

    @property
    def asks_all_rows_alike(self) -> bool:
        """Whether no text of the request names a column."""
        texts = [text for text in (self.prompt, self.system) if text is not None]
        return not any(Template(text, "").names for text in (*texts, *self.attach))

    def add_attachments(self, row: dict[str, Any]) -> None:
        """Add what `--attach` names to a row of any form."""
        if self.attach:
            add_templates(self.attach, row)

    def fill(self, row: dict[str, Any]) -> None:
        """Add to a short row what it does not have itself. Rows to embed stay as they are."""
        if row.get("input") is not None:
            return
        if self.model is not None and row.get("model") is None:
            row["model"] = self.model
        if (
            self.system is not None
            and row.get("system") is None
            and not _has_system_prompt(row.get("messages"))
        ):
            row["system"] = self.system
        if self.max_tokens is not None and all(row.get(name) is None for name in _TOKEN_LIMITS):
            row["max_tokens"] = self.max_tokens


def _has_system_prompt(messages: object) -> bool:
    """Whether the messages include a system prompt."""
    return isinstance(messages, list) and any(
        isinstance(message, dict) and message.get("role") in _SYSTEM_ROLES for message in messages
    )


# -- from the command line --------------------------------------------------------------------------------------------


def request_options_of(flags: Mapping[str, Any]) -> RequestOptions:
    """The options from the flags. A value `@FILE` is read from the file. A model that is named twice counts once."""
    models = tuple(dict.fromkeys(_valid_text("--model", name) or "" for name in flags["model"]))
    return RequestOptions(
        prompt=text_or_file("--prompt", flags["prompt"]),
        system=text_or_file("--system", flags["system"]),
        max_tokens=flags["max_tokens"],
        model=models[0] if len(models) == 1 else None,
        models=models if len(models) > 1 else (),
        limit=flags["limit"],
        schema=schema_of(flags["schema"]),
        attach=tuple(_attach_text(text) for text in flags["attach"]),
    )


def _attach_text(text: str) -> str:
    if not text.strip():
        raise UsageError("--attach is empty", hint="name a file or a column: --attach '{{photo}}'")
    Template(text, "--attach")  # Raises for braces that are not closed.
    return _valid_text("--attach", text) or ""


def schema_of(path: Path | None) -> str | None:
    """The schema of a file, checked."""
    if path is None:
        return None
    from headway.batch.answer_schema import read_schema  # imports a validator

    return read_schema(path)


def text_or_file(flag: str, value: str | None) -> str | None:
    """A text, or the content of `@FILE`. `@@` at the beginning is a literal @."""
    if value is None or not value.startswith("@"):
        text = value
    elif value.startswith("@@"):
        text = value[1:]
    else:
        text = _read(flag, value)
    if text is not None and not text.strip():
        raise UsageError(f"{flag} is empty")
    return _valid_text(flag, text)


def _valid_text(flag: str, text: str | None) -> str | None:
    """The text, if it is valid UTF-8. A shell may pass any bytes."""
    try:
        (text or "").encode()
    except UnicodeEncodeError:
        raise UsageError(f"{flag} is not valid UTF-8") from None
    return text


def _read(flag: str, value: str) -> str:
    """The content of a file without the line end at its end, which editors add."""
    try:
        text = Path(value[1:]).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        hint = "a text that begins with @ is written with @@"
        raise UsageError(f"{flag} {value}: no such file", hint=hint) from None
    except UnicodeDecodeError:
        raise UsageError(f"{flag} {value}: not valid UTF-8") from None
    except OSError as error:
        raise UsageError(f"{flag} {value}: {(error.strerror or str(error)).lower()}") from None
    return text.removesuffix("\n")
