"""Two processes start with the same input, or the same output file, at the same moment.

The provider's counts are the proof: no request is sent by both processes. A few races of each kind run
with the suite; `make crash` runs 2,000 of each (HEADWAY_CRASH_RACES).
"""

from __future__ import annotations

import csv
import json
import os
import random
import select
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.crash.stage import KEY, ON_POSTGRES, PATIENCE_S, open_records
from tests.figures import count
from tests.postgres_server import PostgresServer

from headway.fake.process import FakeProcess, fake_process

RACES = int(os.environ.get("HEADWAY_CRASH_RACES", "4"))
SEED = int(os.environ.get("HEADWAY_CRASH_SEED", "20"))
RACER = Path(__file__).with_name("racer.py")
UNITS = 4
#: A run of four units takes about this long: the second process starts somewhere in the first one's run.
RUN_S = 0.4 if ON_POSTGRES else 0.1
#: Over PostgreSQL, every so many races are over a new store, where the tables are made by one of the two.
NEW_STORE = 10

pytestmark = pytest.mark.timeout(max(120, 2 * RACES))


class Done(NamedTuple):
    code: int
    err: str


class Racers:
    """Two processes that each run a command, the second a little later."""

    def __init__(self, pair: list[subprocess.Popen[str]]) -> None:
        self._pair = pair

    def race(self, cwd: Path, first: list[str], second: list[str], delay_s: float) -> tuple[Done, Done]:
        for racer, args, wait_s in zip(self._pair, (first, second), (0.0, delay_s), strict=True):
            _say(racer, {"cwd": str(cwd), "args": args, "delay_s": wait_s})
        one, other = (Done(**json.loads(_heard(racer))) for racer in self._pair)
        return one, other

    def alone(self, cwd: Path, *args: str) -> Done:
        _say(self._pair[0], {"cwd": str(cwd), "args": list(args), "delay_s": 0.0})
        return Done(**json.loads(_heard(self._pair[0])))


def _say(racer: subprocess.Popen[str], order: dict[str, Any]) -> None:
    assert racer.stdin is not None
    racer.stdin.write(json.dumps(order) + "\n")
    racer.stdin.flush()


def _heard(racer: subprocess.Popen[str]) -> str:
    assert racer.stdout is not None
    readable, _, _ = select.select([racer.stdout], [], [], PATIENCE_S)
    assert readable, f"a racer said nothing for {PATIENCE_S:g} s"
    line = racer.stdout.readline()
    assert line, "a racer died"
    return line


@contextmanager
def _racer() -> Iterator[subprocess.Popen[str]]:
    env = {**os.environ, "ALPHA_KEY": KEY, "HEADWAY_DEBUG": ""}
    for name in ("HEADWAY_DB", "HEADWAY_CONFIG"):
        env.pop(name, None)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, str(RACER)], env=env, **pipes) as racer:
        try:
            assert _heard(racer).strip() == "ready"
            yield racer
        finally:
            racer.kill()


@pytest.fixture(scope="module")
def racers() -> Iterator[Racers]:
    with ExitStack() as stack:
        yield Racers([stack.enter_context(_racer()) for _ in range(2)])


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeProcess]:
    with fake_process("--latency", "5ms-15ms") as started:
        yield started


@pytest.fixture
def new_store(request: pytest.FixtureRequest) -> Callable[[int], str]:
    """The line of headway.toml that names an empty store, for each race."""
    if not ON_POSTGRES:
        return lambda number: ""
    server: PostgresServer = request.getfixturevalue("postgres_server")

    def line(number: int) -> str:
        address = server.emptied_address() if number % NEW_STORE else server.address()
        return f'db = "{address}"\n'

    return line


@pytest.fixture
def places(tmp_path: Path, fake: FakeProcess, new_store: Callable[[int], str]) -> Callable[[int], Path]:
    """Makes a fresh directory with two inputs and an empty store, for each race."""

    def place(number: int) -> Path:
        root = tmp_path / str(number)
        root.mkdir()
        (root / "headway.toml").write_text(
            f'{new_store(number)}[providers.alpha]\nkind = "openai"\nbase_url = "{fake.url}/v1"\napi_key_env = "ALPHA_KEY"\nmodel = "gpt-x"\n'
        )
        for name in ("a", "b"):
            rows = ({"id": f"{name}{n}", "prompt": f"say {name}{n}"} for n in range(UNITS))
            (root / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        csv = "".join(f"c{n},say {n}\n" for n in range(UNITS))
        (root / "c.csv").write_text("id,text\n" + csv)
        return root

    return place


@pytest.fixture
def sent(fake: FakeProcess) -> Callable[[], int]:
    """The number of requests since the last call."""
    before = int(fake.stats()["total"]["admitted"])

    def since() -> int:
        nonlocal before
        now = int(fake.stats()["total"]["admitted"])
        count, before = now - before, now
        return count

    return since


def delays() -> Iterator[tuple[int, float]]:
    """The number of each race, and the delay of the second process: often 0, sometimes longer than the first one runs."""
    chance = random.Random(SEED)
    for number in range(RACES):
        yield number, chance.choice((0.0, 0.1, 0.5, 1.5)) * RUN_S * chance.random()
        count("races", races=1, units=UNITS)  # Only races that have passed.


def jobs_in(root: Path) -> list[tuple[str, str, int]]:
    address = tomllib.loads((root / "headway.toml").read_text()).get("db", "")
    with open_records(root / ".headway" / "headway.db", address) as db:
        found: list[tuple[str, str, int]] = db.execute("SELECT name, state, succeeded FROM jobs").fetchall()
    return found


def is_whole(path: Path) -> bool:
    """Whether a file has all rows of one job, in any order, and nothing else. A table does not name its job."""
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return [row["status"] for row in csv.DictReader(file)] == ["succeeded"] * UNITS
    ids = [json.loads(line)["id"] for line in path.read_text().splitlines()]
    owner = ids[0].rpartition("-")[0]
    return sorted(ids) == [f"{owner}-{n}" for n in range(UNITS)]


SAME_JOB: list[list[str]] = [
    ["run", "a.jsonl", "-q"],
    ["run", "a.jsonl", "-q", "--force"],
    ["run", "a.jsonl", "-q", "--out-order", "completion"],
    ["run", "c.csv", "--prompt", "{{text}}", "-q"],
]


def test_two_runs_of_one_file_make_and_send_one_job(
    racers: Racers, places: Callable[[int], Path], sent: Callable[[], int]
) -> None:
    for number, delay_s in delays():
        root = places(number)
        command = SAME_JOB[number % len(SAME_JOB)]
        pair = racers.race(root, command, command, delay_s)

        context = f"race {number}, {command}: {pair}"
        assert sent() == UNITS, context
        assert [(state, good) for _, state, good in jobs_in(root)] == [("complete", UNITS)], context
        [output] = root.glob("*.results.*")
        assert is_whole(output), context
        assert sorted(done.code for done in pair) in ([0, 0], [0, 2]), context
        assert all("is already running, in process" in done.err for done in pair if done.code == 2), context
        assert not list(root.glob(".*lock")), context


def test_a_job_that_two_processes_resume_is_run_by_one(
    racers: Racers, places: Callable[[int], Path], sent: Callable[[], int]
) -> None:
    for number, delay_s in delays():
        root = places(number)
        assert racers.alone(root, "run", "a.jsonl", "-q", "--max-duration", "1ms").code == 3
        [(_, _, before)] = jobs_in(root)
        sent()
        pair = racers.race(root, ["resume", "-q"], ["resume", "-q"], delay_s)

        context = f"race {number}: {pair}"
        [(_, state, good)] = jobs_in(root)
        assert (state, good) == ("complete", UNITS), context
        assert sent() == UNITS - before, context
        assert is_whole(root / "a.results.jsonl"), context
        assert sorted(done.code for done in pair) in ([0, 0], [0, 2]), context


def test_two_fresh_starts_without_an_output_have_one_each(
    racers: Racers, places: Callable[[int], Path], sent: Callable[[], int]
) -> None:
    for number, delay_s in delays():
        root = places(number)
        command = ["run", "a.jsonl", "-q", "--fresh"]
        pair = racers.race(root, command, command, delay_s)

        context = f"race {number}: {pair}"
        assert [done.code for done in pair] == [0, 0], context
        assert sent() == 2 * UNITS, context
        assert [(state, good) for _, state, good in jobs_in(root)] == [("complete", UNITS)] * 2, context
        outputs = sorted(root.glob("*.results.jsonl"))
        assert len(outputs) == 2, context
        assert (root / "a.results.jsonl") in outputs
        assert all(map(is_whole, outputs)), context
        assert not list(root.glob(".*lock")), context


SAME_OUT: list[tuple[list[str], list[str]]] = [
    (["--out", "o.jsonl"], ["--out", "o.jsonl"]),
    (["--out", "o.jsonl"], ["--out", "o.jsonl", "--db", "other/h.db"]),
    (["--out", "o.jsonl"], ["--out", "link.jsonl"]),
    (["--out", "link.jsonl", "--out-order", "completion"], ["--out", "o.jsonl"]),
    (["--out", "o.jsonl", "--out-order", "completion"], ["--out", "o.jsonl", "--out-order", "completion"]),
    (["--out", "o.jsonl", "--force"], ["--out", "o.jsonl", "--force"]),
    (["--out", "o.csv"], ["--out", "o.csv"]),
    (["--out", "o.csv", "--force"], ["--out", "o.csv", "--force"]),
]


def test_two_jobs_with_one_output_one_writes_it(
    racers: Racers, places: Callable[[int], Path], sent: Callable[[], int]
) -> None:
    for number, delay_s in delays():
        root = places(number)
        (root / "link.jsonl").symlink_to("o.jsonl")
        first, second = SAME_OUT[number % len(SAME_OUT)]
        pair = racers.race(root, ["run", "a.jsonl", "-q", *first], ["run", "b.jsonl", "-q", *second], delay_s)

        context = f"race {number}, {first}, {second}: {pair}"
        good = [done.code for done in pair].count(0)
        assert sent() == good * UNITS, context
        # With --force the second may write when the first is done.
        assert good == 1 or (good == 2 and "--force" in first), context
        assert all(done.err.startswith("headway: ") and "o." in done.err for done in pair if done.code), (
            context
        )
        assert _is_one_jobs(root), context
        assert not list(root.glob(".*lock")), context


def _is_one_jobs(root: Path) -> bool:
    if (root / "o.jsonl").exists():
        return is_whole(root / "o.jsonl")
    header, *rows = (root / "o.csv").read_text().splitlines()
    whole = ([f"{name}{n}" for n in range(UNITS)] for name in ("a", "b"))
    return header.startswith("id,") and [row.partition(",")[0] for row in rows] in whole
