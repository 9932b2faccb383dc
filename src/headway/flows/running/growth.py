"""The growth of a flow's job: when units end, the units that follow are added in the same transaction.

The run of the flow is in memory. It is made from the records when a process starts, so a crash loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from headway.core.unit_states import GOOD, Status
from headway.errors import UsageError
from headway.flows.running.flow_run import FlowRun
from headway.flows.running.node_run import NextUnit, UnitEnd
from headway.flows.running.unit_requests import UnitRequests, answer_value
from headway.flows.spec import FlowSpec
from headway.stores.records import Job, NewUnit, StoredRoute, UnitResult
from headway.stores.store import Store

#: Answers may have megabytes each.
_PAGE: Final = 200
_BAD: Final = frozenset({Status.FAILED, Status.TIMED_OUT, Status.CANCELLED})


class FlowForm(msgspec.Struct, frozen=True, kw_only=True):
    """A flow as its job keeps it: the checked spec, the prompts, and what the user gave."""

    spec: FlowSpec
    prompts: dict[str, str] = {}
    inputs: dict[str, Any] = {}
    concurrency: int | None = None


def encode_form(form: FlowForm) -> dict[str, Any]:
    """As JSON values."""
    values: dict[str, Any] = msgspec.to_builtins(form, enc_hook=str)
    return values


def form_of(job: Job) -> FlowForm:
    """The flow of a job."""
    return msgspec.convert(job.form["flow"], FlowForm, dec_hook=lambda kind, value: kind(value))


def first_units(
    form: FlowForm, job: str, models: Mapping[str, tuple[str, str, str]], routes: list[StoredRoute]
) -> list[NewUnit]:
    """The units with which a flow begins."""
    run = FlowRun(form.spec, form.inputs, form.concurrency)
    return _made(run, UnitRequests(job, models, routes, form.prompts), run.advance())


def _made(run: FlowRun, requests: UnitRequests, units: Iterable[NextUnit]) -> list[NewUnit]:
    """The requests of units. A unit whose request cannot be made fails, and others may follow."""
    made: list[NewUnit] = []
    queue = list(units)
    while queue:
        unit = queue.pop(0)
        try:
            made.append(requests.new_unit(run.spec.nodes[unit.node], unit))
        except UsageError as error:
            queue += run.advance({unit.id: UnitEnd(error=error.message)})
    return made


class FlowGrowth:
    """What ends of units add to a job."""

    def __init__(self, job: Job) -> None:
        self._job, self._form = job, form_of(job)
        self._run: FlowRun | None = None

    def __call__(self, store: Store, ended: Sequence[int]) -> Sequence[NewUnit]:
        requests = UnitRequests(
            self._job.name, self._job.models, store.routes(self._job.id), self._form.prompts
        )
        if self._run is None:
            self._run = FlowRun(self._form.spec, self._form.inputs, self._form.concurrency)
            ends = recorded_ends(store, self._job, self._form.spec)
        else:
            ends = _ends_of(
                self._form.spec, (store.results(self._job.id, index - 1, 1)[0] for index in ended)
            )
        return _made(self._run, requests, self._run.advance(ends))


def recorded_ends(store: Store, job: Job, spec: FlowSpec) -> dict[str, UnitEnd]:
    """All ends that the records have."""
    ends: dict[str, UnitEnd] = {}
    after = -1
    while page := store.results(job.id, after, _PAGE):
        after = page[-1].index
        ends |= _ends_of(spec, page)
    return ends


def _ends_of(spec: FlowSpec, results: Iterable[UnitResult]) -> dict[str, UnitEnd]:
    ends: dict[str, UnitEnd] = {}
    for result in results:
        if result.status in GOOD:
            node = spec.nodes[node_of(result.custom_id)]
            answer = answer_value(node, result.body or b"null")
            ends[result.custom_id] = UnitEnd(answer=answer, cost_usd=result.cost_usd or 0.0)
        elif result.status in _BAD:
            error = result.message or result.code or result.status
            ends[result.custom_id] = UnitEnd(error=error, cost_usd=result.cost_usd or 0.0)
    return ends


def node_of(unit: str) -> str:
    """The node of a unit, by the unit's id: `review[3]`, `check#2`."""
    return unit.partition("[")[0].partition("#")[0]


def results_of(store: Store, job: Job) -> Mapping[str, Any]:
    """The content of the results file, as it is now."""
    form = form_of(job)
    run = FlowRun(form.spec, form.inputs, form.concurrency)
    requests = UnitRequests(job.name, job.models, store.routes(job.id), form.prompts)
    _made(run, requests, run.advance(recorded_ends(store, job, form.spec)))
    return {
        "job": job.name,
        "status": run.status,
        "state": run.state(),
        "nodes": {name: msgspec.to_builtins(report) for name, report in run.nodes().items()},
    }
