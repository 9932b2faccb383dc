"""Which units wait for which: conversations and registers, resolved once while the input is read.

A turn of a conversation waits for the turn before it. A unit that reads a register waits for the latest
writer with a lower index, and for nothing else. The results then equal those of a run in index order: a
reader is given the value of the writer it waited for, so a later writer may overtake it. `Gates` is fed
the input in index order and answers with the indices to wait for; it keeps one number a conversation and
one a register, so a million rows cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable


class Gates:
    """Turns conversations, reads and writes into `Unit.after`."""

    __slots__ = ("_last_turn", "_last_writer")

    def __init__(self) -> None:
        self._last_turn: dict[str, int] = {}
        self._last_writer: dict[str, int] = {}

    def after(
        self,
        index: int,
        *,
        conversation: str | None = None,
        reads: Iterable[str] = (),
        writes: Iterable[str] = (),
    ) -> tuple[int, ...]:
        """The indices that unit `index` waits for, in order. Call once for each unit, lowest index first."""
        waits = {self._last_writer[register] for register in reads if register in self._last_writer}
        if conversation is not None:
            if conversation in self._last_turn:
                waits.add(self._last_turn[conversation])
            self._last_turn[conversation] = index
        for register in writes:
            self._last_writer[register] = index
        return tuple(sorted(waits))
