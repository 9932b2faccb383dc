"""What a run takes over from the runs before it: what lanes have learned, and units that may have been sent.

Everything here happens before the first request, on the thread of the loop.
"""

from __future__ import annotations

import msgspec

from headway.core.model import Settings
from headway.core.scheduler import Scheduler
from headway.engine.recorder import Recorder
from headway.engine.recording.lane_records import oldest_start_utc, restore_levels
from headway.engine.run_spec import RunSpec
from headway.engine.sharing.memory_places import TakesMemory
from headway.engine.units.unit_cursors import at_the_most, family_name, route_of
from headway.stores.records import LIVE, Job, JobEvent, State, UnknownOutcome
from headway.stores.store import BEGAN, LOST
from headway.stores.write_batch import WriteBatch


def settings_of(spec: RunSpec, now: float) -> Settings:
    """The scheduler's settings for a run that begins now."""
    return Settings(
        concurrency=spec.concurrency,
        max_groups=0 if spec.groups is None else spec.groups.most,
        max_cost_usd=spec.max_cost_usd,
        deadline_at=now + spec.max_duration_s if spec.max_duration_s else None,
        max_wait_s=spec.max_wait_s,
        max_hold_s=spec.max_hold_s,
        delay_s=spec.delay_s,
    )


def begin_events(before: Job, job: Job, utc: float) -> list[JobEvent]:
    """The events of a run that begins, for `headway logs`: the process of the run before may have died."""
    events = [
        JobEvent(
            utc,
            None,
            BEGAN,
            f"{job.total:,} {'unit' if job.total == 1 else 'units'}, {job.good:,} of them done",
        )
    ]
    if before.state in LIVE:
        events.insert(
            0, JobEvent(utc, None, LOST, "the process of the run before ended without recording its end")
        )
    return events


def end_text(state: State, job: Job) -> str:
    """The text of the event of a run's end."""
    others = {name: n for name, n in job.counts.items() if n and name not in ("succeeded", "cached")}
    rest = "".join(f", {n:,} {name.replace('_', ' ')}" for name, n in others.items())
    return f"{state}: {job.good:,} of {job.total:,} succeeded{rest}"


def restore_lanes(
    spec: RunSpec, recorder: Recorder, scheduler: Scheduler, unknown: list[UnknownOutcome], utc: float
) -> None:
    """Restore what lanes learned in earlier runs, and the levels of their meters from the recorded starts."""
    lanes, restored = scheduler.lanes, {}
    for key, lane in spec.lanes.items():
        handle = recorder.add_lane(key, lane.name, recorder.store.lane(key, lane.name))
        restored[handle.id] = recorder.restore(handle, lanes[key])
    starts = recorder.store.starts_since(oldest_start_utc(lanes.values(), utc))
    restore_levels(restored, starts, unknown)
    for family, outputs in spec.outputs.items():
        lanes[spec.routes[route_of(family)].lane].unit_costs.estimator.add_outputs(family, outputs)
    for family, lengths in spec.lengths.items():
        for size, took_s in lengths:
            lanes[spec.routes[route_of(family)].lane].order.recall(family, size, took_s)


def count_unknown(
    spec: RunSpec, scheduler: Scheduler, unknown: list[UnknownOutcome], batch: WriteBatch
) -> list[UnknownOutcome]:
    """Add what units of unknown outcome may have cost to budgets and records; returns the units with that cost."""
    counted = []
    for unit in unknown:
        route = spec.routes[unit.route]
        lane = scheduler.lanes[route.lane]
        open_output = lane.unit_costs.estimator.reserve(family_name(unit.route, unit.family))
        most_usd = None if route.price is None else at_the_most(route.price, unit, open_output)
        batch.use(unit.route).add_unreported(most_usd)
        for budget in (scheduler.budget, *lane.lane_budgets):
            budget.spent_usd += most_usd or 0.0
        program = isinstance(spec.lanes[route.lane].adapter, TakesMemory)
        counted.append(msgspec.structs.replace(unit, most_usd=most_usd, program=program))
    return counted
