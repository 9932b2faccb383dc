"""Which tests and columns of two evals are the same.

A test is the same if its description and its variables are. Stored outputs among the variables (`storeOutputAs`) are answers of models, and
do not count. Tests that are written twice are matched in order. A column is the same if provider and prompt are; of the rest, a column is
matched by its provider alone, or by its prompt alone, where that leaves no choice: two versions of a prompt are compared this way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from headway.evals.records import CellResult, Column, EvalView

#: Of what a test is recognised by, and an answer.
_DIGEST_BYTES = 12
_encoder = msgspec.json.Encoder(enc_hook=str, order="deterministic")


def digest_of(value: Any) -> bytes:
    """A short digest of plain data. The order of keys does not matter."""
    try:
        data = _encoder.encode(value)
    except UnicodeEncodeError:
        data = repr(value).encode("utf-8", errors="backslashreplace")
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()


def answer_digest(output: Any) -> bytes:
    """Equal for answers that say the same: spaces around a text do not matter, nor the form of JSON."""
    if not isinstance(output, str):
        return digest_of(output)
    text = output.strip()
    if text.startswith(("{", "[")):
        try:
            return digest_of(msgspec.json.decode(text))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass
    return digest_of(text)


def cells_with_tests(view: EvalView) -> Iterator[tuple[CellResult, bytes]]:
    """Each cell with what its test is recognised by, in any eval."""
    stored = frozenset(stored_names(view.config))
    seen: Counter[tuple[bytes, int]] = Counter()
    row, test = -1, b""
    for cell in view.cells():
        if cell.test_index != row:
            row = cell.test_index
            values = {name: value for name, value in cell.vars.items() if name not in stored}
            test = digest_of([cell.description, values])
            before = seen[test, cell.repetition]
            seen[test, cell.repetition] += 1
            test += before.to_bytes(4, "big")
        yield cell, test


def stored_names(config: Any) -> Iterator[str]:
    """The variables that hold stored outputs, wherever the configuration names one."""
    if isinstance(config, dict):
        if isinstance(name := config.get("storeOutputAs"), str):
            yield name
        for value in config.values():
            yield from stored_names(value)
    elif isinstance(config, list):
        for value in config:
            yield from stored_names(value)


def matched_columns(
    first: Sequence[Column], second: Sequence[Column]
) -> tuple[list[tuple[Column, Column]], list[Column], list[Column]]:
    """The pairs in the order of the first eval, and the columns that only one of the evals has."""
    pairs: list[tuple[Column, Column]] = []
    rest, other_rest = list(first), list(second)
    names: tuple[Callable[[Column], object], ...] = (
        lambda column: (_provider(column), column.prompt_label),
        _provider,
        lambda column: column.prompt_label,
    )
    for name in names:
        counts, other_counts = Counter(map(name, rest)), Counter(map(name, other_rest))
        by_name = {name(column): column for column in other_rest}
        for column in list(rest):
            key = name(column)
            if counts[key] == other_counts[key] == 1:
                pairs.append((column, by_name[key]))
                rest.remove(column)
                other_rest.remove(by_name[key])
    if len(rest) == len(other_rest) == 1:
        pairs.append((rest.pop(), other_rest.pop()))
    return sorted(pairs, key=lambda pair: pair[0].prompt_index), rest, other_rest


def _provider(column: Column) -> str:
    return column.provider_label or column.provider
