"""Recording a write batch: the order of its statements inside the transaction of `Store.commit`.

The order matters if a batch has several changes of one unit: the end of an attempt comes before the intent to send it again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from headway.errors import StoreError
from headway.reason_text import upstream_text
from headway.stores.answer_cache import keep_answers
from headway.stores.claims import Claims
from headway.stores.database import Database
from headway.stores.records import COUNTED, USED, Edge, NewUnit, Repair, UnitChange
from headway.stores.row_conversion import SHIFT, attempt_row, json_of, line_row, uid, values_of
from headway.stores.samples import add_samples
from headway.stores.write_batch import WriteBatch, job_taken

_COUNTERS: Final = (*COUNTED, *USED)


def check_owner(db: Database, job: int, worker: int) -> None:
    """Raise JobTaken unless the job still belongs to the run of `worker`."""
    if db.execute("worker_of", (job,)) != [(worker,)]:
        owner = db.execute("owner_of", (job,))
        raise job_taken(*owner[0]) if owner else job_taken("", None, None)


def add_units(
    db: Database,
    job: int,
    first: int,
    units: Sequence[NewUnit],
    lanes: Sequence[int | None] = (),
    created_utc: float | None = None,
) -> None:
    """Add units from index `first` on. `lanes`, if given, has one entry a unit: a lane is the intent to send it. `created_utc`: they are
    added to a job that runs, at this time."""
    if not units:
        return
    base = uid(job, first)
    placed = zip(units, lanes or [None] * len(units), strict=True)
    rows = [
        (base + n, unit.custom_id, unit.route, unit.priority, int(unit.serial), unit.chars, unit.max_tokens, lane, unit.family,
            "pending" if lane is None else "assigned", created_utc)
        for n, (unit, lane) in enumerate(placed)
    ]  # fmt: skip
    db.executemany("add_unit", rows)
    _add_requests(db, base, units)
    keys = [(base + n, unit.key) for n, unit in enumerate(units) if unit.key]
    if keys:
        db.executemany("add_key", keys)
    edges = [(base + n, edge) for n, unit in enumerate(units) for edge in unit.after]
    if edges:
        _add_edges(db, job, edges)


def _add_requests(db: Database, base: int, units: Sequence[NewUnit]) -> None:
    path, body = units[0].path, units[0].body
    if all(unit.body is body and unit.path == path and unit.metadata is None for unit in units):
        # Python calls: their arguments are not recorded, and all units have the same placeholder.
        db.execute("add_same_request", (path, body, base, base + len(units) - 1))
        return
    db.executemany(
        "add_request", [(base + n, unit.path, unit.body, unit.metadata) for n, unit in enumerate(units)]
    )


def _add_edges(db: Database, job: int, edges: Sequence[tuple[int, Edge]]) -> None:
    """Add edges, each with the key of the unit that waits."""
    rows = [(unit, edge.role, uid(job, _index_of(db, job, edge.before))) for unit, edge in edges]
    db.executemany("add_edge", rows)


def _index_of(db: Database, job: int, unit: int | str) -> int:
    if isinstance(unit, int):
        return unit
    rows = db.execute("index_of", (job, unit))
    if not rows:
        raise StoreError(f"a unit waits for '{unit}', and the job has no such unit")
    index: int = rows[0][0]
    return index


def record(db: Database, batch: WriteBatch) -> None:
    """Record everything in the batch."""
    base, many = batch.job << SHIFT, db.executemany
    if batch.worker is not None:
        check_owner(db, batch.job, batch.worker)
    intents = batch.intents
    if batch.added:
        intents = _commit_added(db, batch)
    if batch.reopened:
        _commit_reopened(db, batch)
    if batch.again:
        _commit_again(db, batch)
    if batch.processes:
        _commit_processes(db, batch)
    if batch.attempts:
        many("add_attempt", [attempt_row(base, batch.worker, attempt) for attempt in batch.attempts])
    if batch.released:
        many("release", [(base + index,) for index in batch.released])
    if batch.units:
        _commit_changes(db, base, batch.units)
    if batch.skipped:
        _name_upstream_units(db, batch)
    if batch.answers:
        many("add_answer", [(base + index, *rest) for index, *rest in batch.answers])
    if intents:
        _commit_intents(db, base, intents)
    if batch.running:
        many("note_running", [(utc, base + index) for index, utc in batch.running.items()])
    if batch.caching:
        keep_answers(db, batch)
    if batch.transcripts:
        many("add_line", [line_row(base, row) for row in batch.transcripts])
    _commit_rest(db, batch)
    _commit_counts(db, batch)
    if batch.samples or batch.waits:
        add_samples(db, batch)


def _commit_changes(db: Database, base: int, changes: Sequence[tuple[int, UnitChange]]) -> None:
    """`change_unit` takes several units at once, each of them once. The next change of the same unit is for its next execution."""
    while changes:
        first: dict[int, UnitChange] = {}
        later: list[tuple[int, UnitChange]] = []
        for index, change in changes:
            if index in first:
                later.append((index, change))
            else:
                first[index] = change
        db.executemany("change_unit", [(*values_of(change), base + index) for index, change in first.items()])
        changes = later


def _commit_intents(db: Database, base: int, intents: dict[int, int]) -> None:
    """One statement for all units of a lane: a fourth of the time that one for each unit takes."""
    by_lane: dict[int, list[int]] = {}
    for index, lane in intents.items():
        by_lane.setdefault(lane, []).append(base + index)
    for lane, uids in by_lane.items():
        db.execute("intend", (lane, json_of(uids)))


def _commit_added(db: Database, batch: WriteBatch) -> dict[int, int]:
    """Add new units, together with their intents; returns the intents of the other units."""
    first, last = batch.added[0][0], batch.added[-1][0]
    units, intents = [unit for _, unit in batch.added], batch.intents
    lanes = [intents.get(index) for index in range(first, last + 1)] if intents else ()
    add_units(db, batch.job, first, units, lanes, time.time())
    db.execute("set_total", (last + 1, batch.job))
    return {index: lane for index, lane in intents.items() if index < first}


def _commit_reopened(db: Database, batch: WriteBatch) -> None:
    base = batch.job << SHIFT
    uids = [base + index for index in batch.reopened]
    for status, n in db.execute("count_reopened", (json_of(uids),)):
        batch.count(status, -n)
    db.executemany("reopen_unit", [(unit,) for unit in uids])
    requests = [(body, base + index) for index, body in batch.reopened.items() if body is not None]
    db.executemany("set_request", requests)


def _commit_again(db: Database, batch: WriteBatch) -> None:
    uids = [uid(batch.job, index) for index in batch.again]
    for status, n in db.execute("count_again", (json_of(uids),)):
        batch.count(status, -n)
    run_again(db, uids)


def run_again(db: Database, uids: Sequence[int]) -> None:
    """Make units pending that have ended, also those with an answer. Other units and the cache keep the answers that they have from
    these, and nothing new is taken from them.
    """
    for unit in uids:
        heir = db.execute("first_hit", (unit,))[0][0]
        if heir is not None:
            db.execute("copy_answer", (heir, unit))
            db.execute("forget_hit", (heir,))
            db.execute("move_hits", (heir, unit))
        for name in ("forget_cached", "forget_hit", "forget_follower", "run_again"):
            db.execute(name, (unit,))


def _name_upstream_units(db: Database, batch: WriteBatch) -> None:
    """Say in the message of each skipped unit which unit it depends on, and how that one ended."""
    base = batch.job << SHIFT
    upstream = json_of(sorted({base + before for _, before in batch.skipped}))
    texts = {unit: upstream_text(name, status) for unit, name, status in db.execute("ends_of", (upstream,))}
    db.executemany("set_message", [(texts[base + before], base + index) for index, before in batch.skipped])


def _commit_processes(db: Database, batch: WriteBatch) -> None:
    """Worker processes; a new one gets its number here."""
    for record, state in batch.processes.items():
        unit = None if state.index is None else uid(batch.job, state.index)
        if record.id:
            db.execute("set_process", (state.status, state.ended_utc, unit, record.id))
        else:
            row = (
                batch.job,
                record.name,
                record.pid,
                state.status,
                record.started_utc,
                state.ended_utc,
                batch.worker,
                unit,
            )
            record.id = db.execute("add_process", row)[0][0]


def _commit_rest(db: Database, batch: WriteBatch) -> None:
    """The rare parts of a batch, one statement each."""
    for repair in batch.repairs:
        _commit_repair(db, uid(batch.job, repair.index), repair)
    for index, body, chars in batch.rendered:
        db.execute("set_rendered", (uid(batch.job, index), body))
        db.execute("set_chars", (chars, uid(batch.job, index)))
    for index, number, note in batch.notes:
        db.execute("add_note", (uid(batch.job, index), number, note.decode()))
    for event in batch.events:
        row = (batch.job, event.at_utc, event.lane, event.what, event.text, event.until_utc)
        db.execute("add_event", row)
    for lane, (record, view, utc) in batch.lanes.items():
        db.execute("set_lane", (record.decode(), view.decode(), utc, lane))
    if batch.claims or batch.seen_utc is not None:
        Claims(db).write(batch.worker or batch.job, batch.job, batch.claims.items(), batch.seen_utc)
    for worker, (status, ended_utc) in batch.workers.items():
        db.execute("set_worker", (status, ended_utc, worker))
    for command, utc in batch.done_commands:
        db.execute("end_command", (utc, command))


def _commit_repair(db: Database, unit: int, repair: Repair) -> None:
    db.execute("close_repairs", (unit,))
    if repair.answer is not None:
        is_open = int(repair.request is not None)
        db.execute(
            "add_repair", (unit, repair.number, repair.answer, repair.request, repair.more_chars, is_open)
        )


def _commit_counts(db: Database, batch: WriteBatch) -> None:
    """The counters of the routes and the job, and the job's state."""
    if batch.uses:
        uses = [(route, batch.job, *values_of(use)) for route, use in batch.uses.items()]
        db.executemany("add_use", uses)
    if batch.counts or batch.uses:
        totals = batch.totals()
        counts = {str(name): totals.get(name, 0) for name in _COUNTERS}
        db.execute("count_up", {"job": batch.job, **counts})
    if batch.state is not None:
        state, finished_utc = batch.state
        db.execute("set_state", {"job": batch.job, "state": state, "finished_utc": finished_utc})
