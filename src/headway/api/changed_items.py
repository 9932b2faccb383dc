"""Items that were changed under a key whose answer is on record: that answer is given, and it is said once.

What is compared is a digest of the item, which is kept with its answer. An item that JSON cannot say has none, and neither
has an answer of an earlier version: of those nothing is known, and nothing is said.
"""

from __future__ import annotations

import warnings
from hashlib import blake2b
from typing import Any, Final

import msgspec

from headway.api.lane_names import caller

#: In the place of a request's id, which an answer of a function has not.
MARK: Final = "item:"
_BYTES: Final = 8

_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def digest_of(item: Any) -> str | None:
    """The same for the same item in every process; None where that cannot be had."""
    try:
        return MARK + blake2b(_encode(item), digest_size=_BYTES).hexdigest()
    except (TypeError, ValueError, OverflowError, RecursionError):  # JSON cannot say it.
        return None


class ItemWords(msgspec.Struct, frozen=True):
    """How whoever brings the items calls them, and what names them."""

    item: str = "item"
    key: str = "key"
    again: str = "to call again, give another key=… or another name=…"


ITEMS: Final = ItemWords()
UNITS: Final = ItemWords("unit", "id", "to run it again, give another id or another job_id=…")


class ChangedItems:
    """The items of one run that are not what they were."""

    def __init__(self, words: ItemWords = ITEMS) -> None:
        self._keys: list[str] = []
        self._words = words
        self._where = caller()

    def compare(self, key: str, item: Any, kept: str | None) -> None:
        """An item whose answer is taken from the records."""
        if kept is not None and kept.startswith(MARK) and digest_of(item) not in (None, kept):
            self._keys.append(key)

    def tell(self) -> None:
        """Once, if there are any."""
        keys, self._keys = self._keys, []
        if not keys:
            return
        item, key, again = self._words.item, self._words.key, self._words.again
        count = len(keys)
        items, some = (
            (f"1 {item} was", "has its") if count == 1 else (f"{count:,} {item}s were", "have their")
        )
        warnings.warn_explicit(
            f"{items} changed under the same {key} since being answered, and {some} old answer "
            f"(the first: {keys[0]!r}); {again}",
            UserWarning,
            *self._where,
        )
