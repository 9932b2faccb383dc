"""Which units wait for which: conversations and registers, resolved once while the input is read.

A turn of a conversation waits for the turn before it. A unit that reads a register waits for the latest
writer with a lower index, and for nothing else. The results then equal those of a run in index order: a
reader is given the value of the writer it waited for, so a later writer may overtake it. `Gates` is fed
the input in index order; it keeps one number a conversation and one a register.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import msgspec


class Waits(msgspec.Struct, frozen=True):
    """What one unit waits for: the turn before it in its conversation, and for each register that it reads the writer."""

    turn: int | None = None
    writers: dict[str, int] = {}

    @property
    def indices(self) -> tuple[int, ...]:
        """The units to wait for, each once, in order."""
        turns = () if self.turn is None else (self.turn,)
        return tuple(sorted({*self.writers.values(), *turns}))


class Gates:
    """Turns conversations, reads and writes into the units to wait for."""

    __slots__ = ("_last_turn", "_last_writer")

    def __init__(self) -> None:
        self._last_turn: dict[str, int] = {}
        self._last_writer: dict[str, int] = {}

    @property
    def registers(self) -> Container[str]:
        """The registers that a unit has written so far."""
        return self._last_writer.keys()

    def waits(
        self,
        index: int,
        *,
        conversation: str | None = None,
        reads: Iterable[str] = (),
        writes: Iterable[str] = (),
    ) -> Waits:
        """What unit `index` waits for. Call once for each unit, lowest index first."""
        writers = {
            register: self._last_writer[register] for register in reads if register in self._last_writer
        }
        turn = None
        if conversation is not None:
            turn = self._last_turn.get(conversation)
            self._last_turn[conversation] = index
        for register in writes:
            self._last_writer[register] = index
        return Waits(turn, writers)
