"""The life of a unit, second by second, from the records of real runs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.crash.stage import Stage, wait_for

from headway.reports.unit_pages.unit_page import UnitPage, unit_page
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store


def page_of(stage: Stage, index: int, *, live: bool, now_utc: float) -> UnitPage:
    with Store(SqliteFile(stage.db, read_only=True)) as store:
        return unit_page(store, store.jobs()[0], index, live=live, now_utc=now_utc)


def test_the_life_of_a_unit_is_whole_also_over_a_killed_process(stage: Stage) -> None:
    """Killed with SIGKILL while units are in flight, looked at, resumed, and looked at again."""
    stage.configure('rpm = 300\nburst = "100ms"')
    with stage.process("run", "in.jsonl", "--name", "j", "-q") as run:
        wait_for("answers", lambda: list(stage.statuses().values()).count("succeeded") >= 3)
        run.kill()
        run.communicate()
    with Store(SqliteFile(stage.db, read_only=True)) as store:
        created = store.jobs()[0].created_utc
    dead = [page_of(stage, index, live=False, now_utc=created + 1000.0) for index in (0, stage.units - 1)]
    assert dead[1].timeline[-1].why == "no process worked on the job"
    assert stage.run("resume", "j", "-q").returncode == 0
    ended = [page_of(stage, index, live=False, now_utc=created + 2000.0) for index in (0, 5, stage.units - 1)]
    for page in (*dead, *ended):
        assert page.timeline[0].from_utc == created
        assert all(earlier.until_utc == later.from_utc for earlier, later in pairwise(page.timeline))
        end = page.unit.finished_utc or created + 1000.0
        assert sum(one.until_utc - one.from_utc for one in page.timeline) == pytest.approx(end - created)
    last = ended[-1]
    assert {"paused", "queued", "in_flight"} <= {piece.state for piece in last.timeline}
    assert "no process worked on the job" in {piece.why for piece in last.timeline}
    assert [turn.role for turn in last.conversation] == ["user", "assistant"]
    assert (last.error, last.unit.status, last.command) == (
        None,
        "succeeded",
        f"headway show j {stage.units - 1}",
    )
