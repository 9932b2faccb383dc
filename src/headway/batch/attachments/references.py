"""What a row or `--attach` names: a path, or an address that the provider reads itself. Pure: no file is opened here."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from headway.batch.prompt_template import BoundTemplate, Template
from headway.errors import UsageError

#: The supported types, and the endings of addresses that stand for them.
ENDINGS: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
}
TYPES: Final = frozenset(ENDINGS.values())
PDF: Final = "application/pdf"
DETAILS: Final = ("auto", "low", "high", "original")
_KEYS: Final = frozenset(("path", "url", "type", "detail"))
_SCHEMES: Final = ("http", "https")
#: Keys of a row that `--attach` may name and that stay in the row.
_STAYS: Final = frozenset(
    ("id", "custom_id", "prompt", "messages", "input", "system", "model", "metadata", "body", "url", "method",
     "conversation", "store_as", "priority", "serial", "payload", "attachments")
)  # fmt: skip


class Reference(msgspec.Struct, frozen=True, gc=False):
    """A path or an address. `type` is "" if the row does not say it; `detail` is OpenAI's."""

    path: str = ""
    url: str = ""
    type: str = ""
    detail: str = ""

    @property
    def name(self) -> str:
        """For messages."""
        name = self.path or self.url
        return name if len(name) <= 80 else name[:80] + "…"


def references_of(value: object) -> tuple[Reference, ...]:
    """The list in a row's key "attachments". A null is an empty list."""
    if value is None:
        return ()
    if type(value) is not list:
        raise UsageError('"attachments" must be a list of paths and addresses')
    return tuple(_reference(one, f'"attachments[{place}]"') for place, one in enumerate(value))


def _reference(value: object, at: str) -> Reference:
    if type(value) is str:
        return _from_text(value, at)
    if type(value) is not dict:
        raise UsageError(f'{at} must be a path, an address, or an object with "path" or "url"')
    stray = next((key for key in value if key not in _KEYS), None)
    if stray is not None:
        raise UsageError(f'{at} has an unknown key "{stray[:40]}": it may have path or url, type, detail')
    path, url = _text(value, "path", at), _text(value, "url", at)
    if bool(path) == bool(url):
        raise UsageError(f'{at} must have one of "path" and "url"')
    media, detail = _text(value, "type", at), _text(value, "detail", at)
    if media and media not in TYPES:
        raise UsageError(f"{at}: the type must be one of {', '.join(sorted(TYPES))}")
    if detail and detail not in DETAILS:
        raise UsageError(f"{at}: the detail must be one of {', '.join(DETAILS)}")
    return Reference(_path(path, at), _url(url, at) if url else "", media, detail)


def _text(value: Mapping[str, Any], name: str, at: str) -> str:
    text = value.get(name)
    if text is not None and type(text) is not str:
        raise UsageError(f'{at}: "{name}" must be a text')
    return text or ""


def _from_text(text: str, at: str) -> Reference:
    """A path, or an address if it begins with a scheme."""
    text = text.strip()
    if not text:
        raise UsageError(f"{at} is empty")
    scheme, mark, _ = text.partition(":")
    if mark and (scheme.lower() in (*_SCHEMES, "data") or text[len(scheme) :].startswith("://")):
        return Reference(url=_url(text, at))
    return Reference(path=_path(text, at))


def _path(text: str, at: str) -> str:
    if "\0" in text:
        raise UsageError(f"{at} is no path: it has a zero byte")
    return text


def _url(text: str, at: str) -> str:
    try:
        parts = urlsplit(text)
        known = parts.scheme in _SCHEMES and bool(parts.hostname)
        has_password = parts.username is not None or parts.password is not None
    except ValueError:
        known, has_password = False, False
    if not known or not text.isprintable() or " " in text:
        raise UsageError(f"{at}: only http and https addresses are passed on; name other files by their path")
    if has_password:
        raise UsageError(f"{at}: an address with a user or password is not passed on")
    return text


def type_of_url(reference: Reference) -> str:
    """The type of what an address leads to: the one that the row says, or by the ending of its path; "" if neither says it."""
    if reference.type:
        return reference.type
    path = urlsplit(reference.url).path.lower()
    return next((media for ending, media in ENDINGS.items() if path.endswith(ending)), "")


# -- --attach -----------------------------------------------------------------------------------------------------


class AttachTemplates:
    """The texts of `--attach`, for records with these columns."""

    def __init__(self, texts: Sequence[str], columns: Sequence[str], table: str) -> None:
        templates = [Template(text, "--attach") for text in texts]
        for text in texts:
            _must_not_be_a_name(text, columns)
        self._bound = [template.bind(columns, table) for template in templates]
        #: The columns that they use.
        self.names = {name for template in templates for name in template.names}

    def of(self, record: Sequence[str]) -> list[str]:
        """The paths and addresses for one record. A template attaches nothing if all of its columns are empty."""
        return [text for bound in self._bound if (text := _rendered(bound, record))]


def _must_not_be_a_name(text: str, names: Container[str]) -> None:
    """Raise for the bare name of a column or key: its value is meant, not a file of this name."""
    if (name := text.strip()) in names:
        raise UsageError(
            f"--attach {name} is the name of a column, and would be read as a file",
            hint=f"write --attach '{{{{{name}}}}}' for its value, or --attach ./{name} for the file",
        )


def _rendered(bound: BoundTemplate, record: Sequence[str]) -> str:
    return "" if bound.is_blank(record) else bound.render(record).strip()


@lru_cache(16)
def _row_templates(texts: tuple[str, ...]) -> list[tuple[list[str], BoundTemplate]]:
    """Each template, bound to its own names."""
    templates = [Template(text, "--attach") for text in texts]
    return [(template.names, template.bind(template.names, "the row")) for template in templates]


def add_templates(texts: tuple[str, ...], row: dict[str, Any]) -> None:
    """Add to a row of JSON what `--attach` names. A name is a key of the row, or of its metadata. A key of the row's own that only
    `--attach` uses is removed, since it is no setting of the API.
    """
    metadata = row.get("metadata")
    more: list[str] = []
    used: set[str] = set()
    for text in texts:
        _must_not_be_a_name(text, row)
    for names, bound in _row_templates(texts):
        values = [_value(row, metadata, name) for name in names]
        used.update(name for name in names if name in row and name not in _STAYS)
        if text := _rendered(bound, values):
            more.append(text)
    for name in used:
        del row[name]
    if more:
        own = row.get("attachments")
        row["attachments"] = [*own, *more] if type(own) is list else more if own is None else own


def _value(row: Mapping[str, Any], metadata: object, name: str) -> str:
    if name in row:
        value = row[name]
    elif isinstance(metadata, dict) and name in metadata:
        value = metadata[name]
    else:
        raise UsageError(f"--attach names '{name}', which neither the row nor its metadata has")
    if value is None:
        return ""
    if type(value) in (str, int, float):
        return str(value)
    raise UsageError(f"--attach names '{name}', which must be a text here")
