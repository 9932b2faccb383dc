"""Which command each action is: the functions of `wiring.steering`, which the commands call too, and for a run in the background the command
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from headway.dashboard.actions.action_body import (
    MOST_UNITS,
    ActionBody,
    ApproveBody,
    BudgetBody,
    CancelBody,
    LimitsBody,
    RetryBody,
    body_as,
)
from headway.dashboard.actions.command_process import run_command
from headway.dashboard.answers.query import BadRequest
from headway.dashboard.records.job_reading import RecordPlace, read_job
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.steering.budgets import set_budget
from headway.wiring.steering.control_requests import ask, is_live, must_be_live
from headway.wiring.steering.lane_requests import send_requests
from headway.wiring.store_access import open_store

#: The largest budget and the largest limit, as in the commands.
MOST: Final = 1e12


class ActionRequest(NamedTuple):
    """An action on a job or a lane. `store` can only be read; what an action writes, it writes as its command does."""

    place: RecordPlace
    store: Store
    name: str
    body: bytes

    def job(self) -> Job:
        """The job of the address."""
        return read_job(self.place, self.store, self.name).job

    def command(self, command: str, *names: str, flags: Sequence[str] = ()) -> str:
        """Carry out a command that may start a run; returns what it printed. Names go behind `--`, so that none is taken for a flag."""
        where, db = list(self.place.flags), ""
        if "--db" in where:  # Its address may have a password, which is shown in no list of processes.
            at, db = where.index("--db"), self.place.config.db
            del where[at : at + 2]
        return run_command([command, *flags, *where, "--", *names], db)


Action = Callable[[ActionRequest], str]


def _pause(asked: ActionRequest) -> str:
    body_as(ActionBody, asked.body)
    return _ask(asked, asked.job(), "pause")


def _resume(asked: ActionRequest) -> str:
    """Un-pauses a job that runs, and otherwise starts it in the background."""
    body_as(ActionBody, asked.body)
    job, config = asked.job(), asked.place.config
    if is_live(config, job):
        with open_store(config) as store:
            done = ask(config, store, job, "resume")
        if done.taken or is_live(config, job):  # Otherwise its process has just ended.
            return "\n".join(done.lines())
    return asked.command("resume", job.name, flags=("--detach",))


def _cancel(asked: ActionRequest) -> str:
    body, job = body_as(CancelBody, asked.body), asked.job()
    return _ask(asked, job, "cancel", _checked(job, body.units))


def _ask(asked: ActionRequest, job: Job, what: str, units: Sequence[int] = ()) -> str:
    """Ask the process that runs a job."""
    config = asked.place.config
    with open_store(config) as store:
        must_be_live(config, job)
        return "\n".join(ask(config, store, job, what, units).lines())


def _retry(asked: ActionRequest) -> str:
    """Asks the process of the job, or starts one in the background."""
    body, job = body_as(RetryBody, asked.body), asked.job()
    if body.failed == bool(body.units):
        raise BadRequest('the body has either "failed": true or "units": [index, …]')
    flags = ("--failed", "--detach") if body.failed else ("--detach",)
    # By their ids: an index could be the id of another unit.
    ids = [asked.store.custom_id(job.id, index) for index in _checked(job, body.units)]
    return asked.command("retry", job.name, *ids, flags=flags)


def _checked(job: Job, indexes: Sequence[int]) -> Sequence[int]:
    """Indexes of units of the job."""
    if len(indexes) > MOST_UNITS:
        raise BadRequest(f"an action takes at most {MOST_UNITS:,} units")
    if any(not 0 <= index < job.total for index in indexes):
        raise BadRequest(f"'units' are indexes below {job.total}")
    return indexes


def _budget(asked: ActionRequest) -> str:
    body, job = body_as(BudgetBody, asked.body), asked.job()
    if not 0.0 <= body.max_cost_usd <= MOST:
        raise BadRequest("'max_cost_usd' is an amount of USD; 0 removes the cap")
    with open_store(asked.place.config) as store:
        return set_budget(asked.place.config, store, job, body.max_cost_usd).text()


def _approve(asked: ActionRequest) -> str:
    body, job = body_as(ApproveBody, asked.body), asked.job()
    if job.kind != "flow":
        raise BadRequest(f"job {job.name} is no flow: it has no human steps")
    answer: str | None = None
    if body.answer is not msgspec.UNSET and body.answer is not None and not body.reject:
        answer = body.answer if isinstance(body.answer, str) else msgspec.json.encode(body.answer).decode()
    with open_store(asked.place.config) as store:
        from headway.wiring.steering.approving import GivenAnswer, answer_node  # Only for flows.

        given = GivenAnswer(body.node, answer, body.reject, body.note)
        return answer_node(asked.place.config, store, job, given).text()


def _limits(asked: ActionRequest) -> str:
    body = body_as(LimitsBody, asked.body)
    limits = {name: value for name, value in msgspec.to_builtins(body).items() if value is not None}
    if not limits:
        raise BadRequest("the body has no limit: rpm, tpm, input_tpm, output_tpm or max_concurrency")
    if not all(0.0 <= value <= MOST for value in limits.values()):
        raise BadRequest(f"a limit is a number from 0 (unlimited) to {MOST:,.0f}")
    return _tell_lane(asked, {_lane(asked): limits}, [])


def _reopen(asked: ActionRequest) -> str:
    body_as(ActionBody, asked.body)
    return _tell_lane(asked, {}, [_lane(asked)])


def _tell_lane(asked: ActionRequest, limits: dict[str, dict[str, float]], reopen: Sequence[str]) -> str:
    return "\n".join(map(str, send_requests(asked.place.config, limits, reopen)))


def _lane(asked: ActionRequest) -> str:
    """The lane of the address. It must be one that is on record: a provider's name would mean all its lanes."""
    if asked.name not in {lane.name for lane in asked.store.lanes()}:
        raise BadRequest(f"there is no lane '{asked.name}' — the page of lanes lists them")
    return asked.name


ACTIONS: Final[dict[str, Action]] = {
    "/api/jobs/{name}/pause": _pause,
    "/api/jobs/{name}/resume": _resume,
    "/api/jobs/{name}/cancel": _cancel,
    "/api/jobs/{name}/retry": _retry,
    "/api/jobs/{name}/budget": _budget,
    "/api/jobs/{name}/approve": _approve,
    "/api/lanes/{name:path}/limits": _limits,
    "/api/lanes/{name:path}/reopen": _reopen,
}
