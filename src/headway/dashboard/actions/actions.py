"""Which command each action is. Names go behind `--`, so that none is taken for a flag."""

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
from headway.jobs.kinds import kind_of
from headway.stores.records import Job
from headway.stores.store import Store


class ActionRequest(NamedTuple):
    """An action on a job or a lane. Reading uses `store`; the command opens the records itself."""

    place: RecordPlace
    store: Store
    name: str
    body: bytes

    def job(self) -> Job:
        """The job of the address."""
        return read_job(self.place, self.store, self.name).job

    def command(self, command: str, *names: str, flags: Sequence[str] = ()) -> str:
        """Carry out a command; returns what it printed."""
        return run_command([command, *flags, *self.place.flags, "--", *names])


Action = Callable[[ActionRequest], str]


def _pause(asked: ActionRequest) -> str:
    body_as(ActionBody, asked.body)
    return asked.command("pause", asked.job().name)


def _resume(asked: ActionRequest) -> str:
    """Un-pauses a job that runs, and otherwise starts it in the background."""
    body_as(ActionBody, asked.body)
    return asked.command("resume", asked.job().name, flags=("--detach",))


def _cancel(asked: ActionRequest) -> str:
    body, job = body_as(CancelBody, asked.body), asked.job()
    return asked.command("cancel", job.name, *_ids(asked, job, body.units))


def _retry(asked: ActionRequest) -> str:
    body, job = body_as(RetryBody, asked.body), asked.job()
    if body.failed == bool(body.units):
        raise BadRequest('the body has either "failed": true or "units": [index, …]')
    flags = ("--failed", "--detach") if body.failed else ("--detach",)
    return asked.command("retry", job.name, *_ids(asked, job, body.units), flags=flags)


def _budget(asked: ActionRequest) -> str:
    body, job = body_as(BudgetBody, asked.body), asked.job()
    return asked.command("budget", job.name, f"{body.max_cost_usd:.10g}")


def _approve(asked: ActionRequest) -> str:
    body, job = body_as(ApproveBody, asked.body), asked.job()
    flags = [f"--note={body.note}"] if body.note else []
    if body.reject:
        flags.append("--reject")
    elif body.answer is not msgspec.UNSET and body.answer is not None:
        text = body.answer if isinstance(body.answer, str) else msgspec.json.encode(body.answer).decode()
        flags.append(f"--answer={text}")
    return asked.command("approve", job.name, body.node, flags=flags)


def _limits(asked: ActionRequest) -> str:
    body = body_as(LimitsBody, asked.body)
    limits = {name: value for name, value in msgspec.to_builtins(body).items() if value is not None}
    if not limits:
        raise BadRequest("the body has no limit: rpm, tpm, input_tpm, output_tpm or max_concurrency")
    flags = [f"--{name.replace('_', '-')}={_lane(asked)}={value:.12g}" for name, value in limits.items()]
    return asked.command("lanes", flags=flags)


def _reopen(asked: ActionRequest) -> str:
    body_as(ActionBody, asked.body)
    return asked.command("lanes", flags=[f"--reopen={_lane(asked)}"])


def _lane(asked: ActionRequest) -> str:
    """The lane of the address. It must be one that is on record: a provider's name would mean all its lanes."""
    if asked.name not in {lane.name for lane in asked.store.lanes()}:
        raise BadRequest(f"there is no lane '{asked.name}' — the page of lanes lists them")
    return asked.name


def _ids(asked: ActionRequest, job: Job, indexes: Sequence[int]) -> list[str]:
    """The ids of units: an index could be the id of another unit."""
    kind_of(job)
    if len(indexes) > MOST_UNITS:
        raise BadRequest(f"an action takes at most {MOST_UNITS:,} units")
    if any(not 0 <= index < job.total for index in indexes):
        raise BadRequest(f"'units' are indexes below {job.total}")
    return [asked.store.custom_id(job.id, index) for index in indexes]


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
