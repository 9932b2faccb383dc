"""One contract for everything that runs units outside this process: Python workers, any program, agent CLIs, functions and scripts of
an eval file.

Each test runs with every executor. Those on Ray need a cluster, which tests/on_ray starts in a network namespace: there these tests run
for them.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.contract import executor_acts
from tests.crash.stage import wait_for
from tests.executors.conftest import gone_within
from tests.providers.wire import Admissions

from headway.config.settings import CodeConfig, CommandConfig, ScriptConfig, WorkersConfig
from headway.core.model import Kind
from headway.core.retry import THROTTLES
from headway.executors.code.code_adapter import CodeAdapter
from headway.executors.commands.clis.agent_clis import AGENT_CLIS
from headway.executors.commands.command_adapter import CommandAdapter
from headway.executors.commands.script_adapter import ScriptAdapter
from headway.executors.on_ray.cluster import Cluster, ClusterSettings, is_connected
from headway.executors.on_ray.hosts import HostSettings
from headway.executors.on_ray.messages import ProgramSetup
from headway.executors.on_ray.ray_pool import RayPool
from headway.executors.on_ray.ray_programs import RayPrograms
from headway.executors.python_adapter import PythonAdapter
from headway.providers.adapter import Answer, Request
from headway.providers.attempt_log import AgentProgress, EarlierSession
from headway.providers.scrubber import Scrubber

EXECUTORS = ("python", "command", "code", "script", *AGENT_CLIS)
#: Where the cluster is, if there is one.
CLUSTER = os.environ.get("HEADWAY_TEST_RAY", "")
ON_RAY = ("ray-python", "ray-command") if CLUSTER else ()
SECRET = "a-secret-that-has-no-known-form"
Executor = PythonAdapter | CommandAdapter


class Records:
    """What an executor reports of attempts and of its processes."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.ran_in: list[int] = []
        self.living: dict[int, str] = {}
        self.ended_pids: dict[int, bool] = {}

    def started(self, pid: int, name: str) -> None:
        self.living[pid] = name

    def ended(self, pid: int, *, failed: bool) -> None:
        self.living.pop(pid)
        self.ended_pids[pid] = failed

    def runs_in(self, pid: int) -> None:
        assert pid in self.living
        self.ran_in.append(pid)

    async def earlier_session(self) -> EarlierSession | None:
        return None

    def line(self, line: bytes, messages: bytes) -> Awaitable[None] | None:
        self.lines += [line, messages]
        return None

    async def record(self, details: bytes) -> None:
        json.loads(details)

    def progress(self, progress: AgentProgress) -> None:
        """Only agents report it."""


Make = Callable[..., Executor]


@pytest.fixture(params=ON_RAY or EXECUTORS)
async def make(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Make]:
    """Makes executors of one kind that work in the test's directory, and closes them."""
    monkeypatch.chdir(tmp_path)
    made: list[Executor] = []
    acts = shutil.copy(executor_acts.__file__, tmp_path / "executor_acts.py")

    def new(max_answer: int = 0) -> Executor:
        kind, scrub, root = request.param, Scrubber([SECRET]), str(tmp_path)
        if kind == "python":
            workers = WorkersConfig("executor_acts:work", preflight="none")
            made.append(PythonAdapter(workers, "m", 1, root, "providers.w", scrub, max_answer))
        elif kind == "code":
            function = CodeConfig(
                "acts", preflight="none", directory=root, file=str(acts), function="provide"
            )
            made.append(CodeAdapter(function, 1, "providers.w", scrub, max_answer))
        elif kind == "script":
            script = ScriptConfig((sys.executable, str(acts), "text"), preflight="none", directory=root)
            made.append(ScriptAdapter(script, {}, frozenset(), scrub, max_answer))
        elif kind == "ray-python":
            workers = WorkersConfig("executor_acts:work", preflight="none")
            adapter = PythonAdapter(workers, "m", 1, root, "providers.w", scrub, max_answer)
            adapter.use_pool(partial(RayPool, on_cluster(root)))
            made.append(adapter)
        else:
            on_ray, kind = kind.startswith("ray-"), kind.removeprefix("ray-")
            form = "text" if kind == "command" else kind
            # As `sh -c SCRIPT NAME …`: options of a CLI are ignored.
            command = ("sh", "-c", f"exec {sys.executable} {acts} {form}", "agent")
            config = CommandConfig(command, preflight="none")
            cli = AGENT_CLIS.get(kind)
            program = CommandAdapter(config, cli, "m", root, frozenset(), scrub, max_answer)
            if on_ray:
                setup = ProgramSetup(None, (), kind if cli else "")
                program.use_runner(RayPrograms(on_cluster(root), setup))
            made.append(program)
        return made[-1]

    if CLUSTER and not is_connected():
        await Cluster.connect(on_cluster("").cluster)  # Kept open: each test would take a second to connect.
    yield new
    for executor in made:
        await executor.close()


def on_cluster(root: str) -> HostSettings:
    """One unit at a time, in this folder, which all nodes see."""
    return HostSettings(ClusterSettings(CLUSTER, root, travels=False), size=1)


async def run(
    executor: Executor, act: str, records: Records | None = None, timeout_s: float = 60.0
) -> Answer:
    body = json.dumps({"prompt": act}).encode()
    records = records or Records()
    executor.watch_workers(records)
    return await executor.send(
        Request("", body, session="u", attempt=1, log=records), timeout_s, Admissions()
    )


def text_of(answer: Answer) -> str:
    assert answer.outcome.kind is None, answer.outcome
    body = json.loads(answer.body)
    return str(body["output"] if "output" in body else body["content"][0]["text"])


def details_of(answer: Answer) -> dict[str, Any]:
    return dict(json.loads(answer.note or b"{}"))


async def test_a_unit_that_succeeds_has_its_answer(make: Make) -> None:
    executor = make()
    assert text_of(await run(executor, "say hello")) == "hello"
    assert text_of(await run(executor, "say again")) == "again"


async def test_a_unit_that_fails_says_why_and_keeps_what_it_printed(make: Make) -> None:
    answer = await run(make(), "fail for a reason")
    assert answer.outcome.kind not in (None, Kind.CRASH, Kind.TIMEOUT)
    assert "it broke: for a reason" in answer.outcome.message
    assert "trail: for a reason" in details_of(answer)["stderr"]


async def test_a_unit_that_kills_its_process_is_a_crash_and_the_next_one_runs(make: Make) -> None:
    executor, records = make(), Records()
    answer = await run(executor, "crash", records)
    assert answer.outcome.kind is Kind.CRASH
    assert "SIGKILL" in answer.outcome.message
    assert records.ended_pids[records.ran_in[0]] is True
    assert text_of(await run(executor, "say hello", records)) == "hello"


async def test_a_unit_that_takes_too_long_is_killed_with_all_that_it_started(
    make: Make, tmp_path: Path
) -> None:
    executor, records = make(), Records()
    await run(executor, "say ready", records)  # A worker that is ready does not start within the deadline.
    answer = await run(executor, "hang", records, timeout_s=1.5)
    assert answer.outcome.kind is Kind.TIMEOUT
    assert "1.5 s" in answer.outcome.message
    assert all(gone_within(pid, 3.0) for pid in pids(tmp_path))
    assert records.ended_pids[records.ran_in[-1]] is True


async def test_a_cancelled_unit_leaves_no_process(make: Make, tmp_path: Path) -> None:
    executor = make()
    sending = asyncio.ensure_future(run(executor, "hang"))
    await asyncio.to_thread(wait_for, "its processes", (tmp_path / "pids").exists)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await executor.close()
    assert all(gone_within(pid, 3.0) for pid in pids(tmp_path))


def pids(tmp_path: Path) -> list[int]:
    return [int(pid) for pid in (tmp_path / "pids").read_text().split()]


async def test_secrets_are_blotted_out_of_everything(make: Make) -> None:
    executor, records = make(), Records()
    said, failed = (
        await run(executor, f"say {SECRET}", records),
        await run(executor, f"fail {SECRET}", records),
    )
    assert text_of(said) == "***"
    assert "it broke: ***" in failed.outcome.message
    for place in (said.body, said.note, failed.note, failed.outcome.message.encode(), *records.lines):
        assert SECRET.encode() not in place


async def test_a_limit_is_recognised_and_says_where_it_was_found(make: Make) -> None:
    answer = await run(make(), "limit")
    assert answer.outcome.kind in THROTTLES
    assert answer.outcome.hint is not None
    assert answer.outcome.hint.retry_after_s == 20.0
    assert answer.rate_limit is not None
    assert answer.rate_limit.source


async def test_an_answer_that_talks_about_limits_is_an_answer(make: Make) -> None:
    assert text_of(await run(make(), f"say {executor_acts.LIMIT}")) == executor_acts.LIMIT


async def test_an_answer_above_the_ceiling_is_invalid_and_not_kept(make: Make) -> None:
    executor = make(max_answer=100_000)
    answer = await run(executor, "many 200000")
    assert answer.outcome.kind is Kind.INVALID
    assert "100,000" in answer.outcome.message
    assert "max_answer_bytes" in answer.outcome.message
    assert answer.body == b""
    assert len(answer.note) < 50_000
    assert text_of(await run(executor, "say hello")) == "hello"


async def test_a_unit_that_floods_its_error_output_is_neither_blocked_nor_kept_whole(make: Make) -> None:
    answer = await run(make(), "flood")
    assert text_of(answer) == "done"
    assert len(answer.note) < 50_000


async def test_every_attempt_names_the_process_that_runs_it(make: Make) -> None:
    executor, records = make(), Records()
    await run(executor, "say hello", records)
    [pid] = records.ran_in
    assert pid != os.getpid()
    await executor.close()
    assert records.living == {}
    assert records.ended_pids[pid] is False
