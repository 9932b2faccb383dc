"""The flags of `headway run` that say what is asked → a recipe. `@FILE` is read here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.batch.recipe import Recipe
from headway.errors import UsageError


def recipe_of(flags: Mapping[str, Any]) -> Recipe:
    """The flags, with files read."""
    return Recipe(
        prompt=_text("--prompt", flags["prompt"]),
        system=_text("--system", flags["system"]),
        max_tokens=flags["max_tokens"],
        model=_readable("--model", flags["model"]),
        limit=flags["limit"],
        schema=_schema(flags["schema"]),
    )


def _schema(path: Path | None) -> str | None:
    """The file's schema, checked."""
    if path is None:
        return None
    from headway.batch.schema import read_schema

    return read_schema(path)


def _text(flag: str, value: str | None) -> str | None:
    """A text, or @ and the file that has it; a text that begins with @ is written with two."""
    if value is None or not value.startswith("@"):
        text = value
    elif value.startswith("@@"):
        text = value[1:]
    else:
        text = _read(flag, value)
    if text is not None and not text.strip():
        raise UsageError(f"{flag} is empty")
    return _readable(flag, text)


def _readable(flag: str, text: str | None) -> str | None:
    """What a shell passes on need not be text."""
    try:
        (text or "").encode()
    except UnicodeEncodeError:
        raise UsageError(f"{flag} is not valid UTF-8") from None
    return text


def _read(flag: str, value: str) -> str:
    """The line end that editors put last is not part of the text."""
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
