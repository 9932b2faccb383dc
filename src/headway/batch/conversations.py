"""Rows that use the answers of earlier rows: turns of a conversation, and texts with `{{name}}` in them.

While the input is read, `RowDependencies` finds these rows and what each waits for: one edge for its conversation, and one for
each name. After those answers have arrived, `request_of` makes the request of the row, from its own request, the request of
the previous turn as it was sent, and the answers.

`{{name}}` is replaced only if an earlier row stores that name; otherwise it is literal text. Inserted text is not searched for
names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headway.batch.answer_text import decoded, refusal_of, text_of
from headway.batch.attachments.row_attachments import more_chars
from headway.batch.field_checks import STORED_NAME
from headway.batch.input_size import has_open_input
from headway.batch.inputs.unresolved_names import UnresolvedNames
from headway.batch.requests.chat_formats import (
    EARLIER_TURNS,
    FUNCTION_ROW,
    Body,
    ChatFormat,
    Earlier,
    change_texts,
    chat_format,
    continued,
    is_plain,
)
from headway.batch.rows import Row
from headway.config import KINDS
from headway.core.gates import Gates
from headway.core.lanes.estimate import FIRST_OUTPUT, FIRST_RATIO, FIRST_SHARE
from headway.engine.run_spec import RenderedRequest
from headway.errors import UsageError
from headway.stores.records import Edge
from headway.stores.store import Store

#: The roles of edges: to the previous turn, and to the row that stores a name.
CONVERSATION: Final = "conversation"
REGISTER: Final = "register:"

_NAME: Final = re.compile(rf"\{{\{{\s*({STORED_NAME.pattern})\s*\}}\}}")
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


# -- while the input is read --------------------------------------------------------------------------------------


class _Turn(msgspec.Struct, gc=False):
    """The last turn of a conversation so far. `plain`: all turns are texts. `chars`: their approximate length."""

    format: ChatFormat | None
    plain: bool
    chars: int


class RowDependencies:
    """Finds the edges of rows. It gets every row once, in index order."""

    def __init__(self) -> None:
        self._gates = Gates()
        self._turns: dict[str, _Turn] = {}
        self._stored: dict[str, int] = {}
        self.unresolved = UnresolvedNames()

    def edges(self, index: int, row: Row) -> tuple[tuple[Edge, ...], int]:
        """The edges of a row, and the approximate length of its request. Raises if its conversation cannot continue with it."""
        has_names = b"{{" in row.body
        if not (row.conversation or row.store_as or has_names):
            return (), row.chars
        reads = self._reads(row) if has_names else frozenset()
        length = row.chars + sum(self._stored[name] for name in reads)
        if row.conversation:
            length += self._add_turn(row, length)
        if row.store_as:
            self._stored[row.store_as] = _expected_chars(row)
            self.unresolved.stored(row.custom_id, row.store_as)
        waits = self._gates.waits(
            index,
            conversation=row.conversation or None,
            reads=reads,
            writes=(row.store_as,) if row.store_as else (),
        )
        edges = [Edge(REGISTER + name, writer) for name, writer in sorted(waits.writers.items())]
        if waits.turn is not None:
            edges.append(Edge(CONVERSATION, waits.turn))
        return tuple(edges), length

    def _reads(self, row: Row) -> frozenset[str]:
        """The names in its texts that an earlier row stores."""
        written = {
            name for name in _NAME.findall(row.body.decode()) if name != row.store_as or name in self._stored
        }
        self.unresolved.read(row.custom_id, written, self._stored)
        if not written & self._stored.keys():
            return frozenset()
        names: set[str] = set()

        def collect(text: str) -> str:
            names.update(name for name in _NAME.findall(text) if name in self._stored)
            return text

        try:
            change_texts(row.path, _decode(row.body), collect)
        except RecursionError:
            raise UsageError("nested too deeply to look for stored names in it") from None
        return frozenset(names)

    def _add_turn(self, row: Row, length: int) -> int:
        """Add a turn to its conversation; returns the length of the earlier turns."""
        own, body = chat_format(row.path), _decode(row.body)
        plain = _is_object(body) if own is None else is_plain(own, body)
        before = self._turns.get(row.conversation)
        if own is not None and not own.split(body)[1]:
            raise UsageError("a turn of a conversation needs a message beside its system prompt")
        if own is None and not plain:
            raise UsageError('a function\'s row with a "conversation" must be an object')
        if own is None and EARLIER_TURNS in body:
            raise UsageError(
                f'"{EARLIER_TURNS}" is reserved for the earlier turns of a conversation: use another name'
            )
        if before is None:
            self._turns[row.conversation] = _Turn(own, plain, length + _expected_chars(row))
            return 0
        if before.format is not own and not before.plain:
            raise UsageError(
                f"the conversation '{row.conversation}' continues at another API, but an earlier turn has more than text"
            )
        self._turns[row.conversation] = _Turn(
            own, plain and before.plain, before.chars + length + _expected_chars(row)
        )
        return before.chars


def _is_object(body: object) -> bool:
    return isinstance(body, dict)


def _expected_chars(row: Row) -> int:
    """The expected length of its answer, before any answer is known."""
    tokens = row.max_tokens * FIRST_SHARE if row.max_tokens else FIRST_OUTPUT
    return int(tokens * FIRST_RATIO)


# -- when a row can be sent ---------------------------------------------------------------------------------------


def request_of(job: int, store: Store, index: int) -> RenderedRequest:
    """The request of a row that uses the answers of others."""
    [(_, path, own_body)] = store.requests(job, [index])
    body, own = _decode(own_body), chat_format(path)
    edges = {edge.role: edge.before for edge in store.edges(job, [index])}
    stored = {
        role.removeprefix(REGISTER): _answer(store, job, before, store.requests(job, [before])[0][1])
        for role, before in edges.items()
        if role.startswith(REGISTER)
    }
    if stored:
        body = change_texts(path, body, lambda text: filled(text, stored))
    if CONVERSATION in edges:
        _continue(own, body, store, job, edges[CONVERSATION])
    sent = _encode(body)
    if own is None:
        return RenderedRequest(path, sent, len(sent))
    chars = own.chars(body) + more_chars(store, job, path, _model(path, body), sent)
    return RenderedRequest(path, sent, max(0, chars), has_open_input(body))


def _model(path: str, body: Body) -> str:
    """The model of a request: in the body, or in the path."""
    named = body.get("model")
    return (
        named
        if isinstance(named, str)
        else path.replace("/converse", "").rpartition("/")[2].partition(":")[0]
    )


def filled(text: str, stored: Mapping[str, str]) -> str:
    """The text with stored values in place of their names. Other names are literal text."""
    return _NAME.sub(lambda match: stored.get(match[1], match[0]), text)


def _continue(own: ChatFormat | None, body: Body, store: Store, job: int, before: int) -> None:
    path, sent = store.request(job, before)
    earlier = Earlier(chat_format(path) or FUNCTION_ROW, _decode(sent), _answer(store, job, before, path))
    continued(own or FUNCTION_ROW, body, earlier)


def _answer(store: Store, job: int, index: int, path: str) -> str:
    """The text of a unit's answer: the text of a model, or the value of a function, as JSON unless it is a text."""
    body = store.answer(job, index)
    if body is None:
        raise UsageError(f"the answer of unit {index}, which this unit uses, is not recorded")
    if path not in KINDS:
        answer: dict[str, Any] = decoded(body)
        text = text_of(answer) or refusal_of(answer)
        if text is not None or chat_format(path) is not None:
            return text or ""
    try:
        value = _decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return body.decode(errors="replace")
    return value if isinstance(value, str) else _encode(value).decode()
