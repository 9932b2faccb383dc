"""`headway.Flow`: a graph of work from decorated functions, which can be run here, or written as a flow file.

A run is a job, like `headway run flow.yaml`: with `db=`, the same flow with the same inputs continues where it stopped, and the commands
(`headway status`, `show`, `approve`) know it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, TypedDict, Unpack

import msgspec

from headway.api.asking.frame_in_program import run_to_end
from headway.api.call_errors import python_hints
from headway.config import Config, load, with_overrides
from headway.config.argument_checks import path_of
from headway.config.call_settings import Duration
from headway.errors import UsageError
from headway.executors.entry_point import GUARD
from headway.executors.worker_main import running_unit
from headway.flows.python_flow import FlowBuilder
from headway.flows.running.intake.flow_inputs import checked_inputs
from headway.flows.running.intake.flow_source import source_of, with_named_agents
from headway.flows.running.outputs.results import results_json
from headway.jobs.base import IngestOptions
from headway.wiring.flows.flow_job import flow_job, flow_plan
from headway.wiring.store_access import open_store

#: Settings of `[run]` that a call may override.
_RUN: Final = ("max_attempts", "timeout", "max_duration", "max_cost")


class FlowArguments(TypedDict, total=False):
    """The keyword arguments of `Flow.run`, besides the state.

    db: a database that keeps the job, so that a run that was killed continues where it stopped. Default: a temporary one.
    config: another file than the nearest headway.toml.
    name: the name of a new job.
    fresh: start over, even if this was run before.
    concurrency: nodes at a time, instead of the flow's; 0: the lanes decide.
    max_attempts, timeout, max_duration, max_cost: as in [run] of headway.toml.
    progress: a bar; None: on a terminal or in a notebook.
    """

    db: str | PathLike[str] | None
    config: str | PathLike[str] | None
    name: str
    fresh: bool
    concurrency: int | None
    max_attempts: int
    timeout: Duration
    max_duration: Duration
    max_cost: float
    progress: bool | None


class FlowNodeResult(msgspec.Struct, frozen=True, kw_only=True):
    """A node in the results."""

    status: str
    reason: str = ""
    units: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    cost_usd: float = 0.0


class FlowResult(msgspec.Struct, frozen=True):
    """What `FLOW.results.json` has. `status`: "success", "partial", "failed"; "waiting" for an approval; "running" if it was stopped."""

    job: str
    status: Literal["success", "partial", "failed", "waiting", "running"]
    state: dict[str, Any]
    nodes: dict[str, FlowNodeResult]


class Flow(FlowBuilder):
    """A graph of work. Arguments have the names and values of a flow file; relative paths begin at `folder`.

    >>> import headway
    >>> flow = headway.Flow("approval")
    >>> flow.add("approve", "human", writes="approved")
    >>> flow.spec().step_order
    ('approve',)
    """

    def run(self, state: Mapping[str, Any] | None = None, **choices: Unpack[FlowArguments]) -> FlowResult:
        """Run the flow with these values of its state, and return its results. Failures are in them; an error is raised only for what
        keeps the flow from running.

        >>> flow.run({"diff": "+1"}, db="flows.db").state["findings"]  # doctest: +SKIP
        """
        for name in sorted(set(choices) - FlowArguments.__annotations__.keys()):
            known = ", ".join(sorted(("state", *FlowArguments.__annotations__)))
            raise TypeError(f"there is no argument '{name}': {known}")
        if running_unit():
            raise UsageError("a tool of a flow was about to run a flow", hint=GUARD)
        spec = self.spec()
        source = source_of(spec, checked_inputs(spec, state or {}))
        options = IngestOptions(fresh=choices.get("fresh", False), name=choices.get("name", ""))
        with python_hints("db"), _settings(choices) as loaded:
            config = with_named_agents(loaded, spec)
            with flow_job(config, source, options) as (store, job):
                if job.state != "complete":
                    plan = flow_plan(config, store, job, choices.get("concurrency"))
                    with _continued_by_the_same_call(lasting=choices.get("db") is not None):
                        run_to_end(lambda: open_store(config), plan, choices.get("progress"))
                found = b"".join(results_json(store, store.job(job.name) or job))
        return msgspec.json.decode(found, type=FlowResult)


@contextmanager
def _continued_by_the_same_call(*, lasting: bool) -> Iterator[None]:
    """Say after Ctrl-C, as the last line of the traceback, how to go on."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        stopped.add_note(
            "run the program again to continue: what has finished is kept"
            if lasting
            else "with db= the program would continue where it stopped; without it a new run begins at the start"
        )
        raise


@contextmanager
def _settings(choices: FlowArguments) -> Iterator[Config]:
    """The settings of the run, with a database that lasts as long as the run if none is named."""
    path = path_of(choices.get("config"), "config")
    loaded = load(None if path is None else Path(path), Path.cwd(), os.environ)
    config = with_overrides(loaded, **{name: choices.get(name) for name in _RUN})
    db = path_of(choices.get("db"), "db")
    if db is not None:
        yield with_overrides(config, db=db)
        return
    with TemporaryDirectory(prefix="headway-") as folder:
        yield with_overrides(config, db=str(Path(folder, "flow.db")))
