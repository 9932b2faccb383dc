"""The test bed of crash and command tests: a directory with a job in it, `headway` as a process, and the records and the
provider's counts afterwards.

The counts of the provider are the proof. Every unit is sent under its own name (the request's `user`), so that
`/stats/requests/NAME` says how often it arrived, no matter which process sent it.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.request import urlopen

import psycopg
import pytest
from tests.figures import count

from headway.fake.process import FakeProcess
from headway.stores.postgres.address import parse_address
from headway.stores.postgres.connection import connect
from headway.stores.postgres.statements import translated

HEADWAY = ("-m", "headway")
LAUNCHER = Path(__file__).with_name("launcher.py")
#: Whether all tests run over PostgreSQL: tests/conftest.py.
ON_POSTGRES = os.environ.get("HEADWAY_TEST_STORE") == "postgres"
#: For faults of a file: a full disk, a link, a lock that is deleted.
of_sqlite = pytest.mark.skipif(ON_POSTGRES, reason="a fault of a SQLite file")
KEY = "sk-crash-4f9a1c77e2b84d0c"
PATIENCE_S = 60.0  # Two cores may be busy with much else.
#: The names of all tables.
TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
T = TypeVar("T")

#: Fields that differ between two successful runs.
_TIMES = ("attempts", "started_utc", "finished_utc")


def wait_for(what: str, condition: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
    """Poll until the condition is true; returns its value. Fails after `patience_s`, with `what` in the message."""
    give_up_at = time.monotonic() + patience_s
    while not (value := condition()):
        if time.monotonic() > give_up_at:
            raise AssertionError(f"{what}: not within {patience_s:g} s")
        time.sleep(0.005)
    return value


@contextmanager
def started(*args: str, **how: Any) -> Iterator[subprocess.Popen[str]]:
    """`python ARGS` as a process that ends with the `with` block; `how` are arguments of Popen."""
    process = subprocess.Popen([sys.executable, *args], stdin=subprocess.DEVNULL, text=True, **how)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


class ServerRecords:
    """The records in PostgreSQL, asked as those in SQLite."""

    #: What SQLite is asked about itself. Whether its files are whole is the server's own affair.
    _OWN: ClassVar[dict[str, str]] = {
        "PRAGMA integrity_check": "SELECT 'ok'",
        "PRAGMA user_version": "SELECT version FROM headway_version",
        TABLES: "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename",
    }

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Any:
        sql = self._OWN.get(sql) or translated(sql).sql
        return self._connection.execute(sql.encode(), values, binary=True)


@contextmanager
def open_records(db: Path, address: str) -> Iterator[sqlite3.Connection | ServerRecords]:
    """The records of a run, read-only: those at `address`, or in the file where it is ""."""
    if address:
        with closing(connect(parse_address(address), read_only=True)) as server:
            yield ServerRecords(server)
        return
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as file:
        yield file


@dataclass
class Stage:
    """One directory: its configuration, its input, its records."""

    root: Path
    fake: FakeProcess
    #: The prefix of unit names at the provider.
    tag: str
    units: int = 40
    env: dict[str, str] = field(default_factory=dict)
    #: Of a store in PostgreSQL; "": the records are in the file `db`.
    address: str = field(default_factory=lambda: Stage.new_address())  # noqa: PLW0108 - it is set later.
    #: Returns an address for each stage: `make crash STORE=postgres`.
    new_address: ClassVar[Callable[[], str]] = str

    @property
    def db(self) -> Path:
        return self.root / ".headway" / "headway.db"

    @property
    def input(self) -> Path:
        return self.root / "in.jsonl"

    @property
    def out(self) -> Path:
        return self.root / "in.results.jsonl"

    # -- before ------------------------------------------------------------------------------------------------

    def configure(
        self, limits: str = "max_concurrency = 8", *, more: str = "", model: str = "gpt-x", provider: str = ""
    ) -> None:
        """Write headway.toml; `more` goes to its end, `provider` into the provider's table."""
        (self.root / "headway.toml").write_text(
            f'[providers.alpha]\nkind = "openai"\nbase_url = "{self.fake.url}/v1"\napi_key_env = "ALPHA_KEY"\n'
            f'model = "{model}"\n{provider}\n[providers.alpha.limits]\n{limits}\n{more}\n',
            encoding="utf-8",
        )

    def name(self, index: int) -> str:
        """The name of a unit at the provider."""
        return f"{self.tag}-{index}"

    def row(self, index: int, **more: Any) -> dict[str, Any]:
        return {"id": f"u{index}", "prompt": f"say {index}", "user": self.name(index), **more}

    def write_input(self, rows: list[dict[str, Any]] | None = None) -> None:
        rows = [self.row(index) for index in range(self.units)] if rows is None else rows
        self.input.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    # -- processes ----------------------------------------------------------------------------------------------

    def environ(self, **more: str) -> dict[str, str]:
        return {
            **os.environ,
            "ALPHA_KEY": KEY,
            "PYTHONWARNINGS": "error",
            "HEADWAY_DEBUG": "",
            **({"HEADWAY_DB": self.address} if self.address else {}),
            **self.env,
            **more,
        }

    @contextmanager
    def process(
        self, *args: str, faults: dict[str, Any] | None = None, preexec: Callable[[], None] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """`headway ARGS` as a process; its output is captured."""
        program, env = list(HEADWAY), self.environ()
        if faults is not None:
            program, env = [str(LAUNCHER)], self.environ(HEADWAY_TEST_FAULTS=json.dumps(faults))
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": preexec}
        with started(*program, *args, cwd=self.root, env=env, **how) as process:
            yield process

    def run(self, *args: str, **how: Any) -> subprocess.CompletedProcess[str]:
        """Run `headway ARGS` to its end."""
        with self.process(*args, **how) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def ends_by_kill(self, *args: str, faults: dict[str, Any]) -> None:
        """Run a process that must be killed by a fault."""
        done = self.run(*args, faults=faults)
        assert done.returncode == -signal.SIGKILL, (
            f"{faults} was not reached: {done.returncode}\n{done.stderr}"
        )
        count("chosen kills", kills=1)

    # -- after --------------------------------------------------------------------------------------------------

    @contextmanager
    def records(self) -> Iterator[sqlite3.Connection | ServerRecords]:
        """The database, read-only."""
        with open_records(self.db, self.address) as db:
            yield db

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.records() as db:
            return db.execute(sql, values).fetchall()

    def statuses(self) -> dict[int, str]:
        """The status of every unit; empty before the ingest."""
        if not (self.address or self.db.exists()):
            return {}
        try:
            return dict(self.query('SELECT "index", status FROM units ORDER BY uid'))
        except (sqlite3.OperationalError, psycopg.errors.UndefinedTable):  # It died before there were tables.
            return {}

    def has_records(self) -> bool:
        """Whether there are tables."""
        return ("units",) in self.query(TABLES) if self.address or self.db.exists() else False

    def committed(self) -> set[int]:
        return {index for index, status in self.statuses().items() if status == "succeeded"}

    def unknown_units(self) -> set[int]:
        return {index for index, status in self.statuses().items() if status in ("assigned", "running")}

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.read_text(encoding="utf-8").splitlines()]

    def rows_of(self, name: str) -> list[dict[str, Any]]:
        """The results of a job with a name."""
        path = self.root / f"in.{name}.results.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def provider_counts(self, index: int) -> dict[str, Any]:
        """The counts of a unit at the provider: admitted, answered, refused."""
        try:
            with urlopen(f"{self.fake.url}/stats/requests/{self.name(index)}", timeout=10) as answer:
                counts: dict[str, Any] = json.load(answer)
        except OSError:
            return {"admitted": 0, "ok": 0, "refused": 0}
        return counts

    def sent(self, index: int) -> int:
        """How often the provider admitted a unit."""
        return int(self.provider_counts(index)["admitted"])

    def progress(self) -> dict[str, Any]:
        [path] = (self.root / ".headway" / "jobs").glob("*/progress.json")
        progress: dict[str, Any] = json.loads(path.read_bytes())
        return progress

    def job(self) -> dict[str, Any]:
        """The row of the latest job in the store."""
        with self.records() as db:
            cursor = db.execute("SELECT * FROM jobs ORDER BY id DESC LIMIT 1")
            return dict(zip([column[0] for column in cursor.description], cursor.fetchone(), strict=True))


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Output rows without the fields that may differ between two successful runs: times, request ids, counts of attempts."""
    stripped = []
    for row in rows:
        row = json.loads(json.dumps(row))
        row.pop("id")
        for name in _TIMES:
            row["headway"].pop(name)
        if row["response"] is not None:
            row["response"].pop("request_id")
            for name in ("id", "created"):
                row["response"]["body"].pop(name, None)
        stripped.append(row)
    return stripped


def echoes(units: int) -> list[dict[str, Any]]:
    """The output of an uninterrupted run, limited to the parts that depend on the input alone."""
    return [
        {"index": index, "custom_id": f"u{index}", "status": "succeeded", "content": f"echo: say {index}"}
        for index in range(units)
    ]


def contents(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "index": row["headway"]["index"],
            "custom_id": row["custom_id"],
            "status": row["headway"]["status"],
            "content": row["response"]["body"]["choices"][0]["message"]["content"]
            if row["response"]
            else None,
        }
        for row in rows
    ]


class Witness:
    """Observes a job over any number of crashes, and compares the counts of the provider with the records.

    After each crash, `note_crash` notes which units were committed and which were in flight. At the end every unit must have an
    answer, no committed unit may have been sent again, and no unit may have been sent more often than 1 + the number of
    times its outcome was unknown.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.crashes = 0
        self.unknown_times: dict[int, int] = {}
        self.named = 0
        self._sent_when_committed: dict[int, int] = {}

    def note_crash(self) -> set[int]:
        """Read the records of a dead process; returns the units whose outcome is unknown."""
        self.crashes += 1
        for index in self.stage.committed():
            if index not in self._sent_when_committed:
                self._sent_when_committed[index] = self.stage.sent(index)
        unknown = self.stage.unknown_units()
        for index in unknown:
            self.unknown_times[index] = self.unknown_times.get(index, 0) + 1
        return unknown

    def check_named(self, stderr: str, unknown: set[int]) -> None:
        """The next process must name exactly these units (`--progress json`)."""
        began = [json.loads(line) for line in stderr.splitlines() if '"event":"began"' in line]
        if not began:
            return  # It was killed before that line.
        assert set(began[0]["unknown"]) == {f"u{index}" for index in unknown}
        self.named += len(unknown)

    def check_result(self, reference: list[dict[str, Any]]) -> None:
        """The job is complete: no result is lost, and only units with unknown outcomes may have been sent twice."""
        stage = self.stage
        rows = stage.rows()
        assert plain(rows) == reference
        job = stage.job()
        assert [row["id"] for row in rows] == [f"{job['name']}-{index}" for index in range(stage.units)]
        assert (job["state"], job["succeeded"], job["total"]) == ("complete", stage.units, stage.units)
        assert set(stage.statuses().values()) == {"succeeded"}
        for index in range(stage.units):
            sent = stage.sent(index)
            before = self._sent_when_committed.get(index)
            assert before is None or sent == before, f"unit {index} was sent again after its answer was safe"
            assert 1 <= sent <= 1 + self.unknown_times.get(index, 0), f"unit {index} was sent {sent} times"
        with stage.records() as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            doubles = "SELECT uid FROM attempts WHERE outcome = 'succeeded' GROUP BY uid HAVING count(*) > 1"
            assert db.execute(doubles).fetchall() == []
            assert db.execute("SELECT count(*) FROM answers").fetchone() == (stage.units,)
