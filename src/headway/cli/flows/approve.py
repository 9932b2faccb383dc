"""`headway approve JOB NODE`: answers a flow's human step, of a job that runs or of one that is parked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.shared.click_options import json_option, where_options
from headway.display.terminal import echo, echo_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headway.flows.running.approvals import WaitingUnit
    from headway.stores.records import Job
    from headway.stores.store import Store


@click.command(
    "approve",
    short_help="Answer a flow's human step.",
    epilog="Example: headway approve publish --note 'looks good'",
)
@click.argument("names", nargs=-1, metavar="[JOB] [NODE]")
@click.option("--answer", metavar="JSON|TEXT", help="The value of the node; true without this flag.")
@click.option("--reject", is_flag=True, help="The node fails, and its policy applies.")
@click.option("--note", default="", metavar="TEXT", help="Kept with the approval; the reason of a rejection.")
@json_option
@where_options
def command(
    names: tuple[str, ...],
    answer: str | None,
    reject: bool,
    note: str,
    config: Path | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Answer NODE of a flow's JOB (default: the latest flow), a node of kind human that waits. Without NODE, list what waits.

    A running job goes on at once. A job that is parked goes on with 'headway resume'. NODE is the id of a node, or of one of its units
    if it is in a pipeline or a loop (publish#3); a node's id answers all of its units that wait.

    A node that was rejected can be approved later, as long as the flow has not succeeded without it: 'headway resume' then goes on with it.
    """
    from headway.cli.shared import workspace
    from headway.errors import UsageError
    from headway.flows.running import approvals
    from headway.wiring.steering.approving import GivenAnswer, answer_node
    from headway.wiring.store_access import open_store

    if len(names) > 2:
        raise UsageError("too many names", hint="headway approve JOB NODE")
    if answer is not None and reject:
        raise UsageError("--answer and --reject do not go together", hint="leave one of them out")
    settings = workspace.settings(config, db)
    workspace.open_read_only(settings).close()
    with open_store(settings) as store:
        job, node = _chosen(store, names, quiet=as_json)
        waiting = approvals.waiting_for(store, job)
        rejected = [] if reject else approvals.rejected_units(store, job)
        if node is None:
            _list(job, waiting, rejected, as_json=as_json)
            return
        given = GivenAnswer(node, answer, reject, note)
        approval = answer_node(settings, store, job, given)
    if as_json:
        echo_json(approval.fields())
    else:
        echo(approval.text())


def _chosen(store: Store, names: Sequence[str], *, quiet: bool) -> tuple[Job, str | None]:
    """The job and the name of the node; None if the user has named none. A single name is a job if there is one of that name."""
    from headway.cli.shared import workspace
    from headway.errors import UsageError

    named = len(names) == 2 or (len(names) == 1 and store.job(names[0]) is not None)
    flows = [job.name for job in store.jobs() if job.kind == "flow" and job.state != "ingesting"]
    if not named and not flows:
        raise UsageError("there is no flow yet", hint="'headway run flow.yaml' starts one")
    job = workspace.choose_job(store, names[0] if named else flows[0], quiet=quiet or not named)
    if job.kind != "flow":
        raise UsageError(
            f"job {job.name} is no flow: it has no human steps", hint="'headway jobs' lists the jobs"
        )
    left = names[1:] if named else names
    return job, left[0] if left else None


def _list(
    job: Job, waiting: Sequence[WaitingUnit], rejected: Sequence[WaitingUnit], *, as_json: bool
) -> None:
    from headway.flows.running.approvals import rejected_text

    if as_json:
        waits = [{"unit": one.unit, "node": one.node, "question": one.question} for one in waiting]
        refused = [{"unit": one.unit, "node": one.node, "reason": one.rejected} for one in rejected]
        echo_json({"job": job.name, "waiting": waits, "rejected": refused})
        return
    if not waiting and rejected:
        echo(
            f"{rejected_text(rejected)}; to change that: headway approve {job.name} {rejected[0].unit}; "
            f"then: headway resume {job.name}"
        )
        return
    if not waiting:
        echo(f"nothing in job {job.name} waits for an approval")
        return
    echo(f"job {job.name} waits for:")
    for one in waiting:
        writes = f" → {', '.join(one.writes)}" if one.writes else ""
        echo(f"  {one.unit}{writes}")
        for line in one.question.splitlines():
            echo(f"    {line}")
    echo(f"to answer: headway approve {job.name} {waiting[0].unit}")
