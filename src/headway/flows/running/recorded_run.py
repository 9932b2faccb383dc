"""A run of a flow that follows the records of its job: rebuilt from them, and told what is new in them.

What it knows comes from the job's form, its values and the ends of its units, in pages and without answers. Besides the approvals, two
lists of values belong to it:

- `unmade`: units whose request could not be made, `{"unit", "error"}`. They are no units of the job, and have failed.
- `looked`: how many approvals the run had taken in when it was last looked at, in the transaction that recorded what follows from
  them. What a rebuild repeats from before makes no events a second time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from headway.core.unit_states import GOOD, Status
from headway.flows.running.flow_form import concurrency_of, form_of
from headway.flows.running.flow_run import FlowRun
from headway.flows.running.node_choice import wanted_nodes
from headway.flows.running.node_run import UnitEnd
from headway.flows.running.stored_values import APPROVALS, Approval, StoredValues, UnreadableValue
from headway.stores.records import Job, UnitEndRow
from headway.stores.store import Store

UNMADE: Final = "unmade"
LOOKED: Final = "looked"
#: Units that are read at once.
_PAGE: Final = 5_000
BAD: Final = frozenset({Status.FAILED, Status.TIMED_OUT, Status.CANCELLED})
_SUCCESS: Final = UnitEnd()
_NONE: Final[Mapping[str, str]] = {}


class _Unmade(msgspec.Struct, frozen=True, array_like=True):
    unit: str
    error: str
    #: Whether it has an answer, which cannot be read.
    is_unreadable: bool = False


class RecordedRun:
    """The run of one job. `use` gives it the store of the thread that works with it."""

    def __init__(self, store: Store, job: Job, unreadable: Mapping[str, str] = _NONE) -> None:
        form = form_of(job)
        self._job = job.id
        self.values = StoredValues(store, job.id, form.spec)
        only = wanted_nodes(job, form.spec)
        self.run = FlowRun(form.spec, form.inputs, self.values, concurrency_of(job), only)
        self._approvals = self._unmade = 0
        #: Units that have failed whatever their records say: their answer cannot be read.
        self._failed: set[str] = set(unreadable)
        self._unreadable = unreadable
        #: Units that the user approved after a rejection: when the run is rebuilt, their rejections count no more.
        self._approved: frozenset[str] = frozenset()
        self._unanswered: Collection[str] = ()
        #: The units whose ends were taken in by `rebuild`: one byte each.
        self._known = bytearray()
        #: Whether an earlier process has looked at the run.
        self.was_looked_at = False

    def use(self, store: Store) -> None:
        """Read from this store from now on."""
        self.values.store = store

    # -- from the records ---------------------------------------------------------------------------------------------

    def rebuild(self, without: str = "", unanswered: Collection[str] = ()) -> None:
        """Take in everything that is recorded. Only what no earlier process has looked at makes events. `without`: an execution of a node whose
        units are left out, as if it had just begun. `unanswered`: units whose approvals are left out, as if they still waited.
        """
        self._unanswered = unanswered
        store, run = self.values.store, self.run
        self._approved = frozenset(one.unit for one in self.values.approvals(0) if one.approved)
        looked = store.values(self._job, LOOKED, 0, 1)
        self.was_looked_at = bool(looked)
        run.make_events(not looked)
        self._take_approvals(msgspec.json.decode(looked[0]) if looked else 0)
        run.take({unit: UnitEnd(error) for unit, error in self._unreadable.items()})
        for value in store.values(self._job, UNMADE, 0, -1):
            one = msgspec.json.decode(value, type=_Unmade)
            run.take({one.unit: UnitEnd(one.error)})
            if one.is_unreadable:
                self._failed.add(one.unit)
            self._unmade += 1
        self._known = bytearray(store.last_index(self._job) + 1)
        after = -1
        while page := store.unit_ends(self._job, after, _PAGE):
            after = page[-1].index
            rows = (row for row in page if not without or not _is_of(row.custom_id, without))
            run.take(_ends_of(row for row in rows if row.custom_id not in self._failed))
            for row in page:
                self._known[row.index] = 1
        run.settle()
        run.make_events(True)

    def take_news(self, ended: Sequence[int]) -> None:
        """Take in the ends of these units, and new approvals."""
        if news := [index for index in ended if not self._was_known(index)]:
            rows = self.values.store.unit_ends_among(self._job, news)
            self.run.take(_ends_of(row for row in rows if row.custom_id not in self._failed))
        self._take_approvals(None)

    def _was_known(self, index: int) -> bool:
        """Whether the end of a unit was taken in by `rebuild`; true once: the unit may end again."""
        if index >= len(self._known) or not self._known[index]:
            return False
        self._known[index] = 0
        return True

    def _take_approvals(self, most: int | None) -> None:
        limit = -1 if most is None else most - self._approvals
        for one in self.values.approvals(self._approvals, limit):
            self._approvals += 1
            if one.unit not in self._unanswered and (one.approved or one.unit not in self._approved):
                self.run.take({one.unit: _end_of_approval(one)})

    # -- into the records -----------------------------------------------------------------------------------------------

    def fail_unmade(self, unit: str, error: str) -> None:
        """Record that the request of a unit cannot be made: the unit has failed."""
        value = msgspec.json.encode(_Unmade(unit, error))
        self.values.store.set_value(self._job, UNMADE, self._unmade, value)
        self._unmade += 1
        self.run.take({unit: UnitEnd(error)})

    def note_look(self) -> None:
        """Record that what follows from the approvals so far is recorded."""
        self.was_looked_at = True
        self.values.store.set_value(self._job, LOOKED, 0, msgspec.json.encode(self._approvals))


def note_unreadable(store: Store, job: int, error: UnreadableValue) -> None:
    """Record that a unit has failed, because its answer cannot be read."""
    value = msgspec.json.encode(_Unmade(error.unit, error.message, True))
    store.add_values(job, UNMADE, store.count_values(job, UNMADE), [value])


def rebuilt_run(store: Store, job: Job, unanswered: Collection[str] = ()) -> FlowRun:
    """The run of a job as its records have it now. Nothing is changed or handed out. The units `unanswered` still wait."""
    unreadable: dict[str, str] = {}
    while True:
        recorded = RecordedRun(store, job, unreadable)
        try:
            recorded.rebuild(unanswered=unanswered)
            recorded.take_news(())
            recorded.run.settle()
        except UnreadableValue as error:
            if error.unit in unreadable:
                raise
            unreadable[error.unit] = error.message
        else:
            return recorded.run


def is_done(store: Store, job: Job) -> bool:
    """Whether everything that follows from the approvals so far has ended."""
    looked = store.values(job.id, LOOKED, 0, 1)
    seen = msgspec.json.decode(looked[0]) if looked else 0
    return job.ended == job.total and seen >= store.count_values(job.id, APPROVALS)


def tolerated_failures(store: Store, job: Job) -> list[int]:
    """The units (by index) that failed within a tolerance: a node that succeeded all the same has them, and later steps have built upon
    that. They stay ended when the job is resumed.
    """
    if job.ended == job.good:
        return []
    run, found, after = rebuilt_run(store, job), list[int](), -1
    while page := store.unit_ends(job.id, after, _PAGE):
        after = page[-1].index
        found += [row.index for row in page if row.status in BAD and run.stays_ended(row.custom_id)]
    return found


def built_upon(store: Store, job: Job) -> list[str]:
    """The units of a job whose run has ended that failed and stay so, because others have used what was written without them, if nothing
    else is left to run again; empty if anything is.
    """
    if job.state != "failed" or not job.has_failures:
        return []
    run, found, after = rebuilt_run(store, job), list[str](), -1
    while page := store.unit_ends(job.id, after, _PAGE):
        after = page[-1].index
        failed = [row.custom_id for row in page if row.status in BAD]
        if any(not run.stays_ended(unit) for unit in failed):
            return []
        found += [unit for unit in failed if run.is_built_upon(unit)]
    return found


def _is_of(unit: str, execution: str) -> bool:
    return unit == execution or (unit.startswith(f"{execution}[") and "/" not in unit[len(execution) :])


def _end_of_approval(one: Approval) -> UnitEnd:
    return UnitEnd() if one.approved else UnitEnd(one.note or "rejected")


def _ends_of(rows: Iterable[UnitEndRow]) -> dict[str, UnitEnd]:
    ends: dict[str, UnitEnd] = {}
    for row in rows:
        if row.status in GOOD:
            ends[row.custom_id] = UnitEnd("", row.cost_usd) if row.cost_usd else _SUCCESS
        elif row.status in BAD:
            ends[row.custom_id] = UnitEnd(row.message or row.code or row.status, row.cost_usd or 0.0)
    return ends
