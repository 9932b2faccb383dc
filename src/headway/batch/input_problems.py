"""Everything that is wrong with the rows of an input, in one error.

Used only if the intake has met a problem. It reads the whole input again, so that bad rows and repeated ids are shown together.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from headway.batch.conversations import RowDependencies
from headway.batch.rows import BadRow, Row
from headway.config.routing import Router
from headway.errors import HeadwayError, InputError, UsageError

if TYPE_CHECKING:
    from headway.batch.intake import RowSource

#: Different mistakes that are shown, and that are remembered.
MOST_SHOWN: Final = 20
MOST_REMEMBERED: Final = 1_000
#: Ids that are compared with each other; each takes about 100 bytes.
MOST_IDS: Final = 1_000_000


class InputProblems:
    """Collects the problems of an input."""

    def __init__(self, source: RowSource, router: Router) -> None:
        self._name = source.name
        self._dependencies = {model: RowDependencies() for model in source.request_options.models or ("",)}
        self._good = 0
        #: A mistake → (the first row with it, the number of rows with it).
        self._bad: dict[str, tuple[BadRow, int]] = {}
        self._bad_count = 0
        #: The errors of rows that lack only a model.
        self._no_model: list[UsageError] = []
        #: The digest of an id → its first line.
        self._lines: dict[bytes, int] = {}
        #: A repeated id → its first two lines.
        self._repeated: dict[str, tuple[int, int]] = {}
        for line, row in source.numbered(router):
            self._add(line, row)

    def error(self, *, skip_bad: bool) -> HeadwayError:
        """The error to raise. `skip_bad`: bad rows would be left out, so only repeated ids matter, unless no row is good."""
        if self._no_model and len(self._no_model) == self._bad_count and not self._good:
            first = self._no_model[0]
            return UsageError(f"{self._name}: {first.message}; nothing was sent", hint=first.hint)
        if self._repeated and (skip_bad or not self._bad_count):
            return self._repeated_ids()
        return self._bad_rows(skip_bad=skip_bad)

    def _add(self, line: int, row: Row | BadRow) -> None:
        if isinstance(row, BadRow):
            self._add_bad(row)
            return
        try:
            self._dependencies[row.variant].edges(self._good, row)
        except UsageError as error:
            self._add_bad(BadRow(line, str(error)))
            return
        self._good += 1
        self._add_id(line, row.custom_id)

    def _add_bad(self, row: BadRow) -> None:
        self._bad_count += 1
        if row.no_model is not None and len(self._no_model) == self._bad_count - 1:
            self._no_model.append(row.no_model)
        first, count = self._bad.get(row.message, (row, 0))
        if count or len(self._bad) < MOST_REMEMBERED:
            self._bad[row.message] = (first, count + 1)

    def _add_id(self, line: int, custom_id: str) -> None:
        digest = blake2b(custom_id.encode(errors="surrogatepass"), digest_size=16).digest()
        first = self._lines.get(digest)
        if first is not None:
            self._repeated.setdefault(custom_id, (first, line))
        elif len(self._lines) < MOST_IDS:
            self._lines[digest] = line

    def _repeated_ids(self) -> HeadwayError:
        shown = [_repeated_text(*one) for one in list(self._repeated.items())[:MOST_SHOWN]]
        hint = "give each row an id of its own"
        if len(self._repeated) == 1:
            return UsageError(f"{self._name}: {shown[0]}; nothing was sent", hint=hint)
        more = len(self._repeated) - len(shown)
        return InputError(
            f"{self._name} has {len(self._repeated):,} ids that occur more than once; nothing was sent",
            (*(f"{self._name}: {text}" for text in shown), *([f"… and {more:,} more"] if more else [])),
            hint=hint,
        )

    def _bad_rows(self, *, skip_bad: bool) -> InputError:
        n = self._bad_count
        shown = list(self._bad.items())[:MOST_SHOWN]
        lines = [
            row.at(self._name) + (f" (and {count - 1:,} more rows)" if count > 1 else "")
            for _, (row, count) in shown
        ]
        counted = sum(count for _, (_, count) in shown)
        lines += [f"… and {n - counted:,} more"] if n > counted else []
        lines += [
            f"{self._name}: {_repeated_text(*one)}" for one in list(self._repeated.items())[:MOST_SHOWN]
        ]
        what = "1 bad row" if n == 1 else f"{n:,} bad rows"
        if self._repeated:
            what += (
                " and 1 repeated id"
                if len(self._repeated) == 1
                else f" and {len(self._repeated):,} repeated ids"
            )
        it = "it" if n == 1 else "them"
        hint = f"fix {it}" if skip_bad else f"fix {it}, or skip {it} with --skip-bad-rows"
        if self._repeated:
            hint = "fix the rows, or skip bad ones with --skip-bad-rows; give each row an id of its own"
        return InputError(f"{self._name} has {what}; nothing was sent", tuple(lines), hint=hint)


def _repeated_text(custom_id: str, lines: tuple[int, int]) -> str:
    return f"the id '{custom_id}' occurs twice (lines {lines[0]} and {lines[1]})"
