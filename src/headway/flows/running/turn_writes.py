"""What the members of a pipeline or a loop wrote, by turn. A turn is one item of a pipeline, or one iteration of a loop. PURE.

Each member has one byte a turn: how it ended there. The id of a unit follows from its member and its turn, so for most members
nothing else is kept of a turn that is over. Only executions with several units, or with a flow of their own, leave parts.

Writes have the order of turns, and within a turn that of the members. What a member sees of them (`TurnsPart`):

- of its own turn, what the members before it wrote;
- of earlier turns everything in a loop, and in a pipeline only the fields that are carried from item to item.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from headway.flows.lazy_list import PAGE, LazyList
from headway.flows.running.field_parts import OneAnswer, Part, joined, value_written
from headway.flows.running.outcomes import GOOD
from headway.flows.running.run_values import RunValues
from headway.flows.spec import NodeSpec


class MemberWrites:
    """One member. `prefix` is that of its flow; `single`: an execution is one unit, whose id has the turn."""

    __slots__ = ("_parts", "_prefix", "marks", "node", "single", "values")

    def __init__(self, values: RunValues, prefix: str, node: NodeSpec) -> None:
        self.values, self._prefix, self.node = values, prefix, node
        self.single = node.for_each is None and node.kind not in ("flow", "dataset")
        #: How it ended, by turn; 0: it is not over.
        self.marks = bytearray()
        self._parts: dict[tuple[int, str], Part] = {}

    def note(self, turn: int, outcome: int, parts: dict[str, Part]) -> None:
        """It is over in a turn."""
        if turn >= len(self.marks):
            self.marks.extend(bytes(max(turn + 1 - len(self.marks), len(self.marks))))
        self.marks[turn] = outcome
        if not self.single:
            self._parts.update(((turn, field), part) for field, part in parts.items())

    def outcome(self, turn: int) -> int:
        return self.marks[turn] if turn < len(self.marks) else 0

    def has_ended_after(self, turn: int) -> bool:
        """Whether it is over in a later turn."""
        return any(self.marks[later] for later in range(turn + 1, len(self.marks)))

    def part(self, turn: int, field: str) -> Part | None:
        """What it wrote in a turn; None if it did not write the field."""
        if self.outcome(turn) != GOOD:
            return None
        if self.single:
            return OneAnswer(self.values, self.unit(turn), self.node, field)
        return self._parts.get((turn, field))

    def unit(self, turn: int) -> str:
        return f"{self._prefix}{self.node.id}#{turn}"

    def last_before(self, turn: int) -> int:
        """The last turn before this one in which it succeeded; -1: none."""
        return self.marks.rfind(GOOD, 0, turn)


Writers = Sequence[tuple[int, MemberWrites]]


class TurnsPart(Part):
    """The writes of members (each with its place) into a field: those of the turns from `since` up to `turn`, and in the turn
    `turn` itself only those of members before `place`.
    """

    __slots__ = ("_field", "_place", "_since", "_turn", "_writers")

    def __init__(self, writers: Writers, field: str, turn: int, place: int = 0, since: int = 0) -> None:
        self._writers, self._field, self._turn, self._place, self._since = writers, field, turn, place, since

    @property
    def wrote(self) -> bool:
        return bool(self._own()) or self._before(self._turn, 0)[0] >= self._since

    @property
    def has_value(self) -> bool:
        return self._last() is not None

    def value(self) -> Any:
        part = self._last()
        return None if part is None else part.value()

    def elements(self) -> Sequence[Any]:
        own = [part.elements() for part in self._own()]
        return joined([*self._elements_before(), *own])

    def _own(self) -> list[Part]:
        """What was written in the last turn."""
        found = (
            member.part(self._turn, self._field) for place, member in self._writers if place < self._place
        )
        return [part for part in found if part is not None]

    def _last(self) -> Part | None:
        """The latest part that has a value."""
        own = next((part for part in reversed(self._own()) if part.has_value), None)
        if own is not None:
            return own
        turn, writer = self._before(self._turn, 0)
        while turn >= self._since:
            part = self._writers[writer][1].part(turn, self._field)
            if part is not None and part.has_value:
                return part
            turn, writer = self._before(turn, writer)
        return None

    def _before(self, turn: int, writer: int) -> tuple[int, int]:
        """The latest success before that of a writer in a turn: its turn, and its writer."""
        latest = [
            (member.last_before(turn + 1 if n < writer else turn), n)
            for n, (_, member) in enumerate(self._writers)
        ]
        return max(latest)

    def _elements_before(self) -> list[Sequence[Any]]:
        members = [member for _, member in self._writers]
        turns = range(self._since, min(self._turn, max(len(member.marks) for member in members)))
        if all(member.single for member in members):
            return [TurnElements(members, self._field, turns)] if turns else []
        found = (member.part(turn, self._field) for turn in turns for member in members)
        return [part.elements() for part in found if part is not None]


class TurnElements(LazyList):
    """What members append in a range of turns, where each execution is one unit. An answer may be a list of any length, so a
    length is known when all answers have been read. Answers are read in blocks of turns.
    """

    def __init__(self, members: Sequence[MemberWrites], field: str, turns: range) -> None:
        self._members, self._field, self._turns = members, field, turns
        #: The places where the blocks end.
        self._ends: list[int] = []

    def __len__(self) -> int:
        while len(self._ends) * PAGE < len(self._turns):
            self._measured(len(self._ends))
        return self._ends[-1]

    def read(self, first: int, limit: int) -> list[Any]:
        found: list[Any] = []
        at = self._block_of(first)
        while len(found) < limit and at * PAGE < len(self._turns):
            block = self._measured(at)
            begin = first + len(found) - (self._ends[at - 1] if at else 0)
            found += block[begin : begin + limit - len(found)]
            at += 1
        return found

    def __iter__(self) -> Iterator[Any]:
        """Each block is read once."""
        for at in range(-(-len(self._turns) // PAGE)):
            yield from self._measured(at)

    def _block_of(self, place: int) -> int:
        while (not self._ends or self._ends[-1] <= place) and len(self._ends) * PAGE < len(self._turns):
            self._measured(len(self._ends))
        return bisect_right(self._ends, place)

    def _measured(self, at: int) -> list[Any]:
        """A block; notes where it ends, if the blocks before it are measured."""
        block = self._block(self._turns[at * PAGE : (at + 1) * PAGE])
        if at == len(self._ends):
            self._ends.append(len(block) + (self._ends[-1] if at else 0))
        return block

    def _block(self, turns: range) -> list[Any]:
        members = self._members
        done = [(member, turn) for turn in turns for member in members if member.outcome(turn) == GOOD]
        if not done:
            return []
        answers = members[0].values.answers([member.unit(turn) for member, turn in done])
        elements: list[Any] = []
        for (member, _), answer in zip(done, answers, strict=True):
            value = value_written(member.node, self._field, answer)
            elements += value if isinstance(value, list) else [value]
        return elements
