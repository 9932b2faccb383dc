"""Warns of items that changed since their answer was recorded under the same key. They still get the recorded answer.

A digest of the item is stored with its answer and compared. An item that has no JSON form has no digest, and neither have
answers of earlier versions: those are not compared.
"""

from __future__ import annotations

import warnings
from hashlib import blake2b
from typing import Any, Final

import msgspec

from headway.api.lane_names import caller

#: The digest is stored in the place of a request's id, which the answer of a function does not have.
MARK: Final = "item:"
_BYTES: Final = 8

_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def digest_of(item: Any) -> str | None:
    """The digest of an item, the same in every process; None if it has no JSON form."""
    try:
        return MARK + blake2b(_encode(item), digest_size=_BYTES).hexdigest()
    except (TypeError, ValueError, OverflowError, RecursionError):  # It has no JSON form.
        return None


class ItemWords(msgspec.Struct, frozen=True):
    """The words for items and keys in a warning: those of `map` or of a pool."""

    item: str = "item"
    key: str = "key"
    again: str = "to call them again, use another key=… or another name=…"


ITEMS: Final = ItemWords()
UNITS: Final = ItemWords("unit", "id", "to run it again, give another id or another job_id=…")


class ChangedItems:
    """The changed items of one run."""

    def __init__(self, words: ItemWords = ITEMS) -> None:
        self._keys: list[str] = []
        self._words = words
        self._where = caller()

    def compare(self, key: str, item: Any, kept: str | None) -> None:
        """Compare an item whose answer comes from the records; `kept` is the recorded digest."""
        if kept is not None and kept.startswith(MARK) and digest_of(item) not in (None, kept):
            self._keys.append(key)

    def warn(self) -> None:
        """Warn once, if there are any."""
        keys, self._keys = self._keys, []
        if not keys:
            return
        item, key, again = self._words.item, self._words.key, self._words.again
        count = len(keys)
        items, some = (
            (f"1 {item} was", "has its") if count == 1 else (f"{count:,} {item}s were", "have their")
        )
        warnings.warn_explicit(
            f"{items} changed under the same {key} after the first call, and {some} old answer "
            f"(the first: {keys[0]!r}); {again}",
            UserWarning,
            *self._where,
        )
