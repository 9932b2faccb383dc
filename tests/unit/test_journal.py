"""The journal of an outage: nothing that a batch records is forgotten in it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from headway.stores.journal import Journal
from headway.stores.records import Attempt
from headway.stores.samples import RunSample
from headway.stores.write_batch import WriteBatch

#: Intents, claims and worker processes belong to the process that has died; the rest is for the engine.
NOT_KEPT: Final = {"intents", "claims", "seen_utc", "processes", "after_commit", "grow", "took_s", "look", "ended_before", "followed", "grown", "known",
                   "ungrown", "job", "worker", "caching"}  # fmt: skip


def _filled(name: str) -> Attempt:
    """An attempt in which this field has a value of its own."""
    value = {
        "charged": (1.0, 2.0, 3.0, 4.0),
        "kind": "k",
        "message": "m",
        "request_id": "r",
        "rate_limit": b"{}",
    }.get(name, 7)
    return msgspec.structs.replace(Attempt(0, 1, 1, "failed"), **{name: value})


def test_every_part_of_a_batch_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / ".headway" / "jobs" / "j"
    folder.mkdir(parents=True)
    batch = WriteBatch(1)
    batch.waits[3, "rate", "rpm"] = 2.5
    batch.samples.append(RunSample(1, 1, 1.0, ()))
    fields = [field for field in Attempt.__struct_fields__ if field != "outcome"]
    batch.attempts += [_filled(name) for name in fields]
    journal = Journal(folder / "journal")
    journal.store = b"store"
    journal.add(batch)
    [(entry, _)] = Journal(folder / "journal").entries()
    kept = entry.batch()
    assert kept.attempts == batch.attempts
    parts = set(WriteBatch.__slots__) - NOT_KEPT
    assert parts <= set(entry.__struct_fields__)
    assert {name: getattr(kept, name) for name in parts} == {name: getattr(batch, name) for name in parts}
