"""An engine that waits for jobs: it takes those that it can run, each in a process of its own, up to a number at a time.

It is woken by the database, and looks by itself every few seconds for jobs whose process has died. Before it starts a process it claims the job,
so that of many engines one does. The claim is only a courtesy: the lease of the job decides who runs it. A job that cannot run here is left
to others and looked at again after a while; so is one whose process fails.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from headway.config import Config
from headway.errors import HeadwayError, StoreAway
from headway.stores.job_lock import JobPlaces
from headway.stores.records import Job
from headway.stores.store import Store
from headway.stores.submissions import may_take
from headway.wiring.serving.job_process import JobProcess
from headway.wiring.serving.suitability import why_not_here

#: How often it looks at its processes, and whether the database has said anything.
LOOK_S: Final = 0.2
#: How many waiting jobs a full engine looks at. Each is some questions to the database, and there may be thousands.
MOST_WAITING: Final = 20
#: How long a process may take until its run begins. Then another engine may try.
CLAIM_S: Final = 10.0
#: When a job is tried again that cannot run here, or whose process failed: the wait doubles up to the most.
AGAIN_S: Final = 30.0
FIRST_WAIT_S: Final = 2.0
MOST_WAIT_S: Final = 300.0
#: The exit codes of a run that the settings here do not allow, and of one that was interrupted.
NOT_HERE: Final = 2
INTERRUPTED: Final = 130


class EngineEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that the engine has done or found. `what`: took, ended, left, failed, away, back, stopping, stopped."""

    at_utc: float
    what: str
    job: str = ""
    text: str = ""
    state: str = ""
    pid: int = 0
    succeeded: int = 0
    total: int = 0


class _Waiting(msgspec.Struct):
    """A job that is not tried before an instant of this machine's clock, and why."""

    until: float
    reason: str = ""
    failures: int = 0
    ended: int = -1


class Dispatcher:
    """One engine. `tell` gets its events. It belongs to one thread."""

    def __init__(
        self,
        place: tuple[Config, Store, JobPlaces],
        most: int,
        tell: Callable[[EngineEvent], None],
        flags: Sequence[str] = (),
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._config, self._store, self._places = place
        self._most, self._tell_event, self._flags, self._environ = most, tell, flags, environ
        self.running: dict[int, JobProcess] = {}
        #: Jobs that wait for an engine, as far as it was seen.
        self.waiting: list[str] = []
        #: Job → why it cannot run here.
        self.left: dict[str, str] = {}
        #: How many more may wait: a full engine looks at some only.
        self.more_waiting = 0
        self._later: dict[int, _Waiting] = {}
        #: When the next of them is to be tried again.
        self._due_at = math.inf
        self._is_away = self._look_again = False
        self.is_stopping = False

    def step(self) -> None:
        """Look at the processes, and take jobs if there may be some. Returns at once."""
        try:
            self._reap()
            if not self.is_stopping and self._has_reason():
                self._take_jobs()
            if self._is_away:
                self._is_away = False
                self._tell("back", text="the database is back")
        except StoreAway as error:
            self._look_again = True
            if not self._is_away:
                self._is_away = True
                self._tell("away", text=f"{error.message}; no job is taken until it is back")

    def stop(self) -> None:
        """Take no more jobs. Once: what is in flight finishes; twice: it is cancelled. Other engines may take the jobs."""
        self.is_stopping = True
        for process in self.running.values():
            process.interrupt()

    def close(self) -> None:
        """Forget the processes. Those that still run end by themselves."""
        for process in self.running.values():
            process.close()
        self.running.clear()

    # -- taking ------------------------------------------------------------------------------------------------------

    def _has_reason(self) -> bool:
        heard = self._store.submissions.heard()
        due = time.monotonic() >= self._due_at
        again, self._look_again = self._look_again, False
        return heard or due or again

    def _take_jobs(self) -> None:
        """Take what this engine can run, the oldest first."""
        open_jobs, now = self._store.submissions.open(), time.monotonic()
        self._later = {number: one for number, one in self._later.items() if number in open_jobs}
        self._due_at = min((one.until for one in self._later.values() if one.until > now), default=math.inf)
        chosen = [
            number for number in open_jobs if number not in self.running and not self._is_later(number, now)
        ]
        self.waiting, self.more_waiting = [], 0
        for place, number in enumerate(chosen):
            if len(self.waiting) >= MOST_WAITING:
                self.more_waiting = len(chosen) - place
                break
            job = self._suitable(number, wanted=open_jobs[number])
            if job is None:
                continue
            if len(self.running) >= self._most:
                self.waiting.append(job.name)
            elif self._store.submissions.claim(number, CLAIM_S):
                self._start(job)
        self.left = {name: reason for name, reason in self.left.items() if self._is_left(name)}

    def _suitable(self, number: int, *, wanted: bool) -> Job | None:
        """A job that this engine can run, and that no process runs."""
        try:
            job = self._store.job_by_id(number)
            if job is None or not may_take(job, wanted=wanted) or self._places.is_live(job.name):
                return None
            reason = why_not_here(self._config, self._store, job, self._environ)
        except HeadwayError:
            raise
        except (
            Exception
        ) as error:  # Another version or program has written what this one cannot read: that costs one job.
            self._leave(number, f"number {number}", f"its records cannot be read: {error}")
            return None
        if reason:
            self._leave(number, job.name, reason, job)
        return None if reason else job

    def _is_later(self, number: int, now: float) -> bool:
        """Whether a job is not to be tried yet."""
        later = self._later.get(number)
        return later is not None and later.until > now

    def _not_for(self, later: _Waiting, seconds: float) -> None:
        later.until = time.monotonic() + seconds
        self._due_at = min(self._due_at, later.until)

    def _is_left(self, name: str) -> bool:
        return any(one.reason and one.reason == self.left.get(name) for one in self._later.values())

    def _start(self, job: Job) -> None:
        self.left.pop(job.name, None)
        process = self.running[job.id] = JobProcess(self._config, job, self._flags)
        self._tell("took", job, pid=process.pid)

    def _leave(self, number: int, name: str, reason: str, job: Job | None = None) -> None:
        """Leave a job to other engines, and say so once."""
        later = self._later.setdefault(number, _Waiting(0.0))
        self._not_for(later, AGAIN_S)
        if later.reason != reason:
            later.reason = self.left[name] = reason
            good, total = (0, 0) if job is None else (job.good, job.total)
            self._tell_event(EngineEvent(time.time(), "left", name, reason, succeeded=good, total=total))

    # -- ends --------------------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        for number, process in list(self.running.items()):
            code = process.exit_code()
            if code is None:
                continue
            job = self._store.job_by_id(number) or process.job
            self._note_end(job, process, code)
            process.close()
            del self.running[number]
            self._look_again = True

    def _note_end(self, job: Job, process: JobProcess, code: int) -> None:
        """A job that has ended is done with. One that could go on waits a little, longer each time that nothing has come of it."""
        wanted = self._store.submissions.open().get(job.id)
        goes_on = wanted is not None and may_take(job, wanted=wanted)
        if goes_on and self._places.is_live(job.name):
            self._tell("failed", job, text=process.error() or "another engine has it now")
        elif goes_on and code == NOT_HERE:
            self._leave(job.id, job.name, process.error(), job)
        elif goes_on and not (self.is_stopping and code == INTERRUPTED):
            self._wait(job, code, process.error())
        else:
            self._later.pop(job.id, None)
            self._tell("ended", job, state=job.state)

    def _wait(self, job: Job, code: int, error: str) -> None:
        later = self._later.setdefault(job.id, _Waiting(0.0))
        later.failures = 1 if job.ended > later.ended else later.failures + 1
        later.ended = job.ended
        wait_s = min(FIRST_WAIT_S * 2.0 ** (later.failures - 1), MOST_WAIT_S)
        self._not_for(later, wait_s)
        how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
        why = f": {error}" if error else ""
        self._tell("failed", job, text=f"its process {how}{why}; tried again in {wait_s:.0f} s")

    def _tell(
        self, what: str, job: Job | None = None, *, text: str = "", state: str = "", pid: int = 0
    ) -> None:
        name, good, total = ("", 0, 0) if job is None else (job.name, job.good, job.total)
        self._tell_event(EngineEvent(time.time(), what, name, text, state, pid, good, total))
