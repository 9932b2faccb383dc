"""A kind of job that waits for the user: a .gate file has a unit for each line, and one more that needs an approval.

The approval is a value of the job (`approve`). Until it is there, the job parks when its other units have ended. A line "mute" fails;
one failure is tolerated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from tests.jobs.lines_kind import AnswersFile, LinesKind, LinesSource

from headway.engine.run_spec import RouteAnswerCheck
from headway.jobs.base import JobOutput, JobSource, OutputOptions
from headway.providers.adapter import Answer, Complaint, Request
from headway.stores.records import Job, NewUnit, State, StoredRoute
from headway.stores.store import Store
from headway.stores.write_batch import Grow

APPROVALS = "approvals"


def grown(job: Job, store: Store, ended: Sequence[int]) -> list[NewUnit]:
    if not store.count_values(job.id, APPROVALS) or store.first_unended(job.id) is not None:
        return []
    return [NewUnit("approved", store.routes(job.id)[0].id, "line", b'"approved"', 10)]


def checked(route: int, request: Request, answer: Answer) -> Answer:
    if b"mute" not in request.body:
        return answer
    return msgspec.structs.replace(answer, complaint=Complaint("it is mute"))


class GateOutput(AnswersFile):
    """The job has more units at its end than it had at the start."""

    def finish(self) -> None:
        with self._open_store() as store:
            job = store.job(self._job.name)
            assert job is not None
            self._path.write_bytes(b"".join(GATE.rows(store, job, 0, job.total - 1)))


class GateKind(LinesKind):
    name = "gate"

    def reads(self, path: str) -> bool:
        return path.endswith(".gate")

    def open(self, path: str, stdin: BinaryIO | None, flags: Any) -> JobSource:
        source = super().open(path, stdin, flags)
        assert isinstance(source, LinesSource)
        return msgspec.structs.replace(source, kind=self.name)

    def output(self, open_store: Callable[[], Store], job: Job, options: OutputOptions) -> JobOutput:
        return GateOutput(open_store, job, Path(options.path))

    def claim_output(
        self, options: OutputOptions, job: str, *, store: Store | None = None, make: bool = True
    ) -> None:
        """Any file may be replaced."""

    def growth(self, job: Job) -> Grow:
        return partial(grown, job)

    def route_check(self, job: Job, routes: Sequence[StoredRoute]) -> RouteAnswerCheck:
        return checked

    def stays_ended(self, store: Store, job: Job) -> Collection[int]:
        bad = [end.index for end in store.unit_ends(job.id, -1, 1_000) if end.status == "failed"]
        return bad if len(bad) == 1 else ()

    def end_state(self, store: Store, job: Job, state: State) -> State:
        if state not in ("complete", "failed") or job.ended - job.good > 1:
            return state
        return "complete" if store.index_of(job.id, "approved") is not None else "parked"

    def next_step(self, job: Job, state: str, command: Callable[[], str]) -> str:
        if state == "parked":
            return f"waits for an approval; then: {command()}"
        return super().next_step(job, state, command)


GATE = GateKind()
