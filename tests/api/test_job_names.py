"""The names of jobs that Python programs make: two names are two jobs, and a job belongs to one function."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.api.job_names import job_name, old_job_name
from headway.errors import UsageError
from headway.stores.job_lock import JobLock
from headway.wiring.store_access import job_lock_at

LONG = "a_company.a_department.a_team.pipelines.language.quality.steps"


def translate(item: str) -> str:
    return f"translated {item}"


def grade(item: str) -> str:
    return f"graded {item}"


def of_module(module: str, name: str) -> Callable[[str], str]:
    """A function as a module with a long path would have it."""

    def function(item: str) -> str:
        return f"{name} {item}"

    function.__module__, function.__qualname__ = module, name
    return function


class Shout:
    def __init__(self, mark: str = "!") -> None:
        self.mark = mark

    def execute(self, prompt: str, payload: Any, timeout: float) -> headway.WorkerResult:
        return headway.WorkerResult(True, output=prompt + self.mark)


def kept(db: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(db)) as connection:
        return connection.execute("select name, input from jobs order by id").fetchall()


def as_before(db: Path, name: str, *, made_by: str | None = None) -> None:
    """Make the only job look as versions before this one left it."""
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute("update jobs set name = ?, settings = '{}', form = '{}'", (name,))
        if made_by is not None:
            connection.execute("update jobs set input = ?", (made_by,))


def run(db: Path, call: Callable[[str], str], **choices: Any) -> list[str]:
    return headway.map(call, ["x"], db=db, key=str, **choices)


def pooled(db: Path, worker: Any, **choices: Any) -> str:
    """The result of one unit in a pool."""
    said: list[Any] = []
    with headway.WorkerPool(
        worker, store=db, on_unit_complete=lambda _, result: said.append(result.output), **choices
    ) as pool:
        assert pool.submit_work_unit("unit", "hi")
        assert pool.wait_for_completion(timeout=20)
    return str(said[0])


@pytest.mark.parametrize(
    ("one", "other"),
    [("перевод", "оценка"), ("a/b", "a b"), ("a/b", "a-b"), ("x" * 70, "x" * 71), ("-", "--"),
     ("a/b", job_name("a/b", "map")), ("жгкеаж", "бабжжгк"), ("a/b", "a-b-9a159f8121")],
)  # fmt: skip
def test_two_names_are_two_jobs(tmp_path: Path, one: str, other: str) -> None:
    db = tmp_path / "h.db"
    assert run(db, translate, name=one) == ["translated x"]
    assert run(db, grade, name=other) == ["graded x"]
    assert len(kept(db)) == 2
    assert run(db, translate, name=one) == ["translated x"]
    assert len(kept(db)) == 2


def test_two_functions_of_a_module_with_a_long_path_are_two_jobs(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    assert run(db, of_module(LONG, "translate")) == ["translate x"]
    assert run(db, of_module(LONG, "grade")) == ["grade x"]
    assert len({name for name, _ in kept(db)}) == 2


def test_two_names_of_one_function_are_two_jobs_although_they_clean_alike(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    for name in ("a-b", "a/b", "a b"):
        run(db, translate, name=name)
    assert len(kept(db)) == 3


@pytest.mark.parametrize("name", ["", " ", ".", "..", " .. "])
def test_an_invalid_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"^name is '"):
        run(tmp_path / "h.db", translate, name=name)
    with pytest.raises(UsageError, match=r"^job_id is '"):
        headway.WorkerPool(Shout(), job_id=name, store=tmp_path / "h.db")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["../../evil", "/etc", "a\0b", "...", "\udcff", "~", "-rf"])
def test_every_lock_is_in_its_folder(tmp_path: Path, name: str) -> None:
    cleaned = job_name(name, "map")
    lock = job_lock_at(str(tmp_path / "h.db"), cleaned)
    assert isinstance(lock, JobLock)
    assert lock.path.resolve().parent.parent == (tmp_path / "jobs").resolve()
    assert 0 < len(cleaned) <= 60


def test_a_plain_name_stays_as_it_is() -> None:
    for name in ("n", "shop.translate", "a-b_c.2", "x" * 60):
        assert job_name(name, "map") == old_job_name(name, "map") == name


def test_another_function_does_not_get_the_answers_of_the_first(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    run(db, translate, name="n")
    with pytest.raises(UsageError, match=r"was made by .*\.translate, not by .*\.grade") as error:
        run(db, grade, name="n")
    assert "another name=" in (error.value.hint or "")
    assert f'renamed_from="{translate.__module__}.translate"' in (error.value.hint or "")
    assert run(db, translate, name="n") == ["translated x"]


def test_a_renamed_function_keeps_its_job(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    run(db, translate, name="n")
    before = f"{translate.__module__}.translate"
    assert run(db, grade, name="n", renamed_from=before) == ["translated x"]
    assert run(db, grade, name="n") == ["translated x"]  # It is the job of the new one from then on.
    with pytest.raises(UsageError, match=r"was made by .*grade"):
        run(db, translate, name="n")


def test_a_renamed_function_without_a_name_of_its_job(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    run(db, translate)
    before = f"{translate.__module__}.translate"
    assert run(db, grade, renamed_from=before) == ["translated x"]
    assert [name for name, _ in kept(db)] == [before]


def test_renamed_from_is_a_text_and_needs_a_db() -> None:
    with pytest.raises(UsageError, match="renamed_from is 3"):
        headway.map(translate, ["x"], renamed_from=3)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="renamed_from"):
        headway.map(translate, ["x"], renamed_from="a.b")


def test_a_partial_needs_a_name(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    call = partial(of_module("shop", "translate"))
    with pytest.raises(UsageError, match="partial"):
        run(db, call)
    run(db, call, name="n")
    assert kept(db) == [("n", "shop.translate")]
    with pytest.raises(UsageError, match=r"was made by shop\.translate, not by shop\.grade"):
        run(db, partial(of_module("shop", "grade")), name="n")


def test_a_job_of_a_partial_from_before_is_found(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    run(db, partial(translate), name="n")
    as_before(db, "functools.partial", made_by="functools.partial")
    assert run(db, partial(grade), name="functools.partial") == ["translated x"]


@pytest.mark.parametrize("name", ["перевод", "a/b", "x" * 70])
def test_a_job_from_before_is_found_by_the_function_that_made_it(tmp_path: Path, name: str) -> None:
    db = tmp_path / "h.db"
    run(db, of_module("shop", "translate"), name=name)
    as_before(db, old_job_name(name, "map"))
    again = of_module("shop", "translate")
    again.__qualname__ = "translate"
    assert run(db, again, name=name) == ["translate x"]
    assert len(kept(db)) == 1
    assert run(db, again, name=name) == ["translate x"]
    # Another function gets a job of its own.
    assert run(db, of_module("shop", "grade"), name=name) == ["grade x"]
    assert len(kept(db)) == 2


def test_a_job_of_an_earlier_version_belongs_to_one_name(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    run(db, translate, name="a/b")
    as_before(db, "a-b")
    run(db, translate, name="a b")
    run(db, translate, name="a/b")
    assert len(kept(db)) == 2


def test_a_job_from_before_is_found_by_its_default_name(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    run(db, of_module(LONG, "translate"))
    as_before(db, old_job_name(f"{LONG}.translate", "map"))
    assert run(db, of_module(LONG, "translate")) == ["translate x"]
    assert run(db, of_module(LONG, "grade")) == ["grade x"]


def test_two_workers_under_one_name_are_not_one_job(tmp_path: Path) -> None:
    class Other(Shout):
        pass

    db = tmp_path / "h.db"
    assert pooled(db, Shout(), job_id="p") == "hi!"
    with pytest.raises(UsageError, match=r"was made by .*Shout, not by .*Other") as error:
        pooled(db, Other("?"), job_id="p")
    assert "another job_id=" in (error.value.hint or "")
    assert pooled(db, Other("?"), job_id="p", renamed_from=f"{Shout.__module__}.Shout") == "hi!"


def test_workers_of_one_name_in_two_modules_are_told_apart(tmp_path: Path) -> None:
    twin = type("Shout", (Shout,), {"__module__": "elsewhere"})
    db = tmp_path / "h.db"
    pooled(db, Shout())
    with pytest.raises(UsageError, match=r"was made by .*Shout, not by elsewhere\.Shout"):
        pooled(db, twin("?"))


def test_a_job_of_a_pool_from_before_is_found(tmp_path: Path) -> None:
    class Inner(Shout):
        pass

    db = tmp_path / "h.db"
    for worker, name in ((Shout(), "p q"), (Inner(), None)):
        db.unlink(missing_ok=True)
        given = name or type(worker).__qualname__
        assert pooled(db, worker, job_id=name) == "hi!"
        as_before(db, old_job_name(given, "pool"), made_by=type(worker).__qualname__)
        worker.mark = "?"
        assert pooled(db, worker, job_id=name) == "hi!"
        assert len(kept(db)) == 1


SCRIPT = """
import headway, sys
def ask(item):
    return f"WORD {item}"
print(headway.map(ask, ["x"], db=sys.argv[1], key=str, **eval(sys.argv[2])))
"""


def script(folder: Path, word: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "run.py").write_text(SCRIPT.replace("WORD", word))
    return folder / "run.py"


def ran(script: Path, db: Path, options: str = "{}") -> str:
    done = subprocess.run([sys.executable, script, db, options], capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_scripts_of_one_name_do_not_share_a_job(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    first, second = script(tmp_path / "translate", "translated"), script(tmp_path / "grade", "graded")
    assert ran(first, db) == "['translated x']"
    refused = ran(second, db)
    assert f"was made by run.ask of {first}, not of {second}" in refused
    assert ran(second, db, "{'name': 'grades'}") == "['graded x']"
    assert ran(first, db) == "['translated x']"


def test_a_script_that_was_moved_keeps_its_job(tmp_path: Path) -> None:
    """Alone, or together with its database; also where the old ones are still there."""
    old = tmp_path / "old"
    first = script(old, "one")
    assert ran(first, old / "h.db") == "['one x']"
    shutil.copytree(old, tmp_path / "new")
    script(tmp_path / "new", "two")
    assert ran(tmp_path / "new" / "run.py", tmp_path / "new" / "h.db") == "['one x']"
    first.unlink()
    assert ran(script(tmp_path / "moved", "two"), old / "h.db") == "['one x']"


def test_a_job_whose_name_had_a_shorter_hash_is_found(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    run(db, translate, name="a/b")
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute("update jobs set name = 'a-b-9a159f8121'")
    run(db, translate, name="a/b")
    assert [name for name, _ in kept(db)] == ["a-b-9a159f8121"]
