"""Lists of units: pages, filters, words; the index in slices, after restarts, damage and changed answers."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from headway.core.unit_states import Status
from headway.errors import UsageError
from headway.reports.unit_pages.unit_index import SLICE, UnitIndex
from headway.reports.unit_search import Indexing, UnitList, UnitQuery, search_units
from headway.stores.files import ForeignFile
from headway.stores.records import Attempt, Job, NewJob, NewUnit, StoredRoute, UnitChange
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.sqlite.search_file import SearchFile
from headway.stores.store import Store
from headway.stores.unit_lists import UnitFilter
from headway.stores.write_batch import WriteBatch

UNITS = 2 * SLICE + 100
#: What another program may have done to an index.
FORGERIES = {
    "no progress": "DELETE FROM progress",
    "odd progress": 'UPDATE progress SET state = \'{"upto": "x"}\'',
    "no units": "DROP TABLE units",
}


class Records:
    """A job: even units are answered, every tenth has failed, the others wait."""

    def __init__(self, folder: Path, units: int = UNITS) -> None:
        self.store = Store(SqliteMemory())
        self.path = folder / "search.db"
        number = self.store.add_job(NewJob("job", "batch", "in.jsonl", "d", "", 0.0))
        self.route = self.store.add_route(number, StoredRoute("alpha", "openai", "m"))
        self.lane = self.store.lane("k", "beta/other").id
        self.store.add_units(number, 0, [self._unit(n) for n in range(units)])
        self.store.seal(number, units, {}, "d")
        for n in range(units):
            if n % 10 == 3:
                self.end(n, "failed", code="invalid", message=f"policy {n} forbids zebras")
            elif n % 2 == 0:
                self.end(n, "succeeded", answer=f"the answer is number {n} apples")

    def _unit(self, n: int) -> NewUnit:
        prompt = f"Count {n} piers über 東京都"
        body = (
            f'{{"messages":[{{"role":"system","content":"hidden"}},{{"role":"user","content":"{prompt}"}}]}}'
        )
        return NewUnit(f"row-{n:05d}", self.route, "/v1/chat/completions", body.encode())

    @property
    def job(self) -> Job:
        job = self.store.job("job")
        assert job is not None
        return job

    def end(
        self,
        index: int,
        status: str,
        *,
        code: str | None = None,
        message: str | None = None,
        answer: str = "",
    ) -> None:
        batch = WriteBatch(self.job.id)
        if self.store.states(self.job.id, [index])[index] not in ("pending", "assigned", "running"):
            batch.again.append(index)
        batch.attempts.append(Attempt(index, 1, self.lane, status, started_utc=1.0, finished_utc=2.0))
        if answer:
            batch.answers.append(
                (index, 200, None, b'{"choices":[{"message":{"content":"%s"}}]}' % answer.encode())
            )
        batch.change(
            index, UnitChange(status, 1, self.lane, code, message, started_utc=1.0, finished_utc=2.0)
        )
        self.store.commit(batch)

    def index(self) -> SearchFile:
        return SearchFile(self.path, "job 1")

    def built(self, *, live: bool = False) -> SearchFile:
        file = self.index()
        index = UnitIndex(self.store, self.job, file)
        while index.advance(10.0, live=live):
            pass
        return file

    def page(self, words: str = "", file: SearchFile | None = None, **more: object) -> UnitList:
        return search_units(self.store, self.job, UnitQuery(words, **more), file)  # type: ignore[arg-type]

    def all(self, words: str = "", file: SearchFile | None = None, **more: object) -> list[int]:
        """The units of all pages."""
        found: list[int] = []
        after = ""
        while True:
            page = self.page(words, file, after=after, **more)
            found += [unit.index for unit in page.units]
            if page.next is None:
                return found
            assert page.next != after
            after = page.next


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    return Records(tmp_path_factory.mktemp("search"))


def test_pages_follow_each_other_in_the_order_of_the_input(records: Records) -> None:
    page = records.page(limit=100)
    assert [unit.index for unit in page.units] == list(range(100))
    assert (page.matches, page.indexing) == (UNITS, None)
    assert records.all(limit=300) == list(range(UNITS))
    first = page.units[0]
    assert (first.id, first.status, first.lane, first.attempts, first.took_s) == (
        "row-00000",
        "succeeded",
        "beta/other",
        1,
        1.0,
    )
    assert (first.prompt, first.answer) == ("Count 0 piers über 東京都", "the answer is number 0 apples")
    assert (page.units[1].lane, page.units[3].message) == ("alpha/m", "policy 3 forbids zebras")


@pytest.mark.parametrize(
    ("wanted", "matching"),
    [
        (UnitFilter(statuses=("failed",)), lambda n: n % 10 == 3),
        (UnitFilter(statuses=("pending",)), lambda n: n % 2 == 1 and n % 10 != 3),
        (UnitFilter(codes=("invalid",)), lambda n: n % 10 == 3),
        (UnitFilter(lane="alpha/m"), lambda n: n % 2 == 1 and n % 10 != 3),
        (UnitFilter(statuses=("succeeded",), lane="beta/other"), lambda n: n % 2 == 0),
        (UnitFilter(statuses=("cancelled",)), lambda n: False),
    ],
)
def test_filters_accept_what_they_name(
    records: Records, wanted: UnitFilter, matching: Callable[[int], bool]
) -> None:
    assert records.all(wanted=wanted, limit=70) == [n for n in range(UNITS) if matching(n)]


def test_without_an_index_ids_are_found_by_their_beginning(records: Records) -> None:
    assert records.all("row-0004", limit=3) == list(range(40, 50))
    assert records.all("row-00042") == [42]
    assert records.all("77") == [77]
    assert records.all("zebras") == []
    failed = UnitFilter(statuses=("failed",))
    assert records.all("row-0004", wanted=failed) == [43]


def test_words_are_found_in_errors_prompts_and_answers(records: Records) -> None:
    file = records.built()
    failed = [n for n in range(UNITS) if n % 10 == 3]
    assert records.all("zebras", file, limit=7) == failed
    assert records.all("ZEB polic", file) == failed
    assert records.all("apples 404", file) == [404]
    assert records.all("ÜBER", file, limit=500) == list(range(UNITS))
    assert records.all("京", file, limit=500) == list(range(UNITS))
    assert records.all("hidden", file) == []
    assert records.all("row-00404", file) == [404]
    assert records.all("count", file, wanted=UnitFilter(statuses=("failed",))) == failed
    page = records.page("zebras", file)
    assert (page.matches, page.indexing) == (len(failed), None)
    for hostile in ('"', "'; DROP TABLE words; --", "a\x00b", "NEAR(", "*", "col:x", "\ud800"):
        records.page(hostile, file)


def test_a_page_is_served_while_the_index_is_built_and_the_rest_comes_later(tmp_path: Path) -> None:
    records = Records(tmp_path)
    file = records.index()
    index = UnitIndex(records.store, records.job, file)
    assert records.page("zebras", file).indexing == Indexing(0, UNITS)
    assert index.advance(0.0, live=False)
    page = records.page("zebras", file)
    assert page.indexing == Indexing(SLICE, UNITS)
    assert [unit.index for unit in page.units] == list(range(3, SLICE, 10))
    file.close()
    again = records.index()  # After a restart it goes on from there.
    assert again.progress().upto == SLICE - 1
    assert len(records.all("zebras", records.built())) == UNITS // 10
    assert stat.S_IMODE(records.path.stat().st_mode) == 0o600


def test_a_changed_answer_is_found_and_the_old_one_is_not(tmp_path: Path) -> None:
    records = Records(tmp_path, units=30)
    assert records.all("apples", records.built(live=True)) == list(range(0, 30, 2))
    records.end(4, "succeeded", answer="now it is pears")
    records.end(5, "succeeded", answer="also pears")
    file = records.built(live=True)
    assert records.all("apples", file) == [n for n in range(0, 30, 2) if n != 4]
    assert sorted(records.all("pears", file)) == [4, 5]
    batch = WriteBatch(records.job.id)
    batch.change(
        7, UnitChange(str(Status.CANCELLED), code="interrupted", message="unwanted", finished_utc=3.0)
    )
    records.store.commit(batch)
    assert records.all("unwanted", records.built(live=True)) == [7]


def test_units_that_wait_are_found_by_their_prompt_once_no_process_runs_the_job(tmp_path: Path) -> None:
    records = Records(tmp_path, units=20)
    ended = [n for n in range(20) if n % 2 == 0 or n % 10 == 3]
    assert records.all("piers", records.built(live=True)) == ended
    assert sorted(records.all("piers", records.built())) == list(range(20))


@pytest.mark.parametrize("damage", ["cut", "other", "noise", "no progress", "odd progress", "no units"])
def test_a_damaged_index_is_made_again(tmp_path: Path, damage: str) -> None:
    records = Records(tmp_path, units=600)
    records.built().close()
    size = records.path.stat().st_size
    if damage == "cut":
        with records.path.open("r+b") as file:
            file.truncate(size // 2)
    elif damage == "other":
        records.path.write_bytes(b"this is no database" * 100)
    elif damage != "noise":
        with closing(sqlite3.connect(records.path)) as forged, forged:
            forged.execute(FORGERIES[damage])
    else:
        with records.path.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * (size - 8192))
    records.all("zebras", records.index())
    found = records.built()
    assert records.all("zebras", found) == list(range(3, 600, 10))


@pytest.mark.parametrize("target", ["a database", "nothing"])
def test_a_link_in_the_place_of_the_index_is_not_followed(tmp_path: Path, target: str) -> None:
    foreign = tmp_path / "foreign.db"
    if target == "a database":
        with closing(sqlite3.connect(foreign)) as file, file:
            file.execute("CREATE TABLE own (a)")
    before = foreign.read_bytes() if foreign.exists() else None
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "search.db").symlink_to(foreign)
    with pytest.raises(ForeignFile, match="symbolic link"):
        SearchFile(tmp_path / "jobs" / "search.db", "job 1")
    assert (foreign.read_bytes() if foreign.exists() else None) == before


def test_the_index_of_another_job_is_not_used(tmp_path: Path) -> None:
    records = Records(tmp_path, units=20)
    records.built().close()
    other = SearchFile(records.path, "job 2")
    assert other.progress().upto == -1


def test_a_cursor_of_another_list_is_refused(records: Records) -> None:
    with pytest.raises(UsageError, match="is not the 'next' of a page"):
        records.page(after="nonsense")
    for number in ("9" * 20, "-" + "9" * 5_000):  # More than SQLite has, and more than Python reads.
        with pytest.raises(UsageError, match="is not the 'next' of a page"):
            records.page("apples", after=f"w{number}")
