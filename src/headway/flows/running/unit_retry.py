"""Which units `headway retry JOB UNIT` refuses: others have used how they ended, and would keep what was made from it."""

from __future__ import annotations

from collections.abc import Sequence

from headway.core.unit_states import GOOD
from headway.errors import UsageError
from headway.flows.running.flow_form import form_of
from headway.flows.running.intake.node_choice import from_node
from headway.flows.running.recorded_run import BAD, rebuilt_run
from headway.flows.running.steps.flow_run import FlowRun
from headway.flows.running.unit_ids import node_path
from headway.flows.spec import FlowSpec
from headway.stores.records import Job
from headway.stores.store import Store


def must_be_unused(store: Store, job: Job, units: Sequence[int]) -> None:
    """Raise UsageError if a node that has begun follows from one of these units."""
    run, spec = rebuilt_run(store, job), form_of(job).spec
    for index in units:
        unit = store.results(job.id, index - 1, 1)[0]
        name, node = unit.custom_id, node_path(unit.custom_id)
        if unit.status in GOOD and _is_used(run, spec, node):
            why = "has an answer that other nodes have used"
        elif unit.status in BAD and run.stays_ended(name):
            why = "stays failed, because other nodes have used what was written without it"
        else:
            continue
        raise UsageError(
            f"{name} {why}: it does not run again in job {job.name}",
            hint=f"'headway run {spec.path.name} --from {node}', which runs {node} and what follows from it in a new job",
        )


def _is_used(run: FlowRun, spec: FlowSpec, node: str) -> bool:
    """Whether a node that follows from this one has begun. A loop follows from itself."""
    if _is_in_loop(spec, node):
        return True
    following = (path for path in from_node(spec, node) if not f"{node}/".startswith(f"{path}/"))
    nodes = run.nodes()
    return any(nodes[path].status != "pending" for path in following)


def _is_in_loop(spec: FlowSpec, node: str) -> bool:
    """Whether a node, or a node around it, is in a loop."""
    name, _, rest = node.partition("/")
    one = spec.nodes[name]
    return one.group in spec.loops or bool(rest and one.inner is not None and _is_in_loop(one.inner, rest))
