"""`headway cancel JOB UNIT…` and `headway retry JOB UNIT…` for a job that runs: units are cancelled, or run again, out of turn.

Both need the store: a unit may not be in memory. Each step that reads it follows the commit of what was decided before, so that no
unit is ended or started twice.
"""

from __future__ import annotations

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
        self._open = 0
        #: Units that are being brought back: neither in memory yet, nor ended any more.
        self._coming: set[int] = set()

    @property
    def is_busy(self) -> bool:
        """Whether units may be about to come back: the run must not end meanwhile."""
        return self._open > 0

    def cancel(self, args: dict[str, Any], report: Report) -> None:
        """Cancel units: one in flight is stopped, one that waits never starts, one that has ended stays as it is."""
        named = msgspec.convert(args, NamedUnits)
        indexes = list(dict.fromkeys(named.units))
        self._open += 1

        def withdrawn(fetched: Fetched[events.ExtraUnits]) -> None:
            self._open -= 1
            self._source.unfetched = fetched.unfetched
            units = fetched.event.units
            unfetched = {unit.index for unit in units}
            known = unfetched | self._in_memory()
            wanted = [index for index in indexes if index in known]
            self._tell(fetched.event, *map(events.CancelUnit, wanted))
            report(_text("cancel", named, wanted, "has ended before"))
            self._recorder.commit()

        source = self._source
        self._after_commit(
            lambda: self._recorder.read(lambda store: source.withdraw(store, indexes), withdrawn)
        )

    def retry(self, args: dict[str, Any], report: Report) -> None:
        """Run units again that have ended, also those that succeeded. One that waits or runs stays as it is."""
        named = msgspec.convert(args, NamedUnits)
        indexes = list(dict.fromkeys(named.units))
        self._open += 1

        def looked(states: dict[int, str]) -> None:
            known = self._in_memory() | self._coming
            ended = [index for index in indexes if states.get(index) in ENDED and index not in known]
            self._coming.update(ended)
            report(_text("retry", named, ended, "waits or runs already"))
            self._recorder.batch.again += ended
            self._after_commit(lambda: bring(ended))

        def bring(ended: list[int]) -> None:
            def read(store: Store) -> tuple[Callable[[], None] | None, Sequence[Unit]]:
                return self._reopened() if ended else None, self._source.reopened(store, ended)

            self._recorder.read(read, partial(brought, ended))

        def brought(ended: list[int], found: tuple[Callable[[], None] | None, Sequence[Unit]]) -> None:
            go_on, units = found
            if go_on is not None:
                go_on()
            self._open -= 1
            self._coming.difference_update(ended)
            self._tell(events.ExtraUnits(units))

        job = self._recorder.job
        self._after_commit(lambda: self._recorder.read(lambda store: store.states(job, indexes), looked))

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
