"""`headway cancel JOB UNIT…` and `headway retry JOB UNIT…` for a job that runs: units are cancelled, or run again, out of turn.

Both need the store: a unit may not be in memory. Each step that reads it follows the commit of what was decided before, so that no
unit is ended or started twice. A command begins when the one before it is done: a unit that is being brought back is in neither the
store's cursors nor in memory, and could not be cancelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from headway.core import events
from headway.core.model import Unit
from headway.core.scheduler import Scheduler
from headway.core.unit_states import ENDED
from headway.engine.recorder import Recorder
from headway.engine.units.unit_cursors import Fetched, StoreSource
from headway.stores.store import Store

#: At most this many units are named in a line.
MOST_NAMES: Final = 5

#: Reports the result of a command, which is then done.
Report = Callable[[str], None]
#: Called in the reader's thread when units run again; what it returns is called on the loop, before they start.
Reopened = Callable[[], Callable[[], None]]


class NamedUnits(msgspec.Struct, frozen=True):
    """The units that a command is about: their indexes and their ids."""

    units: list[int]
    names: list[str]


class UnitControl:
    """Cancels units and brings them back. `tell` takes events for the scheduler; `reopened` is called after the commit that brings
    units back."""

    def __init__(
        self,
        recorder: Recorder,
        scheduler: Scheduler,
        source: StoreSource,
        tell: Callable[..., None],
        reopened: Reopened,
    ) -> None:
        self._recorder, self._scheduler, self._source = recorder, scheduler, source
        self._tell, self._reopened = tell, reopened
        #: The command that is being carried out, and those that wait for its end.
        self._under_way: deque[Callable[[], None]] = deque()

    @property
    def is_busy(self) -> bool:
        """Whether units may be about to come back: the run must not end meanwhile."""
        return bool(self._under_way)

    def _begin(self, command: Callable[[], None]) -> None:
        """Carry out a command after those before it."""
        self._under_way.append(command)
        if len(self._under_way) == 1:
            command()

    def _end(self, *changes: events.Event) -> None:
        """Finish the first command with what it changes. It is no longer under way then: what it changes may end the run."""
        self._under_way.popleft()
        self._tell(*changes)

    def _begin_next(self) -> None:
        if self._under_way:
            self._under_way[0]()

    def cancel(self, args: dict[str, Any], report: Report) -> None:
        """Cancel units: one in flight is stopped, one that waits never starts, one that has ended stays as it is."""
        named = msgspec.convert(args, NamedUnits)
        indexes = list(dict.fromkeys(named.units))

        def withdrawn(fetched: Fetched[events.ExtraUnits]) -> None:
            self._source.unfetched = fetched.unfetched
            units = fetched.event.units
            unfetched = {unit.index for unit in units}
            known = unfetched | self._in_memory()
            wanted = [index for index in indexes if index in known]
            self._end(fetched.event, *map(events.CancelUnit, wanted))
            report(_text("cancel", named, wanted, "has ended before"))
            self._recorder.commit()
            self._begin_next()

        source, recorder = self._source, self._recorder
        read = partial(recorder.read, lambda store: source.withdraw(store, indexes), withdrawn)
        self._begin(lambda: self._after_commit(read))

    def retry(self, args: dict[str, Any], report: Report) -> None:
        """Run units again that have ended, also those that succeeded. One that waits or runs stays as it is."""
        named = msgspec.convert(args, NamedUnits)
        indexes = list(dict.fromkeys(named.units))

        def looked(states: dict[int, str]) -> None:
            known = self._in_memory()
            ended = [index for index in indexes if states.get(index) in ENDED and index not in known]
            report(_text("retry", named, ended, "waits or runs already"))
            self._recorder.batch.again += ended
            self._after_commit(lambda: bring(ended))

        def bring(ended: list[int]) -> None:
            def read(store: Store) -> tuple[Callable[[], None] | None, Sequence[Unit]]:
                return self._reopened() if ended else None, self._source.reopened(store, ended)

            self._recorder.read(read, brought)

        def brought(found: tuple[Callable[[], None] | None, Sequence[Unit]]) -> None:
            go_on, units = found
            if go_on is not None:
                go_on()
            self._end(events.ExtraUnits(units))
            self._begin_next()

        job, recorder = self._recorder.job, self._recorder
        read_states = partial(recorder.read, lambda store: store.states(job, indexes), looked)
        self._begin(lambda: self._after_commit(read_states))

    def _in_memory(self) -> set[int]:
        return {*self._scheduler.out, *(entry.unit.index for entry in self._scheduler.in_memory())}

    def _after_commit(self, act: Callable[[], None]) -> None:
        self._recorder.after_commit(act)
        self._recorder.hurry()
        self._recorder.commit()


def _text(what: str, named: NamedUnits, done: list[int], otherwise: str) -> str:
    """What was done, in one line: "retry row-3, row-4; row-5 waits or runs already"."""
    names = dict(zip(named.units, named.names, strict=False))
    rest = [index for index in names if index not in set(done)]
    parts = [f"{what} {_names(names, done)}"] if done else []
    parts += [f"{_names(names, rest)} {otherwise}"] if rest else []
    return "; ".join(parts)


def _names(names: dict[int, str], indexes: Sequence[int]) -> str:
    shown = ", ".join(names[index] for index in indexes[:MOST_NAMES])
    more = len(indexes) - MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
