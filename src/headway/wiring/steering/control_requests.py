"""Commands to a job that another process runs: written to the store, where that process finds them within 250 ms."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from headway.config import Config
from headway.core.unit_states import ENDED
from headway.errors import UsageError
from headway.jobs.kinds import must_take_commands
from headway.reports.units import find_unit
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.store_access import job_places

#: How long the process of a job may take to answer. It looks five times a second, unless its machine is very busy.
PATIENCE_S: Final = 5.0
STEP_S: Final = 0.02
#: At most this many units are named in a line.
MOST_NAMES: Final = 5

_EFFECTS: Final = {"pause": ": units in flight finish, no more start"}


class Asked(msgspec.Struct, frozen=True):
    """A command that was given to a job. `taken`: its process has carried it out."""

    job: str
    what: str
    units: Sequence[str] = ()
    taken: bool = True
    #: Named units that wait or run already.
    open_units: Sequence[str] = ()

    def fields(self) -> dict[str, Any]:
        """It as JSON."""
        units = {"units": list(self.units)} if self.units or self.open_units else {}
        already = {"already_open": list(self.open_units)} if self.open_units else {}
        return {"job": self.job, "asked": self.what, **units, **already}

    def lines(self) -> list[str]:
        """It for people."""
        lines: list[str] = []
        if self.open_units:
            verbs = "waits or runs" if len(self.open_units) == 1 else "wait or run"
            lines.append(f"{_names(self.open_units)} {verbs} already in job {self.job}")
            if not self.units:
                return lines
        what = f" {_names(self.units)}" if self.units else _EFFECTS.get(self.what, "")
        late = "" if self.taken else " (it has not answered yet)"
        return [*lines, f"asked job {self.job} to {self.what}{what}{late}"]


def is_live(config: Config, job: Job) -> bool:
    """Whether a process runs the job."""
    return job_places(config).is_live(job.name)


def must_be_live(config: Config, job: Job) -> None:
    """Raise if no process runs the job."""
    if not is_live(config, job):
        raise UsageError(
            f"job '{job.name}' is not running", hint="'headway jobs' lists the jobs and their states"
        )


def ask_running(config: Config, store: Store, job: Job, what: str, units: Sequence[str] = ()) -> Asked:
    """Ask a running job to pause or to cancel, or to cancel some units (ids or indexes); raises if it does not run. A job that waits for an
    engine is cancelled at once.
    """
    if what == "cancel" and not units and not is_live(config, job) and job.id in store.submissions.open():
        store.submissions.withdraw(job.id, time.time())
        if not is_live(config, job):  # Otherwise an engine has just taken it.
            return Asked(job.name, what)
    if not is_live(config, job) and job.id in store.submissions.open():
        raise UsageError(
            f"job '{job.name}' waits for an engine", hint=f"'headway cancel {job.name}' takes it back"
        )
    must_be_live(config, job)
    return ask(config, store, job, what, indexes_of(store, job, units))


def _names(units: Sequence[str]) -> str:
    more = len(units) - MOST_NAMES
    return ", ".join(units[:MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def indexes_of(store: Store, job: Job, units: Sequence[str]) -> list[int]:
    """The indexes of units that the user named, each once."""
    return list(dict.fromkeys(find_unit(store, job, unit) for unit in units))


def ask(config: Config, store: Store, job: Job, what: str, indexes: Sequence[int] = ()) -> Asked:
    """Give a command to the process of a job, and wait until it has answered."""
    must_take_commands(job)
    states = store.states(job.id, indexes) if what == "retry" else {}
    open_ones = [index for index, status in states.items() if status not in ENDED]
    already = _ids(store, job, open_ones)
    if already and len(already) == len(indexes):
        return Asked(job.name, what, open_units=already)
    indexes = [index for index in indexes if index not in open_ones]
    names = _ids(store, job, indexes)
    args = {"units": list(indexes), "names": names} if indexes else {}
    command = store.add_command(job.id, f"{what}_units" if indexes else what, args, time.time())
    taken = wait(lambda: store.is_done(command), lambda: is_live(config, job))
    return Asked(job.name, what, names, taken, already)


def _ids(store: Store, job: Job, indexes: Sequence[int]) -> list[str]:
    return [store.results(job.id, index - 1, 1)[0].custom_id for index in indexes]


def wait(is_done: Callable[[], bool], is_live: Callable[[], bool]) -> bool:
    """Wait for a command. False: its process has ended, or takes too long."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not is_done():
        if time.monotonic() > give_up_at or not is_live():
            return is_done()
        time.sleep(STEP_S)
    return True
