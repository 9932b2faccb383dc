"""Which failures are final: a unit that failed does not run again in its job once others have used what was written without it. PURE.

That is so if its node, or a node around it, succeeded all the same. Of a pipeline, which succeeds without the items that failed, it is so
as soon as a later step, or a later item, has begun that reads what the others wrote. Otherwise a resume would change the state below
answers that are recorded, and would end in another state than a run without interruption. A new job of the flow runs such units again,
with everything that follows from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.flows.running.flow_node import FlowNodeRun
from headway.flows.running.outcomes import FAILED, GOOD
from headway.flows.running.unit_ids import UnitId, parse_unit

if TYPE_CHECKING:
    from headway.flows.running.flow_steps import FlowSteps


def stays_ended(flow: FlowSteps, unit: str) -> bool:
    """Whether a unit that failed does not run again."""
    parsed = parse_unit(unit)
    position = flow.plan.step_of(parsed.node)
    if position is None:
        return True
    writes = flow.writes.get(parsed.node)
    if (flow.outcomes[position] if writes is None else writes.outcome(parsed.turn)) == GOOD:
        return True
    if _is_read(flow, parsed):
        return True
    run = _inner_runs(flow, unit, parsed)
    if run is None:
        return False
    n = max(parsed.iteration, 0)
    inner = run.inner(n)
    if run.outcome == GOOD:
        return True
    return n < run.next and (inner is None or stays_ended(inner, parsed.rest))


def is_built_upon(flow: FlowSteps, unit: str) -> bool:
    """Whether a failure is final only because others have read what a pipeline wrote without its item."""
    parsed = parse_unit(unit)
    if _is_read(flow, parsed):
        return True
    run = _inner_runs(flow, unit, parsed)
    inner = None if run is None or run.outcome == GOOD else run.inner(max(parsed.iteration, 0))
    return inner is not None and is_built_upon(inner, parsed.rest)


def _inner_runs(flow: FlowSteps, unit: str, parsed: UnitId) -> FlowNodeRun | None:
    """The execution of the node that runs an inner flow; None if there is none, or it has succeeded."""
    failed = flow.failed_flows.get(unit.partition("/")[0].partition("[")[0])
    position = flow.plan.step_of(parsed.node)
    step = None if position is None else flow.steps.get(position)
    run = step.run_of(parsed) if failed is None and step is not None else failed
    return run if isinstance(run, FlowNodeRun) else None


def _is_read(flow: FlowSteps, parsed: UnitId) -> bool:
    """Whether a later step, or a later item, has begun that reads what a pipeline wrote without the item of a unit."""
    position, writes = flow.plan.step_of(parsed.node), flow.writes.get(parsed.node)
    if position is None or writes is None or writes.outcome(parsed.turn) != FAILED:
        return False
    group = flow.plan.steps[position].group
    if group is None or group.is_loop:
        return False
    if flow.outcomes[position] == GOOD and any(
        _has_read(flow, behind, position) for behind in flow.plan.steps[position].next
    ):
        return True
    place = group.places[parsed.node]
    readers = [one.place for one in group.members if any(at >= place for at in one.carriers)]
    return any(
        _has_begun_after(flow, position, group.members[reader].node.id, parsed.turn) for reader in readers
    )


def _has_read(flow: FlowSteps, position: int, source: int) -> bool:
    """Whether a step has begun that reads what another one wrote."""
    step = flow.plan.steps[position].after
    source_id = flow.plan.steps[source].id
    has_begun = flow.outcomes[position] in (GOOD, FAILED) or position in flow.steps
    return has_begun and any(one.id == source_id and (one.fields or one.when) for one in step)


def _has_begun_after(flow: FlowSteps, position: int, member: str, turn: int) -> bool:
    """Whether a stage has begun for a later item."""
    if flow.writes[member].has_ended_after(turn):
        return True
    step = flow.steps.get(position)
    return step is not None and step.has_begun_after(member, turn)
