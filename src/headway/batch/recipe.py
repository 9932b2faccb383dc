"""What the flags of a run say about its requests, and with that about which job it is.

For a table it is all there is besides the cells; rows of a .jsonl file have the last word about themselves.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.errors import UsageError
from headway.providers.dialects.structured_output import SchemaRequests

DIGEST_BYTES: Final = 32
_DELIMITERS: Final = {".csv": ",", ".tsv": "\t"}
#: What results may be called: rows of JSON, and tables.
ROWS: Final = (".jsonl", ".ndjson")
TABLES: Final = (*_DELIMITERS, ".parquet")
_INSTRUCTING: Final = frozenset({"system", "developer"})
_LIMITS: Final = ("max_tokens", "max_completion_tokens")


def delimiter_of(path: str | Path) -> str | None:
    """What parts the columns of a table, known by its name; None: the file is no table."""
    return _DELIMITERS.get(Path(str(path).removesuffix(".gz")).suffix.lower())


def is_parquet(path: str | Path) -> bool:
    """Whether a file is a table with types, known by its name."""
    return Path(str(path).removesuffix(".gz")).suffix.lower() == ".parquet"


def is_table(path: str | Path) -> bool:
    """Whether a file is a table of any kind."""
    return delimiter_of(path) is not None or is_parquet(path)


def must_be_an_output(path: Path) -> None:
    """Whether results can be written under this name: what comes last in it says what they are; nothing, and they are rows."""
    if path.suffix.lower() == ".gz":
        what = "a table is" if is_table(path) else "results are"
        raise UsageError(f"--out {path}: {what} not written compressed", hint="take .gz off its name")
    if path.suffix and path.suffix.lower() not in (*ROWS, *TABLES):
        known = f"{ROWS[0]} (rows), {', '.join(TABLES)} (tables)"
        raise UsageError(f"--out {path}: nothing is written as {path.suffix}", hint=f"these work: {known}")


def must_be_spreadsheet(path: Path | None) -> None:
    """That --safe-cells means something: only texts with separators have cells that are taken for formulas."""
    if path is None or delimiter_of(path.name) is None:
        raise UsageError("--safe-cells is for spreadsheets", hint="name a .csv or .tsv file with --out")


class Recipe(msgspec.Struct, frozen=True, omit_defaults=True):
    """How rows become requests. `limit` is how many rows of the input there are to be."""

    prompt: str | None = None
    system: str | None = None
    max_tokens: int | None = None
    model: str | None = None
    limit: int | None = None
    #: The JSON Schema that answers must fit, as compact JSON.
    schema: str | None = None

    def check(self, path: str) -> None:
        """Whether it fits a file of this name."""
        if is_parquet(path) and path.endswith(".gz"):
            raise UsageError(f"{path}: Parquet is not compressed once more", hint="unpack it with gunzip")
        if not is_table(path) and self.prompt is not None:
            raise UsageError(
                f"--prompt is for tables (.csv, .tsv, .parquet), and {path} is none",
                hint="every row of a .jsonl file has a prompt of its own",
            )
        if is_table(path) and self.prompt is None:
            raise UsageError(
                f"{path} is a table: say what to ask about each row", hint="--prompt 'Translate: {{text}}'"
            )

    def digest(self, content: str, path: str) -> str:
        """Which job this content is, asked like this. Without any flag the content is all."""
        delimiter = delimiter_of(path)
        if delimiter is None and self == Recipe():
            return content
        identity = msgspec.json.encode([content, delimiter, self])
        return blake2b(identity, digest_size=DIGEST_BYTES).hexdigest()

    def asking(self) -> SchemaRequests | None:
        """What asks for answers that fit the schema; None where there is none."""
        return None if self.schema is None else SchemaRequests(msgspec.json.decode(self.schema))

    @property
    def template(self) -> str:
        """What makes the texts of a table's rows; "" where rows bring their own."""
        return "" if self.prompt is None else f"{self.prompt}\0{self.system or ''}"

    @property
    def fills(self) -> bool:
        """Whether a short row may get anything from it."""
        return any(value is not None for value in (self.system, self.max_tokens, self.model, self.schema))

    def fill(self, row: dict[str, Any]) -> None:
        """Give a short row what it lacks. Texts to embed have no use for any of it."""
        if row.get("input") is not None:
            return
        if self.model is not None and row.get("model") is None:
            row["model"] = self.model
        if self.system is not None and row.get("system") is None and not _instructed(row.get("messages")):
            row["system"] = self.system
        if self.max_tokens is not None and all(row.get(name) is None for name in _LIMITS):
            row["max_tokens"] = self.max_tokens


def _instructed(messages: object) -> bool:
    """Whether a conversation brings a system prompt of its own."""
    return isinstance(messages, list) and any(
        isinstance(message, dict) and message.get("role") in _INSTRUCTING for message in messages
    )
