"""`headway run --dry-run` (check and plan, write nothing) and `headway run --confirm` (plan, then ask)."""

from __future__ import annotations

import os
import sys
from typing import Any, Final, NamedTuple

import msgspec

from headway.cli import plan
from headway.cli.flows.plan import flow_plan_json, print_flow_plan
from headway.cli.shared.printing import agreed, print_json, say
from headway.config import Config
from headway.display.terminal import echo
from headway.errors import UsageError
from headway.flows.running.intake.flow_source import FlowSource
from headway.flows.running.reuse.flow_changes import FlowChanges
from headway.forecast.figures import RunOptions
from headway.jobs.base import FileJobKind, IngestOptions, JobSource
from headway.jobs.find_or_add import find, name_for, predecessors_of
from headway.jobs.kinds import KINDS
from headway.stores.store import Store
from headway.wiring.flows.flow_forecasts import FlowAhead, plan_flow
from headway.wiring.flows.flow_reuse import changes_of, must_have_run
from headway.wiring.job_forecast import JobForecast, forecast_job
from headway.wiring.run_plan import RunFlags
from headway.wiring.store_access import open_store_or_empty
from headway.wiring.submission import free_output, output_of

#: The kind of job whose units are no rows.
_EVAL: Final = "eval"


def dry_run(
    config: Config, source: JobSource, flags: RunFlags, options: IngestOptions, as_json: bool, quiet: bool
) -> int:
    """Check the rows, their providers, the keys and the output; print the plan."""
    with open_store_or_empty(config) as store:
        job = None if options.fresh else find(store, config, source)
        if job is None and flags.only_failed:
            raise UsageError(f"{source.name} has not been run yet", hint="run it without --only-failed")
        name = name_for(store, source, options.name) if job is None else job.name
        kind, output = KINDS[source.kind], flags.output
        assert isinstance(kind, FileJobKind)
        output = free_output(kind, output, name, store) if job is None else output_of(job, source, output)
        earlier = [] if job or options.fresh else predecessors_of(store, config, source)
        # Of a changed input, the new job may write to the folder of its predecessor.
        claimant = earlier[0].name if earlier and output.form == "folder" else name
        kind.claim_output(output, claimant, store=store, make=False)
        planned = _planned(config, store, source, flags, options)
    if as_json:
        print_json({**planned.json(), "out": output.recorded})
    elif not quiet:
        planned.show(" (dry run: nothing was sent)")
        echo(f"  results would go to {'standard output' if output.is_stdout else output.recorded}")
    return 0


class _RowPlan(NamedTuple):
    """The plan of a file of rows."""

    name: str
    ahead: JobForecast
    word: str

    @property
    def units(self) -> int:
        return self.ahead.forecast.requests

    def json(self) -> dict[str, Any]:
        return plan.plan_json(self.ahead)

    def show(self, note: str = "", *, err: bool = False) -> None:
        plan.print_plan(f"{plan.heading(self.name, self.ahead, self.word)}{note}", self.ahead, err=err)


class _FlowPlan(NamedTuple):
    """The plan of a flow."""

    name: str
    ahead: FlowAhead
    changes: FlowChanges | None

    @property
    def units(self) -> int:
        return self.ahead.forecast.units

    def json(self) -> dict[str, Any]:
        return {**flow_plan_json(self.ahead), "changes": msgspec.to_builtins(self.changes)}

    def show(self, note: str = "", *, err: bool = False) -> None:
        for line in [] if self.changes is None else self.changes.lines(self.name):
            echo(line, err=err)
        print_flow_plan(self.name, self.ahead, plan.PIPE_WIDTH, err=err, note=note)


def _planned(
    config: Config, store: Store, source: JobSource, flags: RunFlags, options: IngestOptions
) -> _RowPlan | _FlowPlan:
    if isinstance(source, FlowSource):
        way = RunOptions(side_by_side=flags.agents.worktree or flags.agents.shared_directory)
        ahead = plan_flow(config, store, source, way, os.environ, ingest=options, concurrency=flags.nodes)
        must_have_run(store, source)
        is_new = ahead.job is None and not options.fresh
        return _FlowPlan(source.name, ahead, changes_of(config, store, source) if is_new else None)
    word = "unit" if source.kind == _EVAL else "row"
    return _RowPlan(source.name, _ahead(config, store, source, flags, options), word)


def _ahead(
    config: Config, store: Store, source: JobSource, flags: RunFlags, options: IngestOptions
) -> JobForecast:
    apart = flags.agents.worktree or flags.agents.shared_directory
    way = RunOptions(config.run.concurrency, flags.serial or flags.delay_s > 0.0, flags.delay_s, apart)
    return forecast_job(
        config, store, source, way, os.environ, options=options, only_failed=flags.only_failed
    )


def confirmed(config: Config, source: JobSource, flags: RunFlags, options: IngestOptions) -> RunFlags | None:
    """Show the plan and ask. Returns the flags with the prediction, or None if the answer is no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "--confirm needs a terminal",
            hint="run without it, or see the plan with 'headway plan FILE'",
        )
    with open_store_or_empty(config) as store:
        planned = _planned(config, store, source, flags, options)
    if not planned.units:
        return flags  # Nothing would be sent: do not ask.
    planned.show(err=True)
    if not agreed("send these requests?"):
        say("nothing was sent")
        return None
    return flags.expecting(planned.ahead.prediction)
