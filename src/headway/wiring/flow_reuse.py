"""What a flow that was run before keeps of its last job, told before it starts."""

from __future__ import annotations

from headway.config import Config
from headway.display.formatting import units
from headway.errors import UsageError
from headway.flows.running.answer_reuse import failed_by_node, good_by_node, predecessors_of
from headway.flows.running.flow_changes import FlowChanges, flow_changes
from headway.flows.running.flow_form import form_of, nodes_of
from headway.flows.running.flow_source import FlowSource, routes_of
from headway.flows.running.key_context import context_of, contexts, older_units
from headway.jobs.base import JobSource
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.run_plan import addresses_of


def must_have_run(store: Store, source: JobSource) -> None:
    """Raise UsageError for `--from` if there is nothing to begin from."""
    if not isinstance(source, FlowSource) or not source.reuse.begins_at:
        return
    if not predecessors_of(store, source.kind, source.path):
        raise UsageError(
            f"--from {source.reuse.begins_at}: {source.name} has no answers of an earlier run to keep",
            hint="run it without --from",
        )


def changes_of(config: Config, store: Store, source: JobSource, job: Job | None = None) -> FlowChanges | None:
    """What changes against the last job of the flow. `job`: the new one, if it is made. None: nothing is kept, or it is no flow."""
    if not isinstance(source, FlowSource) or not source.reuse.takes_over:
        return None
    earlier = predecessors_of(store, source.kind, source.path, None if job is None else job.id)
    known = contexts(store, earlier[0].id) if earlier else []
    if not known:
        return None
    form, last = source.form_data, earlier[0]
    routes = [route for route, _ in routes_of(config, form.spec)]
    context = context_of(nodes_of(form.spec), routes, addresses_of(config, routes))
    answers, failed = good_by_node(store, last), failed_by_node(store, last)
    again = {node: f"{units(failed[node])} failed before" for node in failed if node in answers}
    again |= dict.fromkeys(source.reuse.again, f"--from {source.reuse.begins_at}")
    before = (form_of(last), known[-1])
    return flow_changes(last.name, before, (form, context), answers, again, older_units(known))


def change_lines(config: Config, store: Store, source: JobSource, job: Job) -> list[str]:
    """The same in lines, for a new job."""
    changes = changes_of(config, store, source, job)
    return [] if changes is None else changes.lines(source.name)
