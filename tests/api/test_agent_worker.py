"""`headway.AgentWorker` in `map`, in a pool and alone, with scripts that speak as Claude Code does."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, assert_type

import msgspec
import pytest
from tests.crash.stage import started, wait_for
from tests.executors.conftest import gone_within

import headway
from headway.api.agents.directory_groups import DirectoryGroups
from headway.core.model import Kind

Script = Callable[[str], str]

INIT = '{"type":"system","subtype":"init","session_id":"S"}'
SAYS = '{"type":"assistant","message":{"content":[{"type":"text","text":"I look."}]},"session_id":"S"}'
DONE = (
    '{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"Done.","session_id":"S",'
    '"total_cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":3}}'
)
REFUSED = (
    '{"type":"result","subtype":"success","is_error":true,"api_error_status":429,'
    '"result":"API Error: Request rejected (429)"}'
)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Makes a program of a shell script; it runs in an empty folder, which is the working directory."""
    monkeypatch.chdir(tmp_path)

    def make(text: str) -> str:
        path = tmp_path / f"agent-{len(list(tmp_path.iterdir()))}"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return make


def claude(path: str, **more: Any) -> headway.AgentWorker[str]:
    return headway.AgentWorker("claude", command=[path], **more)


def answers(*events: str, code: int = 0) -> str:
    return "\n".join(["cat >/dev/null", *(f"echo '{event}'" for event in events), f"exit {code}"])


# -- map ------------------------------------------------------------------------------------------------------------


def test_map_returns_the_answers_of_a_program() -> None:
    worker = headway.AgentWorker("command", command=["tr", "a-z", "A-Z"])
    assert assert_type(headway.map(worker, ["north", "south"]), list[str]) == ["NORTH", "SOUTH"]


def test_a_programs_output_may_be_json() -> None:
    worker = headway.AgentWorker("command", command=["cat"], output="json")
    assert headway.map(worker, ['{"a": 1}']) == [{"a": 1}]


class Direction(msgspec.Struct):
    name: str


def test_with_a_schema_results_are_instances() -> None:
    worker = headway.AgentWorker("command", command=["cat"])
    assert headway.map(worker, ['{"name": "north"}'], schema=Direction) == [Direction("north")]


def test_an_item_may_have_options_of_its_own(tmp_path: Path, script: Script) -> None:
    (tmp_path / "below").mkdir()
    worker = headway.AgentWorker("command", command=["pwd"])
    items: list[dict[str, Any]] = [{"prompt": "where"}, {"prompt": "where", "agent": {"directory": "below"}}]
    assert headway.map(worker, items) == [f"{tmp_path}\n", f"{tmp_path}/below\n"]


def test_a_stream_tells_what_an_agent_used(script: Script) -> None:
    (done,) = headway.stream(claude(script(answers(INIT, SAYS, DONE))), ["fix it"])
    assert done.get() == "Done."
    assert done.usage is not None
    assert (done.usage.output_tokens, done.usage.cost_usd) == (3, 0.25)


def test_a_refusal_holds_the_lane_and_the_session_is_resumed(script: Script) -> None:
    """Claude's 429 has no wait, so the lane is held for `default_wait`. Nothing starts meanwhile."""
    path = script(
        'date +%s.%N >> starts; echo "$@" >> argv\n'
        f"if [ ! -e refused ]; then touch refused; {answers(INIT, REFUSED, code=1)}; fi\n"
        + answers(INIT, DONE)
    )
    results = headway.map(
        claude(path),
        ["a", "b", "c"],
        limits=headway.Limits(max_concurrency=1),
        retry=headway.Retry(default_wait="1s"),
    )
    assert results == ["Done."] * 3
    starts = [float(line) for line in Path("starts").read_text().split()]
    assert starts[1] - starts[0] >= 1.0
    argv = Path("argv").read_text().splitlines()
    session = argv[0].partition("--session-id ")[2].split()[0]
    assert sum(f"--resume {session}" in line for line in argv) == 1, "the same conversation goes on"
    assert len({line.partition("--session-id ")[2] for line in argv if "--session-id" in line}) == 3


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (answers(INIT, '{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"Invalid API key"}', code=1), "auth"),
        ("exit 3", "transient"),
        ("kill -9 $$", "crash"),
    ],
)  # fmt: skip
def test_a_failure_is_an_agent_error_with_its_kind(script: Script, text: str, code: str) -> None:
    (done,) = headway.stream(claude(script(text)), ["x"], retry=headway.Retry(max_attempts=1))
    assert isinstance(done.error, headway.AgentError | headway.UnitError)
    assert done.code == code
    if isinstance(done.error, headway.AgentError):
        assert done.error.code == code
        assert done.error.result.error in str(done.error)


def test_a_call_that_times_out_ends_its_program(script: Script, tmp_path: Path) -> None:
    path = script("echo $$ > pid; exec sleep 1000")
    with pytest.raises(headway.CallsFailed):
        headway.map(claude(path), ["x"], timeout="500ms", retry=headway.Retry(max_attempts=1))
    assert gone_within(int((tmp_path / "pid").read_text()), 2.0)


def test_a_timeout_is_an_agent_error_with_what_was_said(script: Script) -> None:
    path = script(f"cat >/dev/null; echo '{SAYS}'; exec sleep 1000")
    (done,) = headway.stream(claude(path), ["x"], timeout="1s", retry=headway.Retry(max_attempts=1))
    assert isinstance(done.error, headway.AgentError)
    assert (done.code, done.error.code) == ("timeout", "timeout")
    assert "no result within 1 s" in str(done.error)
    assert {"role": "assistant", "content": "I look."} in done.error.result.conversation


@pytest.mark.parametrize(
    ("item", "given"),
    [
        (3, "3"),
        (None, "None"),
        (["x"], "['x']"),
        ({"text": "x"}, "one whose prompt is None"),
        ({"prompt": 3}, "one whose prompt is 3"),
    ],
)
def test_an_item_that_is_no_prompt_is_an_error_that_says_what_it_may_be(item: Any, given: str) -> None:
    worker = headway.AgentWorker("command", command=["cat"])
    with pytest.raises(headway.CallsFailed) as caught:
        headway.map(worker, [item])
    text = (
        f'an item for an AgentWorker is a prompt (a text), or {{"prompt": "…", "agent": {{…}}}}; not {given}'
    )
    assert text in str(caught.value)


def test_the_summary_of_failures_has_the_reason_of_the_first() -> None:
    worker = headway.AgentWorker("command", command=["sh", "-c", "echo no such file >&2; exit 3"])
    with pytest.raises(headway.CallsFailed) as caught:
        headway.map(worker, ["x", "y"], retry=headway.Retry(max_attempts=1))
    assert "2 of 2 calls failed (2 transient); the first: item 0 ('x'): it exited with code 3" in str(
        caught.value
    )


def test_a_recorded_map_keeps_prompt_and_conversation_and_does_not_run_twice(
    script: Script, tmp_path: Path
) -> None:
    worker = claude(script("echo x >> runs\n" + answers(INIT, SAYS, DONE)))
    for _ in range(2):
        assert headway.map(worker, ["fix it"], db="jobs.db", key=str, name="fixes") == ["Done."]
    assert Path("runs").read_text() == "x\n"
    with closing(sqlite3.connect("jobs.db")) as db:
        details = json.loads(db.execute("SELECT note FROM notes").fetchone()[0])
    assert details["prompt"] == "fix it"
    assert details["session_id"] == "S"
    assert {"role": "assistant", "content": "I look."} in details["messages"]


ONE: dict[str, Any] = {"db": "jobs.db", "key": str, "name": "one"}
DIFFERENT: dict[str, dict[str, Any]] = {
    "command": {"command": ["rev"]},
    "arguments of the command": {"command": ["tr", "a-z", "_"]},
    "model": {"model": "opus"},
    "args": {"args": ["-x"]},
    "directory": {"directory": "below"},
    "env": {"env": ["LANG"]},
    "output": {"output": "json"},
}


@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT)
def test_a_worker_with_other_settings_gets_no_answers_of_the_first(
    script: Script, change: dict[str, Any]
) -> None:
    Path("below").mkdir()
    settings: dict[str, Any] = {"command": ["tr", "a-z", "A-Z"]}
    headway.map(headway.AgentWorker("command", **settings), ["hello"], **ONE)
    with pytest.raises(headway.HeadwayError) as caught:
        headway.map(headway.AgentWorker("command", **(settings | change)), ["hello"], **ONE)
    assert "was made by AgentWorker(command, tr a-z A-Z), not by AgentWorker(command, " in str(caught.value)
    assert 'to keep its finished answers, renamed_from="AgentWorker(command, tr a-z A-Z)"' in (
        caught.value.hint or ""
    )


AGENT_CHANGES: list[dict[str, Any]] = [
    {"model": "opus"},
    {"allowed_tools": ["Read"]},
    {"permission_mode": "plan"},
]


@pytest.mark.parametrize("change", AGENT_CHANGES)
def test_an_agent_with_other_settings_is_named_in_the_error(script: Script, change: dict[str, Any]) -> None:
    path = script(answers(INIT, DONE))
    settings: dict[str, Any] = {"model": "sonnet"}
    headway.map(claude(path, **settings), ["x"], **ONE)
    with pytest.raises(
        headway.HeadwayError, match=r"was made by AgentWorker\(claude, sonnet, command=.*, not by"
    ):
        headway.map(claude(path, **(settings | change)), ["x"], **ONE)


def test_renamed_from_keeps_the_answers_of_another_worker(script: Script) -> None:
    headway.map(headway.AgentWorker("command", command=["cat"]), ["hello"], **ONE)
    other = headway.AgentWorker("command", command=["rev"])
    assert headway.map(other, ["hello"], **ONE, renamed_from="AgentWorker(command, cat)") == ["hello"]


def test_higher_limits_keep_the_finished_answers(script: Script) -> None:
    path = script("echo x >> runs\n" + answers(INIT, DONE))
    for turns in (3, 30):
        assert headway.map(claude(path, max_turns=turns), ["x"], **ONE) == ["Done."]
    assert Path("runs").read_text() == "x\n"


def test_without_a_name_another_worker_is_another_job(script: Script) -> None:
    for command, answer in ((["tr", "a-z", "A-Z"], "HELLO"), (["tr", "a-z", "_"], "_____")):
        worker = headway.AgentWorker("command", command=command)
        assert headway.map(worker, ["hello"], db="jobs.db", key=str) == [answer]


def test_no_two_lists_of_settings_have_one_name(script: Script) -> None:
    long = "x" * 200
    commands = [["cat"], ["cat,", "model=a"], ["cat", "model=a"], ["cat", long], ["cat", long + "y"]]
    names = {headway.AgentWorker("command", command=["env", *each]).headway_name for each in commands}
    assert len(names) == len(commands)
    assert max(map(len, names)) < 120


def test_the_name_has_no_secrets(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_TOKEN", "a-secret-of-ours-123456")
    worker = headway.AgentWorker("command", command=["cat", "a-secret-of-ours-123456"])
    assert "secret-of-ours" not in worker.headway_name


def test_two_loops_may_share_a_worker(script: Script) -> None:
    worker = headway.AgentWorker("command", command=["cat"])

    async def many() -> list[list[str]]:
        calls = (asyncio.to_thread(headway.map, worker, [f"{n}-{i}" for i in range(5)]) for n in range(4))
        return await asyncio.gather(*calls)

    assert asyncio.run(many()) == [[f"{n}-{i}" for i in range(5)] for n in range(4)]


def test_a_worker_can_be_sent_to_another_process() -> None:
    worker: headway.AgentWorker[str] = pickle.loads(
        pickle.dumps(headway.AgentWorker("command", command=["cat"]))
    )
    assert headway.map(worker, ["a"]) == ["a"]
    assert repr(worker) == "AgentWorker('command', command=['cat'])"


# -- directories ------------------------------------------------------------------------------------------------------

#: Says so in a file if another one runs at the same time.
ALONE = "cat >/dev/null; mkdir $TOP/busy || echo overlap >> $TOP/overlaps; sleep 0.1; rmdir $TOP/busy"
#: Ends only once two of them run at the same time.
TOGETHER = (
    "cat >/dev/null; touch $TOP/began-$$; while [ $(ls $TOP | grep -c began) -lt 2 ]; do sleep 0.02; done"
)
BELOW = {"prompt": "a", "agent": {"directory": "below"}}
BESIDE = {"prompt": "b", "agent": {"directory": "beside"}}
EDITS: dict[str, Any] = {"permission_mode": "acceptEdits"}


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOP", str(tmp_path))
    (tmp_path / "below").mkdir()
    (tmp_path / "beside").mkdir()


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize(
    ("items", "more"),
    [
        (["a", "b", "c"], EDITS),
        (["a", "b"], {}),
        (["a", BELOW], EDITS),
        ([BELOW, BELOW], EDITS | {"directory": "beside"}),
    ],
)
def test_agents_that_write_to_one_directory_run_one_at_a_time(
    script: Script, items: list[Any], more: dict[str, Any]
) -> None:
    path = script(f"{ALONE}\n{answers(INIT, DONE)}")
    limits = headway.Limits(max_concurrency=4)
    assert headway.map(claude(path, **more), items, limits=limits) == ["Done."] * len(items)
    assert not Path("overlaps").exists()


@pytest.mark.usefixtures("folders")
@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("items", "more"),
    [
        (["a", "b"], EDITS | {"shared_directory": True}),
        (["a", "b"], {"permission_mode": "plan"}),
        ([BELOW, BESIDE], EDITS | {"directory": "."} | {"shared_directory": True}),
        ([BESIDE, "a"], EDITS | {"directory": "below"}),
    ],
)
def test_other_agents_run_side_by_side(script: Script, items: list[Any], more: dict[str, Any]) -> None:
    path = script(f"{TOGETHER}\n{answers(INIT, DONE)}")
    limits = headway.Limits(max_concurrency=4)
    assert headway.map(claude(path, **more), items, limits=limits) == ["Done."] * 2


@pytest.mark.timeout(30)
@pytest.mark.usefixtures("folders")
def test_programs_run_side_by_side(script: Script) -> None:
    worker = headway.AgentWorker("command", command=[script(TOGETHER)])
    assert headway.map(worker, ["a", "b"], limits=headway.Limits(max_concurrency=4)) == ["", ""]


@pytest.mark.usefixtures("folders")
def test_the_units_of_a_pool_run_one_at_a_time_in_one_directory(script: Script) -> None:
    results, pool = pool_of(claude(script(f"{ALONE}\n{answers(INIT, DONE)}"), **EDITS), max_workers=4)
    with pool:
        for name, payload in (("a", None), ("b", None), ("c", BELOW)):
            assert pool.submit_work_unit(headway.WorkUnit(name, payload), "fix it")
        pool.wait_for_completion()
    assert all(results[name].success for name in "abc")
    assert not Path("overlaps").exists()


@pytest.mark.timeout(30)
@pytest.mark.usefixtures("folders")
def test_the_units_of_a_pool_run_side_by_side_in_two_directories(script: Script) -> None:
    worker = claude(script(f"{TOGETHER}\n{answers(INIT, DONE)}"), directory="beside", **EDITS)
    results, pool = pool_of(worker)
    with pool:
        for name, payload in (("a", None), ("b", BELOW)):
            assert pool.submit_work_unit(headway.WorkUnit(name, payload), "fix it")
        pool.wait_for_completion()
    assert all(results[name].success for name in "ab")


def test_directories_above_and_below_another_are_in_its_group() -> None:
    groups = DirectoryGroups(lambda row: str(row.get("to", "/own")))
    own = groups.of("a prompt")
    assert own == groups.of({"to": "/own/below/it"}) != 0
    first, second = groups.of({"to": "/w/a"}), groups.of({"to": "/w/b"})
    assert len({own, first, second}) == 3
    assert groups.of({"to": "/w"}) == first
    assert groups.of({"to": "/w/b"}) == first, "from now on"
    assert groups.of({"to": "/ow"}) not in (own, first, second)
    assert groups.of({"to": ""}) == 0


# -- pools ------------------------------------------------------------------------------------------------------------


def pool_of(worker: Any, **more: Any) -> tuple[dict[str, headway.WorkerResult], headway.WorkerPool]:
    results: dict[str, headway.WorkerResult] = {}

    def keep(unit: headway.WorkUnit, result: headway.WorkerResult) -> None:
        results[unit.id] = result

    return results, headway.WorkerPool(worker, on_unit_complete=keep, on_unit_failed=keep, **more)


def test_a_pool_captures_conversation_session_and_cost(script: Script) -> None:
    results, pool = pool_of(claude(script(answers(INIT, SAYS, DONE))))
    with pool:
        assert pool.submit_work_unit(headway.WorkUnit("a"), "fix it")
        pool.wait_for_completion()
    result = results["a"]
    assert result.success
    assert (result.output, result.session_id, result.cost_usd) == ("Done.", "S", 0.25)
    assert result.rendered_prompt == "fix it"
    assert {"role": "assistant", "content": "I look."} in result.conversation
    assert result.execution_time > 0.0


def test_a_failed_unit_keeps_what_was_said(script: Script) -> None:
    results, pool = pool_of(claude(script(answers(INIT, SAYS, code=2))))
    with pool:
        pool.submit_work_unit(headway.WorkUnit("a"), "fix it")
        pool.wait_for_completion()
    assert not results["a"].success
    assert "it exited with code 2" in results["a"].error
    assert {"role": "assistant", "content": "I look."} in results["a"].conversation


def test_a_unit_that_times_out_keeps_what_was_said(script: Script, tmp_path: Path) -> None:
    path = script(f"echo $$ > pid; echo '{SAYS}'; exec sleep 1000")
    results, pool = pool_of(claude(path), timeout=1)
    with pool:
        pool.submit_work_unit(headway.WorkUnit("a"), "fix it")
        pool.wait_for_completion()
    assert "no result within 1 s" in results["a"].error
    assert {"role": "assistant", "content": "I look."} in results["a"].conversation
    assert gone_within(int((tmp_path / "pid").read_text()), 2.0)


def test_a_pool_waits_for_the_reset_of_a_subscription(script: Script) -> None:
    """The refusal names the second of its reset: no start before it, and the unit is not charged an attempt."""
    reset = int(time.time()) + 2
    rejected = json.dumps(
        {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": reset, "rateLimitType": "five_hour"}}
    )  # fmt: skip
    refusal = '{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"You have hit your limit"}'
    path = script(
        "date +%s.%N >> starts\n"
        f"if [ ! -e refused ]; then touch refused; {answers(INIT, rejected, refusal, code=1)}; fi\n"
        + answers(INIT, DONE)
    )
    results, pool = pool_of(claude(path), max_workers=1)
    with pool:
        for name in ("a", "b"):
            while not pool.submit_work_unit(headway.WorkUnit(name), "fix it"):
                pool.wait_for_available_slot()
        pool.wait_for_completion()
    assert [results[name].output for name in ("a", "b")] == ["Done.", "Done."]
    starts = [float(line) for line in Path("starts").read_text().split()]
    assert len(starts) == 3
    assert starts[1] >= reset


def test_a_unit_may_have_options_of_its_own(tmp_path: Path, script: Script) -> None:
    (tmp_path / "below").mkdir()
    results, pool = pool_of(headway.AgentWorker("command", command=["pwd"]))
    with pool:
        pool.submit_work_unit(headway.WorkUnit("a", {"agent": {"directory": "below"}}), "where")
        pool.wait_for_completion()
    assert results["a"].output == f"{tmp_path}/below\n"


def test_the_records_of_a_pool_have_directory_process_and_turns(script: Script, tmp_path: Path) -> None:
    _, pool = pool_of(
        claude(script("echo $$ > pid\n" + answers(INIT, SAYS, DONE))), store="jobs.db", job_id="p"
    )
    with pool:
        pool.submit_work_unit(headway.WorkUnit("a"), "fix it")
        pool.wait_for_completion()
    with closing(sqlite3.connect("jobs.db")) as records:
        details = json.loads(records.execute("SELECT note FROM notes").fetchone()[0])
    assert details["prompt"] == "fix it"
    assert {"role": "assistant", "content": "I look."} in details["messages"]
    assert (details["directory"], details["turns"]) == (str(tmp_path), 2)
    assert details["pid"] == int(Path("pid").read_text())


def test_pools_of_different_workers_are_different_jobs(script: Script) -> None:
    """One store and one unit id."""
    workers = [
        claude(script(answers(INIT, DONE))),
        headway.AgentWorker("command", command=["tr", "a-z", "A-Z"]),
    ]
    outputs = []
    for worker in workers:
        results, pool = pool_of(worker, store="jobs.db")
        with pool:
            pool.submit_work_unit(headway.WorkUnit("a"), "hello")
            pool.wait_for_completion()
        outputs.append(results["a"].output)
    assert outputs == ["Done.", "HELLO"]


def test_a_pools_job_belongs_to_a_worker_with_its_settings(script: Script) -> None:
    pool_of(headway.AgentWorker("command", command=["cat"]), store="jobs.db", job_id="p")[
        1
    ].__enter__().stop()
    other = headway.AgentWorker("command", command=["rev"])
    with pytest.raises(headway.HeadwayError) as caught:
        pool_of(other, store="jobs.db", job_id="p")[1].start()
    assert "was made by AgentWorker(command, cat), not by AgentWorker(command, rev)" in str(caught.value)


# -- alone ------------------------------------------------------------------------------------------------------------


async def test_execute_returns_failures_and_raises_none(script: Script) -> None:
    result = await claude(script(answers(INIT, REFUSED, code=1))).execute("x")
    assert not result.success
    assert result.outcome.kind is Kind.HOLD
    assert "429" in result.error


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: headway.AgentWorker("cursor"), "the kind of the agent is 'cursor'"),  # type: ignore[call-overload]
        (lambda: headway.AgentWorker("command"), "AgentWorker: command: missing"),
        (lambda: headway.AgentWorker("claude", command=["/no/such/claude"]), "AgentWorker: there is no program '/no/such/claude'"),
        (lambda: headway.AgentWorker("claude", command=["true"], max_turns=-1), "AgentWorker: max_turns: expected a whole number"),
        (lambda: headway.AgentWorker("claude", command=["true"], speed=1), "AgentWorker: speed:"),  # type: ignore[call-overload]
        (lambda: headway.AgentWorker("command", command=["true"], max_turns=1), "AgentWorker: max_turns:"),
        (lambda: headway.AgentWorker("command", command=["true"], shared_directory=1), "AgentWorker: shared_directory is 1"),  # type: ignore[call-overload]
    ],
)  # fmt: skip
def test_wrong_options_are_errors(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(headway.HeadwayError) as caught:
        make()
    assert message in str(caught.value)


PROGRAM = """
import sys, headway
worker = headway.AgentWorker("command", command=["sh", "-c", "echo $$ >> pids; setsid sleep 1000 & echo $! >> pids; wait"])
headway.map(worker, ["a", "b"], progress=False)
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_no_program_outlives_the_python_process(tmp_path: Path, ending: signal.Signals) -> None:
    pids = tmp_path / "pids"
    with started("-c", PROGRAM, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        wait_for("four processes", lambda: pids.exists() and len(pids.read_text().split()) == 4)
        process.send_signal(ending)
        while process.poll() is None:  # The first Ctrl-C lets running calls finish, the second cancels them.
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
            process.send_signal(ending)
    assert all(gone_within(int(pid), 3.0) for pid in pids.read_text().split())


def test_a_program_ends_without_warnings_and_leaves_no_guardian(tmp_path: Path) -> None:
    code = textwrap.dedent("""
        import headway
        worker = headway.AgentWorker("command", command=["cat"])
        print(headway.map(worker, ["a"]), worker._adapter._programs._guardian.pid)
    """)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", code],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    answer, _, guardian = done.stdout.partition(" ")
    assert answer == "['a']"
    assert gone_within(int(guardian), 2.0)
    assert os.path.isdir(tmp_path)


@pytest.mark.parametrize(("prompt", "own"), [("\ud800", None), ("x", {"model": object()})])
def test_what_json_cannot_hold_fails_the_unit_and_raises_nothing(prompt: str, own: Any) -> None:
    worker = headway.AgentWorker("command", command=["cat"])
    result = asyncio.run(worker.execute(prompt, {"agent": own}))
    assert not result.success
    assert result.outcome.kind is Kind.INVALID
    assert "cannot be written as JSON" in result.error
