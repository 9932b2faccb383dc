"""Engines that wait for jobs (`headway serve`), each in a folder of its own as on machines of their own, and jobs that are handed to them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.crash.stage import KEY, Stage, contents, echoes, wait_for
from tests.postgres_server import PostgresServer

from headway.fake.process import FakeProcess, fake_process
from headway.stores.postgres.address import parse_address
from headway.stores.postgres.connection import connect

UNITS = 160
ENGINES = ("one", "two", "three", "rich")
IN_FLIGHT = 4
#: A dead engine's job goes on elsewhere within half a minute, with leases of 15 s. Here they are shorter.
LEASE_S = 3
FLOW = "name: f\nstate:\n  schema: {text: string}\ngraph:\n  nodes:\n    - {id: t, kind: tool, impl: ./tool.py:main, writes: [text]}\n"
TAKE_OVER_S = 30.0


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProcess]:
    keys = [flag for name in ENGINES for flag in ("--key", f"{name}={_key(name)}")]
    with fake_process("--latency", "200ms", *keys) as fake:
        yield fake


def _key(name: str) -> str:
    """The key of an engine: the provider counts each of them by itself."""
    return f"sk-{name}-0123456789abcdef"


def _received(stage: Stage, name: str) -> int:
    with urlopen(f"{stage.fake.url}/stats", timeout=10) as answer:
        return int(json.load(answer)["accounts"].get(name, {"received": 0})["received"])


@pytest.fixture
def stage(tmp_path: Path, provider: FakeProcess, postgres_server: PostgresServer) -> Stage:
    address = f"{postgres_server.address()}&lease={LEASE_S}"
    made = Stage(tmp_path, provider, f"served-{tmp_path.name}", units=UNITS, address=address)
    made.configure(f"max_concurrency = {IN_FLIGHT}")
    made.write_input()
    return made


@contextmanager
def _engine(
    stage: Stage, name: str, *, key: str | None = None
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A `headway serve` in its folder, and the file of its events."""
    environ = {"ALPHA_KEY": _key(name) if key is None else key}
    engine = Stage(stage.root / name, stage.fake, stage.tag, env=environ, address=stage.address)
    engine.root.mkdir(exist_ok=True)
    engine.configure(f"max_concurrency = {IN_FLIGHT}")
    said = engine.root / "events"
    with said.open("a") as file:
        command = [sys.executable, "-m", "headway", "serve", "--json"]
        process = subprocess.Popen(
            command, cwd=engine.root, env=engine.environ(), stdout=file, stderr=file, text=True
        )
        try:
            yield process, said
        finally:
            process.kill()
            process.wait()


def _owner(stage: Stage) -> int:
    """The process that has the lease of the job; 0: there is none."""
    rows = stage.query("SELECT pid FROM leases WHERE is_live(leases)")
    return int(rows[0][0]) if rows else 0


def _more(stage: Stage, than: int) -> bool:
    return len(stage.committed()) >= min(than, UNITS)


def test_a_job_goes_on_elsewhere_when_its_engine_dies_or_stops(stage: Stage) -> None:
    submitted = stage.run("submit", "in.jsonl", "--json")
    job = json.loads(submitted.stdout)["job"]
    again = json.loads(stage.run("submit", "in.jsonl", "--json").stdout)
    assert (again["job"], again["new"]) == (job, False)
    with _engine(stage, "one") as (one, _), _engine(stage, "two") as (two, _):
        owner = wait_for("a run", lambda: _owner(stage))
        wait_for("units end", lambda: _more(stage, 20))
        engine = {_parent(owner): 1}
        dead, alive = (one, two) if one.pid in engine else (two, one)
        before, sent = len(stage.committed()), stage.committed()
        counts = {index: stage.sent(index) for index in sent}
        for pid in (owner, dead.pid):
            os.kill(pid, signal.SIGKILL)
        wait_for("it goes on", lambda: _more(stage, before + 20), TAKE_OVER_S)
        second = _owner(stage)
        assert _parent(second) == alive.pid
        assert {index: stage.sent(index) for index in sent} == counts, "what had ended ran again"
        os.kill(second, signal.SIGSTOP)
        name = "two" if alive is two else "one"
        stopped_with, received = len(stage.committed()), _received(stage, name)
        with _engine(stage, "three") as (third, of_third):
            wait_for("a third process has it", lambda: _owner(stage) not in (0, second), TAKE_OVER_S)
            assert _parent(_owner(stage)) == third.pid
            os.kill(second, signal.SIGCONT)
            wait_for("the second has gone", lambda: not Path(f"/proc/{second}").exists())
            assert _received(stage, name) == received, "it has sent something new"
            wait_for("the end", lambda: stage.job()["state"] == "complete", 60.0)
            wait_for("its event", lambda: '"ended"' in of_third.read_text())
    assert stopped_with < UNITS
    told = (stage.root / name / "events").read_text()
    assert "another process has taken over this job" in told
    assert " of this run " in told, "what is lost"
    # What was in flight in the process that was killed, and in the one that was stopped, or had just ended, may have been sent twice.
    twice = {index: n - 1 for index in range(UNITS) if (n := stage.sent(index)) != 1}
    runs = stage.query("SELECT text FROM events WHERE what = 'began'")
    assert sum(twice.values()) <= 4 * IN_FLIGHT, (twice, told)
    assert len(runs) == 3, runs
    exported = stage.run("export", job)
    assert contents([json.loads(line) for line in exported.stdout.splitlines()]) == echoes(UNITS)
    assert not stage.out.exists()


def _parent(pid: int) -> int:
    """The process that has started another one; 0: it has gone."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def test_an_engine_leaves_what_it_cannot_run_and_what_a_user_stopped(stage: Stage) -> None:
    """A job for another engine waits; `attach` sees a run of another machine; Ctrl-C leaves the job to others."""
    stage.units = 1_000  # More than end within the test.
    stage.write_input()
    job = json.loads(stage.run("submit", "in.jsonl", "--json").stdout)["job"]
    with _engine(stage, "poor", key="") as (_, of_poor):
        wait_for("it says why", lambda: '"left"' in of_poor.read_text())
        assert "ALPHA_KEY" in of_poor.read_text()
        with _engine(stage, "rich") as (rich, of_rich):
            wait_for("units end", lambda: _more(stage, 10))
            with stage.process("attach", job, "--progress", "json") as watching:
                assert watching.stderr is not None
                lines = (line for line in watching.stderr if '"event":"progress"' in line)
                assert next(lines, ""), "no live view"
            rich.send_signal(signal.SIGINT)
            assert rich.wait(30) == 130
            assert '"stopped"' in of_rich.read_text()
        assert stage.job()["state"] == "interrupted"
        assert of_poor.read_text().count('"left"') == 1, "it says so once"
        ended = len(stage.committed())
        with _engine(stage, "rich"):
            wait_for("it goes on", lambda: _more(stage, ended + 10))
            assert stage.run("cancel", job).returncode == 0
            wait_for("the end of the run", lambda: not _owner(stage))
            with _engine(stage, "other") as (_, of_other):
                wait_for("it looks", lambda: '"started"' in of_other.read_text())
                assert stage.run("status", job).returncode == 0
                assert '"took"' not in of_other.read_text()
    assert stage.job()["state"] == "cancelled"


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("in.jsonl", "--provider", "claude"), "programs and files of this machine"),
        (("flow.yaml",), "its tools are"),
    ],
)
def test_jobs_that_need_this_machine_are_refused(stage: Stage, flags: tuple[str, ...], reason: str) -> None:
    (stage.root / "flow.yaml").write_text(FLOW)
    (stage.root / "tool.py").write_text("def main(state):\n    return {'text': 'x'}\n")
    refused = stage.run("submit", *flags)
    assert (refused.returncode, reason in refused.stderr) == (2, True), refused.stderr
    assert KEY not in refused.stderr
    assert stage.statuses() == {}


def _resume_as_an_engine(stage: Stage, job: str) -> subprocess.CompletedProcess[str]:
    """The process of a job, as an engine starts it."""
    reading, alive = os.pipe()
    command = [sys.executable, "-m", "headway", "resume", "--served", str(reading), "--", job]
    try:
        return subprocess.run(command, cwd=stage.root, env=stage.environ(), pass_fds=(reading,), capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    finally:
        os.close(reading)
        os.close(alive)


def test_what_was_decided_while_a_process_starts_is_kept(stage: Stage) -> None:
    """A process takes a second to start: a job that was cancelled meanwhile stays so. Names from other programs lead nowhere."""
    job = json.loads(stage.run("submit", "in.jsonl", "--json").stdout)["job"]
    paused = stage.run("pause", job)
    assert (paused.returncode, "waits for an engine" in paused.stderr) == (2, True), paused.stderr
    assert stage.run("cancel", job).returncode == 0
    late = _resume_as_an_engine(stage, job)
    assert (late.returncode, "no longer waits for an engine" in late.stderr) == (2, True), late.stderr
    assert stage.job()["state"] == "cancelled"
    assert set(stage.statuses().values()) == {"pending"}
    assert stage.run("submit", "in.jsonl").returncode == 0
    with closing(connect(parse_address(stage.address), read_only=False)) as database:
        database.execute("UPDATE jobs SET settings = '[]'")
        with _engine(stage, "two") as (two, told):
            wait_for("it says why", lambda: '"left"' in told.read_text())
            assert "its records cannot be read" in told.read_text()
            assert two.poll() is None
        database.execute("UPDATE jobs SET settings = '{}', name = '../../../out'")
    with _engine(stage, "one") as (_, told):
        wait_for("it says why", lambda: '"left"' in told.read_text())
        assert "its name is not one that Headway gives" in told.read_text()
    refused = _resume_as_an_engine(stage, "../../../out")
    assert "leads out of its folder" in refused.stderr
    assert not (stage.root.parent / "out").exists()
