"""Two processes start the same job, with every interleaving: one of them runs it, and every row is sent once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from tests.crash.stage import PATIENCE_S, Stage, started, wait_for

from headway.jobs import find_or_add
from headway.stores import store as stores
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring import submission

from .conftest import Headway

RUN = ("run", "in.jsonl", "-q")


def once_before(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, act: Callable[[], None]) -> None:
    """Call `act` before the first call of a function."""
    really = getattr(owner, name)

    def first(*args: Any, **more: Any) -> Any:
        monkeypatch.setattr(owner, name, really)
        act()
        return really(*args, **more)

    monkeypatch.setattr(owner, name, first)


def assert_sent_once(stage: Stage) -> None:
    assert [stage.sent(index) for index in range(stage.units)] == [1] * stage.units
    [(state, good)] = stage.query("SELECT state, succeeded FROM jobs")
    assert (state, good) == ("complete", stage.units)
    assert len(stage.rows()) == stage.units


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        pytest.param(submission, "clear_remains", id="before it looks for remains"),
        pytest.param(submission, "find_or_add", id="before it looks for its job"),
        pytest.param(find_or_add, "is_ingesting", id="with its job added and locked"),
    ],
)
def test_another_process_comes_in_between(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    others = []
    once_before(monkeypatch, owner, name, lambda: others.append(stage.run(*RUN)))

    mine = headway(*RUN)

    assert mine.code == 0, mine.err
    [other] = others
    if name == "is_ingesting":
        assert other.returncode == 2
        assert f"is already running, in process {os.getpid()}" in other.stderr
    else:
        assert other.returncode == 0, other.stderr
    assert_sent_once(stage)


def test_another_process_comes_between_adding_the_job_and_its_lock(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process takes the unlocked job for one of a dead process; the first then finds the other's job."""
    really, others = find_or_add.find_or_add, []

    def add_then_wait(*args: Any, **more: Any) -> Any:
        monkeypatch.setattr(submission, "find_or_add", really)
        found = really(*args, **more)
        others.append(stage.run(*RUN))
        return found

    monkeypatch.setattr(submission, "find_or_add", add_then_wait)
    mine = headway(*RUN)

    assert (mine.code, others[0].returncode) == (0, 0), mine.err + others[0].stderr
    assert_sent_once(stage)


def test_a_new_job_is_added_again_if_another_process_is_removing_it(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ask for a fresh start: the other holds the lock of the job that it takes for remains. That is no reason to give up."""
    really = find_or_add.claimed

    @contextmanager
    def while_it_is_removed(
        store: Store, job: Job, locks: find_or_add.Locks, *, is_new: bool
    ) -> Iterator[bool]:
        monkeypatch.setattr(submission, "claimed", really)
        with locks(job.name):
            with really(store, job, locks, is_new=is_new) as is_ours:
                assert not is_ours
            store.forget(job.id)
        yield False

    monkeypatch.setattr(submission, "claimed", while_it_is_removed)
    mine = headway(*RUN, "--fresh")
    assert mine.code == 0, mine.err
    assert_sent_once(stage)


#: `headway ARGS` that writes a file just before it looks for its job.
TELLING = """
import sys
from pathlib import Path
from headway.cli import main
from headway.wiring import submission
really = submission.find_or_add
def telling(*args, **more):
    Path("looking").touch()
    return really(*args, **more)
submission.find_or_add = telling
sys.exit(main(sys.argv[1:]))
"""


def test_another_process_waits_while_a_job_is_found_and_added(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped between finding no job and adding one: the other process waits for the transaction and finds the job."""
    with ExitStack() as stack:
        others = []

        def let_the_other_look() -> None:
            how: dict[str, Any] = {"stderr": subprocess.PIPE, "cwd": stage.root, "env": stage.environ()}
            others.append(stack.enter_context(started("-c", TELLING, *RUN, **how)))
            wait_for("the other process looks", (stage.root / "looking").exists)

        once_before(monkeypatch, stores, "free_name", let_the_other_look)
        mine = headway(*RUN)
        [other] = others
        _, err = other.communicate(timeout=PATIENCE_S)

    # Whichever has the job first runs it. The other one finds it running, or done.
    assert sorted((mine.code, other.returncode)) in ([0, 0], [0, 2]), (mine.err, err)
    if mine.code or other.returncode:
        runner = other.pid if mine.code else os.getpid()
        assert f"is already running, in process {runner}" in (mine.err if mine.code else str(err))
    assert_sent_once(stage)


def test_leftovers_of_a_dead_process_are_removed_by_a_fresh_start_too(stage: Stage, headway: Headway) -> None:
    stage.ends_by_kill(*RUN, faults={"kill": {"at": "seal_job"}})
    assert stage.query("SELECT state FROM jobs") == [("ingesting",)]

    assert headway(*RUN, "--fresh").code == 0
    assert_sent_once(stage)


# -- one output ------------------------------------------------------------------------------------------------


@contextmanager
def writing(stage: Stage, *args: str) -> Iterator[str]:
    """A run that is halfway, and the name of its job."""
    stage.configure("max_concurrency = 1")
    stage.write_input([stage.row(index) for index in range(400)])
    with stage.process("run", "in.jsonl", "-q", *args) as process:
        wait_for("the run has begun", stage.committed)
        yield stage.job()["name"]
        assert process.poll() is None, "it ended too early"


def other_input(stage: Stage) -> None:
    (stage.root / "other.jsonl").write_text('{"id": "x", "prompt": "say x"}\n')


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param((), id="plainly"),
        pytest.param(("--force",), id="by force"),
        pytest.param(("--force", "--db", "elsewhere/h.db"), id="from another database"),
        pytest.param(("--force", "--out-order", "completion"), id="in order of completion"),
    ],
)
def test_a_file_that_a_job_writes_is_refused_to_others(
    stage: Stage, headway: Headway, flags: tuple[str, ...]
) -> None:
    other_input(stage)
    with writing(stage) as job:
        (stage.root / "link.jsonl").symlink_to("in.results.jsonl")
        for name in ("in.results.jsonl", "link.jsonl"):
            refused = headway("run", "other.jsonl", "-q", "--out", name, *flags)
            assert refused.code == 2
            assert f"in.results.jsonl is being written by job '{job}' (process " in refused.err
            assert "name another file with --out" in refused.err
            assert refused.err.count("\n") == 1
        exported = headway("export", "--out", "in.results.jsonl", "--force")
        assert (exported.code, "is being written by" in exported.err) == (2, True)
    with stage.records() as db:
        assert db.execute("SELECT count(*) FROM jobs").fetchone() == (1,), (
            "a job that was refused is not kept"
        )


def test_a_table_that_a_job_will_write_is_refused_to_others(stage: Stage, headway: Headway) -> None:
    other_input(stage)
    with writing(stage, "--out", "t.csv") as job:
        refused = headway("run", "other.jsonl", "-q", "--out", "t.csv", "--force")
        assert refused.code == 2
        assert f"t.csv is being written by job '{job}'" in refused.err
        assert not (stage.root / "t.csv").exists()


def test_rows_go_to_the_file_that_a_link_leads_to(stage: Stage, headway: Headway) -> None:
    link, target = stage.root / "link.jsonl", stage.root / "target.jsonl"
    link.symlink_to("target.jsonl")
    for order in ("input", "completion"):
        assert headway(*RUN, "--out", "link.jsonl", "--out-order", order).code == 0
        assert link.is_symlink()
        assert len(target.read_text().splitlines()) == stage.units


def test_a_link_to_the_input_is_the_input(stage: Stage, headway: Headway) -> None:
    (stage.root / "link.jsonl").symlink_to("in.jsonl")
    refused = headway("run", "in.jsonl", "--out", "link.jsonl", "--force")
    assert refused.code == 2
    assert "--out link.jsonl is the input itself" in refused.err


def test_a_pipe_that_nobody_reads_is_refused_before_anything_is_sent(stage: Stage, headway: Headway) -> None:
    os.mkfifo(stage.root / "pipe")
    refused = headway("run", "in.jsonl", "-q", "--out", "pipe")
    assert refused.code == 2
    assert "pipe is a pipe without a reader" in refused.err
    assert not any(stage.sent(index) for index in range(stage.units))


def test_a_database_by_two_names_has_one_lock(stage: Stage, headway: Headway) -> None:
    (stage.root / "alias").mkdir()
    (stage.root / "alias" / "h.db").symlink_to(stage.db)
    with writing(stage):
        refused = headway(*RUN, "--db", "alias/h.db")
        assert refused.code == 2
        assert "is already running, in process" in refused.err
