"""`kind = "python"`: `headway run` calls a Python function for each row."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench import deaths
from tests.executors.conftest import gone_within

from headway.executors.preflight import CANARY_S

#: Waits that are short enough for a test.
SHORT = '[providers.work.retry]\nbase = "10ms"\ncap = "20ms"\nhold_margin = "50ms"\ndefault_wait = "300ms"\n'


class Workspace:
    """A directory with a configuration, a module and rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def configure(
        self, more: str = "", target: str = "deeds:work", rest: str = SHORT, workers: int = 2
    ) -> None:
        text = f'[providers.work]\nkind = "python"\ntarget = "{target}"\nworkers = {workers}\n{more}\n{rest}'
        (self.folder / "headway.toml").write_text(text)

    def write(self, code: str, name: str = "deeds.py") -> None:
        (self.folder / name).write_text(code)

    def rows(self, *rows: dict[str, Any]) -> None:
        (self.folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def start(self, *args: str, before: str = "") -> subprocess.Popen[str]:
        private = ("HEADWAY_CONFIG", "HEADWAY_DB")
        command = [sys.executable, "-m", "headway", "run", "in.jsonl", *args]
        return subprocess.Popen(
            ["/bin/sh", "-c", f'{before}; exec "$@"', "sh", *command] if before else command,
            cwd=self.folder,
            env={name: value for name, value in os.environ.items() if name not in private},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args: str, before: str = "") -> tuple[int, str]:
        process = self.start(*args, before=before)
        _, err = process.communicate(timeout=60)
        return process.returncode, err

    def results(self) -> list[dict[str, Any]]:
        text = (self.folder / "in.results.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def log(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path)
    made.configure()
    return made


WORK = """
import os, sys, threading

def work(payload, context):
    context.usage(input_tokens=7, output_tokens=2, cost_usd=0.5)
    context.message("assistant", "done")
    context.output_file("report.md")
    return {"got": payload, "model": context.model}

def plain(payload):
    return payload

async def later(payload):
    return [payload]
"""


@pytest.mark.parametrize("isolation", ["process", "thread", "inline"])
def test_rows_become_results(workspace: Workspace, isolation: str) -> None:
    workspace.write(WORK)
    workspace.configure(f'isolation = "{isolation}"')
    workspace.rows(
        {"id": "a", "payload": [1, "ü"]},
        {"id": "b", "text": "x", "n": 2, "url": "http://127.0.0.1/"},
        {"id": "c", "model": "work/big", "text": "y"},
        {"id": "d", "payload": None, "metadata": {"k": 1}},
    )
    code, err = workspace.run()
    assert code == 0, err
    rows = workspace.results()
    assert [row["response"]["body"] for row in rows] == [
        {"got": [1, "ü"], "model": "work"},
        {"got": {"text": "x", "n": 2, "url": "http://127.0.0.1/"}, "model": "work"},
        {"got": {"text": "y", "model": "big"}, "model": "work"},
        {"got": None, "model": "work"},
    ]
    assert rows[0]["response"]["status_code"] == 200
    assert rows[0]["headway"]["usage"] == {"input_tokens": 7, "output_tokens": 2, "cached_input_tokens": 0}
    assert rows[0]["headway"]["cost_usd"] == 0.5
    assert rows[0]["headway"]["lane"] == "work/work"
    assert rows[3]["headway"]["metadata"] == {"k": 1}
    notes = json.loads(_headway(workspace, "show", rows[0]["id"].rpartition("-")[0], "a", "--json"))["notes"]
    assert notes["1"]["messages"] == [{"role": "assistant", "content": "done"}]
    assert notes["1"]["files"] == ["report.md"]


@pytest.mark.parametrize(("target", "expected"), [("deeds:plain", 1), ("deeds:later", [1])])
def test_a_function_may_be_plain_or_asynchronous(workspace: Workspace, target: str, expected: object) -> None:
    workspace.write(WORK)
    workspace.configure(target=target)
    workspace.rows({"id": "a", "payload": 1})
    code, err = workspace.run()
    assert (code, workspace.results()[0]["response"]["body"]) == (0, expected), err


MEETING = """
import asyncio, headway

met = asyncio.Event()
inside = 0

async def work(payload, context):
    global inside
    context.usage(input_tokens=payload)
    if payload == 9:
        raise ValueError("nine")
    if payload == 8:
        await asyncio.Event().wait()
    inside += 1
    if inside == 3:
        met.set()
    {meet}
    headway.usage(output_tokens=1)
    return payload
"""


@pytest.mark.parametrize("isolation", ["process", "thread", "inline"])
def test_usage_of_an_asynchronous_function_is_its_own_units(workspace: Workspace, isolation: str) -> None:
    workspace.write(MEETING.format(meet="await asyncio.sleep(0)"))
    workspace.configure(f'isolation = "{isolation}"\npreflight = "none"', workers=1)
    workspace.rows(*({"id": str(n), "payload": n} for n in range(1, 6)))
    code, err = workspace.run()
    assert code == 0, err
    used = [row["headway"]["usage"] for row in workspace.results()]
    assert [(each["input_tokens"], each["output_tokens"]) for each in used] == [(n, 1) for n in range(1, 6)]


def test_asynchronous_functions_run_side_by_side_inline(workspace: Workspace) -> None:
    """All three calls must run at the same time, or none returns."""
    workspace.write(MEETING.format(meet="await met.wait()"))
    workspace.configure('isolation = "inline"\npreflight = "none"', workers=3)
    workspace.rows(*({"id": str(n), "payload": n} for n in range(3)))
    code, err = workspace.run("--timeout", "20s", "--max-attempts", "1")
    assert code == 0, err


def test_asynchronous_functions_run_side_by_side_in_threads(workspace: Workspace) -> None:
    workspace.write(MEETING.format(meet="await asyncio.to_thread(barrier.wait, 20)") + BARRIER)
    workspace.configure('isolation = "thread"\npreflight = "none"', workers=3)
    workspace.rows(*({"id": str(n), "payload": n} for n in range(3)))
    code, err = workspace.run("--timeout", "30s", "--max-attempts", "1")
    assert code == 0, err


BARRIER = """
import threading
barrier = threading.Barrier(3)
"""


def test_an_asynchronous_function_inline_has_its_timeout_and_its_errors(workspace: Workspace) -> None:
    workspace.write(MEETING.format(meet="pass"))
    workspace.configure('isolation = "inline"\npreflight = "none"', workers=1)
    workspace.rows(*({"id": str(n), "payload": n} for n in (1, 8, 9, 2)))
    code, err = workspace.run("--timeout", "300ms", "--max-attempts", "1")
    assert code == 1, err
    errors = [row["error"] and (row["error"]["code"], row["error"]["message"]) for row in workspace.results()]
    assert errors == [
        None,
        ("timeout", "no result within 0.3 s; it was cancelled"),
        ("invalid", "ValueError: nine"),
        None,
    ]


@pytest.mark.parametrize("isolation", ["process", "thread", "inline"])
def test_floats_that_json_lacks_are_stored_as_text(workspace: Workspace, isolation: str) -> None:
    workspace.write("""
def work(payload, context):
    context.message("assistant", {"confidence": float("nan")})
    return {"score": float("nan"), "bounds": [float("-inf"), float("inf")], "none": None, "text": "null"}
""")
    workspace.configure(f'isolation = "{isolation}"')
    workspace.rows({"id": "a", "payload": 1})
    code, err = workspace.run()
    assert code == 0, err
    (row,) = workspace.results()
    assert row["response"]["body"] == {
        "score": "NaN", "bounds": ["-Infinity", "Infinity"], "none": None, "text": "null",
    }  # fmt: skip
    notes = json.loads(_headway(workspace, "show", row["id"].rpartition("-")[0], "a", "--json"))["notes"]
    assert notes["1"]["messages"] == [{"role": "assistant", "content": {"confidence": "NaN"}}]


@pytest.mark.parametrize("isolation", ["process", "thread", "inline"])
def test_raising_a_non_exception_fails_only_its_row(workspace: Workspace, isolation: str) -> None:
    workspace.write("""
import asyncio

class Panic(BaseException):
    def __str__(self):
        raise self

def work(payload):
    what = {"panic": Panic, "exit": SystemExit, "interrupt": KeyboardInterrupt, "cancelled": asyncio.CancelledError}
    if payload in what:
        raise what[payload]
    return payload
""")
    workspace.configure(f'isolation = "{isolation}"')
    workspace.rows(
        *({"id": name, "payload": name} for name in ("a", "panic", "exit", "interrupt", "cancelled", "b"))
    )
    code, err = workspace.run("--max-attempts", "1")
    assert code == 1, err
    rows = workspace.results()
    assert [row["custom_id"] for row in rows if row["response"]] == ["a", "b"]
    assert [row["error"]["code"] for row in rows if row["error"]] == ["crash", "crash", "crash", "invalid"]


def test_a_value_that_is_not_json_fails_only_its_unit(workspace: Workspace) -> None:
    workspace.write("def work(payload): return {1, 2} if payload == 'set' else object()\n")
    workspace.rows({"id": "a", "payload": "set"}, {"id": "b", "payload": "object"})
    assert workspace.run()[0] == 1
    first, second = workspace.results()
    assert first["response"]["body"] == [1, 2]  # msgspec knows sets.
    assert second["error"]["code"] == "invalid"
    assert "returned a value that is not JSON" in second["error"]["message"]


MISTAKES: list[tuple[str, str, str, str]] = [
    (
        "nowhere:work",
        "",
        "",
        "providers.work.target: there is no module 'nowhere' — put nowhere.py beside headway.toml",
    ),
    (
        "deeds:other",
        "def work(p): pass",
        "",
        "providers.work.target: 'deeds' has no 'other' — name a function of",
    ),
    ("deeds:work", "def work(p:", "", "deeds.py: '(' was never closed"),
    ("work", "", "", 'providers.work.target: expected a function such as "package.module:function"'),
    ("deeds:work", WORK, 'isolation = "fork"', """expected "process" or "thread" or "inline", not 'fork'"""),
    (
        "deeds:work",
        WORK,
        'base_url = "http://127.0.0.1"',
        "not for kind python; it is for servers",
    ),
    ("deeds:work", WORK, 'memory_ceiling = "much"', 'expected a size such as "2GB"'),
    (
        "deeds:work",
        WORK,
        'failure_logs = "/var/log/*"',
        "expected a pattern below the directory of this file",
    ),
    (
        "deeds:work",
        WORK,
        'preflight = "command"\npreflight_command = ["no-such-program"]',
        "there is no program",
    ),
]


@pytest.mark.parametrize(("target", "module", "more", "said"), MISTAKES)
def test_mistakes_are_reported_before_anything_runs(
    workspace: Workspace, target: str, module: str, more: str, said: str
) -> None:
    if module:
        workspace.write(module)
    workspace.configure(more, target)
    workspace.rows({"id": "a", "payload": 1})
    code, err = workspace.run()
    assert code == 2
    assert said in err
    assert len(err.strip().splitlines()) == 1, err
    assert not (workspace.folder / "in.results.jsonl").exists()


def test_settings_of_workers_are_refused_for_servers(workspace: Workspace) -> None:
    (workspace.folder / "headway.toml").write_text('[providers.a]\nkind = "openai"\ntarget = "a:b"\n')
    workspace.rows({"id": "a", "prompt": "hello"})
    code, err = workspace.run()
    assert code == 2
    assert 'providers.a.target: not for kind openai; it is for kind = "python"' in err


@pytest.mark.parametrize("isolation", ["process", "thread", "inline"])
def test_a_function_that_cannot_be_imported_is_reported_before_anything_runs(
    workspace: Workspace, isolation: str
) -> None:
    workspace.write("import no_such_package\ndef work(p): return p\n")
    workspace.configure(f'isolation = "{isolation}"')
    workspace.rows({"id": "a", "payload": 1}, {"id": "b", "payload": 2})
    code, err = workspace.run()
    assert code == 2
    assert "headway.toml: providers.work.target: 'deeds:work' cannot be used: " in err
    assert "ModuleNotFoundError: No module named 'no_such_package' — fix its module" in err
    assert len(err.strip().splitlines()) == 1, err
    assert not (workspace.folder / "in.results.jsonl").exists()
    workspace.write("def work(p): return p\n")
    code, err = workspace.run()
    assert code == 0, err


def test_a_module_that_kills_its_worker_is_reported_before_anything_runs(workspace: Workspace) -> None:
    workspace.write(
        "import os, sys\nsys.stderr.write('no licence\\nfound')\nos._exit(7)\ndef work(p): pass\n"
    )
    workspace.rows({"id": "a", "payload": 1})
    code, err = workspace.run()
    assert code == 2
    assert "3 in a row died at once, the last: it exited with code 7; no licence found" in err
    assert len(err.strip().splitlines()) == 1, err


@pytest.mark.parametrize("isolation", ["process", "thread", "inline"])
def test_a_value_above_the_size_limit_fails_only_its_unit(workspace: Workspace, isolation: str) -> None:
    workspace.write("def work(size): return 'z' * size\n")
    workspace.configure(f'isolation = "{isolation}"\nmax_answer_bytes = 1000')
    workspace.rows({"id": "a", "payload": 998}, {"id": "b", "payload": 999}, {"id": "c", "payload": 1})
    code, err = workspace.run()
    assert code == 1, err
    assert "returned 1,001 bytes of JSON; max_answer_bytes of this provider is 1,000" in err
    assert "2 of 3 succeeded" in err


def test_a_cap_on_calls_that_report_their_cost_says_by_how_much_it_was_exceeded(workspace: Workspace) -> None:
    workspace.write("import headway\ndef work(n):\n    headway.usage(cost_usd=0.004)\n    return n\n")
    workspace.configure(workers=1)
    workspace.rows(*({"id": f"u{n}", "payload": n} for n in range(9)))
    code, err = workspace.run("--max-cost", "0.01")
    assert code == 3, err
    assert "the cap of $0.0100 was exceeded by $0.0020: the cost of a call is known only when it ends" in err


# -- memory and money -----------------------------------------------------------------------------------------------

HUNGRY = """
import ctypes, headway

def work(unit):
    if unit != 3:
        return unit
    headway.usage(input_tokens=100, output_tokens=10, cost_usd=0.5)
    {act}
"""
ALLOCATIONS = {
    "Python": ("hoard = bytearray(6_000_000_000)", "out of memory: MemoryError; its memory peaked at "),
    "C": (
        "libc = ctypes.CDLL(None); libc.malloc.restype = ctypes.c_void_p; "
        "libc.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t); "
        "libc.memset(libc.malloc(ctypes.c_size_t(6_000_000_000)), 1, 4096)",
        "its worker died: killed by SIGSEGV in deeds.py:8 work after ",
    ),
}


@pytest.mark.parametrize("where", ALLOCATIONS)
def test_a_memory_ulimit_costs_only_its_unit(workspace: Workspace, where: str) -> None:
    """The kernel refuses the memory: the error is named, retried and quarantined with its evidence; other units continue."""
    act, said = ALLOCATIONS[where]
    workspace.write(HUNGRY.replace("{act}", act))
    workspace.rows(*({"id": f"u{n}", "payload": n} for n in range(12)))
    code, err = workspace.run(before="ulimit -v 5000000")
    assert code == 1, err
    rows = workspace.results()
    assert [row["headway"]["index"] for row in rows if row["error"] is not None] == [3]
    assert [row["headway"]["attempts"] for row in rows] == [3 if n == 3 else 1 for n in range(12)]
    error = rows[3]["error"]
    assert error["code"] == "crash"
    assert "quarantined: it killed its worker 3 times, the last time alone" in error["message"]
    assert said in error["message"]
    assert "; its memory peaked at " in error["message"]
    assert rows[3]["headway"]["usage"]["input_tokens"] == 100
    job = rows[0]["id"].rpartition("-")[0]
    shown = json.loads(_headway(workspace, "show", job, "u3", "--json"))
    assert [attempt["cost_usd"] for attempt in shown["attempts"]] == [0.5, 0.5, 0.5]
    assert [shown["notes"][number]["memory_mb"] > 1 for number in ("1", "2", "3")] == [True, True, True]


def test_a_unit_above_the_memory_limit_is_ended(workspace: Workspace) -> None:
    workspace.write("""
import time
def work(unit):
    hoard = []
    while unit == 3:
        hoard.append(b"x" * 20_000_000)
        time.sleep(0.02)
    return unit
""")
    workspace.configure('memory_limit = "300MB"')
    workspace.rows(*({"id": f"u{n}", "payload": n} for n in range(12)))
    code, err = workspace.run()
    assert code == 1, err
    errors = {
        row["headway"]["index"]: row["error"] for row in workspace.results() if row["error"] is not None
    }
    assert list(errors) == [3]
    assert "out of memory (memory_limit is 300 MB)" in errors[3]["message"]
    assert "quarantined" in errors[3]["message"]


def test_output_of_a_worker_is_recorded_with_its_attempt(workspace: Workspace) -> None:
    workspace.write("""
import os, sys
def work(payload):
    print("grading", payload)
    sys.stderr.write("key sk-abcdefghijklmnop123456 was used\\n")
    os.write(1, b"x" * 10_000)
    if payload == 2:
        os._exit(3)
    return payload
""")
    workspace.rows({"id": "a", "payload": 1}, {"id": "b", "payload": 2})
    assert workspace.run()[0] == 1
    job = workspace.results()[0]["id"].rpartition("-")[0]
    fine = json.loads(_headway(workspace, "show", job, "a", "--json"))["notes"]
    assert list(fine) == ["1"]
    assert fine["1"]["stdout"] == "x" * 4096
    assert "sk-abcdefghijklmnop" not in fine["1"]["stderr"]
    dead = json.loads(_headway(workspace, "show", job, "b", "--json"))["notes"]
    assert list(dead) == ["1", "2", "3"]
    assert dead["2"]["memory_mb"] > 1
    assert "stderr: key sk-" in _headway(workspace, "show", job, "b")


@pytest.mark.parametrize("isolation", ["process", "thread", "inline"])
def test_a_message_that_has_no_text_costs_nothing(workspace: Workspace, isolation: str) -> None:
    workspace.write("""
class Odd:
    def __str__(self): raise ValueError("no text")
    __repr__ = __str__
def work(payload, context):
    nested = []
    nested.append(nested)
    context.message("tool", Odd() if payload == 1 else nested)
    return payload
""")
    workspace.configure(f'isolation = "{isolation}"')
    workspace.rows(*({"id": str(n), "payload": n} for n in range(3)))
    code, err = workspace.run()
    assert code == 0, err
    assert [row["headway"]["attempts"] for row in workspace.results()] == [1, 1, 1]


# -- limits from every source ---------------------------------------------------------------------------------------

LIMITED = """
import headway, json, os, subprocess, sys
from pathlib import Path

def work(payload):
    with open("log", "a") as log:
        log.write("run\\n")
    if Path("met").exists():
        return "through"
    Path("met").touch()
    {act}
"""
SOURCES = {
    "result": 'return {"rate_limit": {"retry_after_s": 0.3, "message": "slower"}}',
    "RateLimited": "raise headway.RateLimited(retry_after=0.3)",
    "no word on its end": "raise headway.RateLimited()",
    "RuntimeError": """raise RuntimeError("429 rate limit exceeded, retry in 0.3s")""",
    "CalledProcessError": """raise subprocess.CalledProcessError(1, "agent", stderr=b"rate limited")""",
    "code of a program": """raise subprocess.CalledProcessError(75, "agent")""",
    "result of the seed": """return {"selection_reason": "RateLimitError: You've hit your limit"}""",
    "SystemExit": """sys.exit("You've hit your limit")""",
    "exit code": "os._exit(75)",
    "sys.exit": "sys.exit(75)",
    "stdout": """print(json.dumps({"type": "result", "is_error": True, "result": "API Error: Request rejected (429)"})); os._exit(1)""",
    "stream-json": """print(json.dumps({"type": "system"})); print(json.dumps({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected"}})); print(json.dumps({"type": "result", "is_error": True, "result": ""})); os._exit(1)""",
    "stderr": """sys.stderr.write("You've hit your limit\\n"); os._exit(1)""",
    "a word of its own": """sys.stderr.write("agent: quota exceeded\\n"); os._exit(1)""",
    "stderr of an exception": """sys.stderr.write("You've hit your limit\\n"); raise RuntimeError("the agent failed")""",
    ".failed/7/agent/result.json": """
    Path(".failed/7/agent").mkdir(parents=True)
    Path(".failed/7/agent/result.json").write_text(json.dumps({"exit_code": -1, "stdout": "", "stderr": "You've hit your limit"}))
    os._exit(255)""",
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_limit_is_detected_in_every_place(workspace: Workspace, source: str) -> None:
    workspace.write(LIMITED.replace("{act}", SOURCES[source]))
    workspace.configure('limit_exit_codes = [75]\nfailure_logs = ".failed/*/agent/result.json"')
    workspace.rows({"id": "a", "payload": 1})
    began = time.monotonic()
    code, err = workspace.run()
    assert code == 0, err
    assert time.monotonic() - began > 0.3
    assert workspace.results()[0]["response"]["body"] == "through"
    assert workspace.log() == ["run", "run"]
    attempts = _attempts(workspace)
    assert [attempt["outcome"] for attempt in attempts] == ["throttled", "succeeded"]
    named = {
        "no word on its end": "RateLimited",
        "sys.exit": "exit code",
        "code of a program": "exit code",
        "result of the seed": "result",
        "stream-json": "stdout",
        "a word of its own": "stderr",
        "stderr of an exception": "stderr",
    }
    assert attempts[0]["rate_limit"]["source"] == named.get(source, source)


#: Without processes no output is captured, and no death is survived.
HERE = ("result", "RateLimited", "RuntimeError", "CalledProcessError", "code of a program", "result of the seed", "sys.exit", "SystemExit")  # fmt: skip


@pytest.mark.parametrize("isolation", ["thread", "inline"])
@pytest.mark.parametrize("source", HERE)
def test_a_limit_is_detected_without_processes_too(workspace: Workspace, isolation: str, source: str) -> None:
    workspace.write(LIMITED.replace("{act}", SOURCES[source]))
    workspace.configure(f'isolation = "{isolation}"\nlimit_exit_codes = [75]')
    workspace.rows({"id": "a", "payload": 1})
    code, err = workspace.run()
    assert code == 0, err
    assert [attempt["outcome"] for attempt in _attempts(workspace)] == ["throttled", "succeeded"]


def _attempts(workspace: Workspace) -> list[dict[str, Any]]:
    job = json.loads(_headway(workspace, "jobs", "--json"))[0]["job"]
    attempts: list[dict[str, Any]] = json.loads(_headway(workspace, "show", job, "a", "--json"))["attempts"]
    return attempts


def _headway(workspace: Workspace, *args: str) -> str:
    command = [sys.executable, "-m", "headway", *args]
    return subprocess.run(
        command, cwd=workspace.folder, capture_output=True, text=True, check=True, timeout=60
    ).stdout


def test_answers_of_a_model_are_not_searched_for_limits(workspace: Workspace) -> None:
    """A worker prints an answer that mentions limits, and fails for another reason."""
    workspace.write("""
def work(payload):
    print("You've hit your limit · resets 4pm. API Error: 429 rate limit exceeded")
    raise ValueError("no grade in it")
""")
    workspace.rows({"id": "a", "payload": 1})
    code, _ = workspace.run()
    assert code == 1
    assert workspace.results()[0]["error"] == {"code": "invalid", "message": "ValueError: no grade in it"}


# -- the three layers ---------------------------------------------------------------------------------------------


def test_the_failure_of_the_seed_is_survived(workspace: Workspace) -> None:
    """15 units, the limit is met at the fifth, workers exit hard: after the reset all succeed, and the reason is recorded."""
    workspace.write(deaths.AGENT, "agent.py")
    workspace.configure(f'failure_logs = "{deaths.LOGS}"', "agent:work")
    workspace.rows(*({"id": f"t{n}", "payload": n} for n in range(15)))
    code, err = workspace.run()
    assert code == 0, err
    assert [row["response"]["body"] for row in workspace.results()] == list(range(15))
    assert "usage limit reached" in err
    assert [row["headway"]["attempts"] for row in workspace.results()][:4] == [1] * 4
    refused = {int(path.parts[-3]) for path in workspace.folder.glob(".failed/*/agent/result.json")}
    begun = Counter(int(unit) for unit in workspace.log())
    assert begun == Counter(range(15)) + Counter(refused), "only what was refused ran again"
    assert len(refused) <= 2, "no more than were in flight met the limit"
    job = json.loads(_headway(workspace, "jobs", "--json"))[0]["job"]
    shown = _headway(workspace, "show", job, f"t{min(refused)}")
    assert re.search(r"; limit detected in \.failed/\d+/agent/result\.json$", shown, re.MULTILINE), shown


def test_the_failure_of_the_seed_on_a_process_pool_executor(workspace: Workspace) -> None:
    """The same work on a ProcessPoolExecutor: the exit of one worker loses every unfinished unit."""
    workspace.write(deaths.AGENT, "seed_agent.py")
    workspace.write(deaths.EXECUTOR, "executor.py")
    counted = subprocess.run(
        [sys.executable, "executor.py"], cwd=workspace.folder, capture_output=True, check=True, timeout=60
    )
    assert int(counted.stdout) <= 5


def test_a_stored_hold_starts_no_worker(workspace: Workspace) -> None:
    workspace.write("""
import headway
from pathlib import Path
with open("log", "a") as log:
    log.write("started\\n")
def work(payload):
    raise headway.RateLimited(retry_after=3600, reason="come back in an hour")
""")
    workspace.rows({"id": "a", "payload": 1}, {"id": "b", "payload": 2})
    code, err = workspace.run("--max-hold", "0s")
    assert code == 4, err
    assert workspace.log() == ["started"], "one goes ahead, and the other is turned back without a worker"
    code, err = workspace.run("--max-hold", "0s")
    assert code == 4, err
    assert workspace.log() == ["started"]
    assert "come back in an hour" in err


def test_a_worker_that_reports_an_endless_wait_does_not_close_its_lane(workspace: Workspace) -> None:
    workspace.write("""
from pathlib import Path
def work(payload):
    if Path("met").exists():
        return payload
    Path("met").touch()
    return {"rate_limit": {"retry_after_s": 1e300, "message": "never again"}}
""")
    workspace.rows({"id": "a", "payload": 1}, {"id": "b", "payload": 2})
    code, err = workspace.run()
    assert code == 0, err
    assert "never again" in err, "it is waited for, as a limit is that says nothing of its end"


def test_a_hold_beyond_a_day_parks_the_run_at_once_and_can_be_cleared(workspace: Workspace) -> None:
    workspace.write("""
import headway
from pathlib import Path
def work(payload):
    if Path("open").exists():
        return payload
    raise headway.RateLimited(retry_after=30 * 86400, reason="come back next month")
""")
    workspace.rows({"id": "a", "payload": 1}, {"id": "b", "payload": 2})
    code, err = workspace.run()
    assert code == 4, err
    assert "come back next month" in err
    assert "--max-hold unlimited" in err
    assert "headway lanes --reopen" in err
    (workspace.folder / "open").touch()
    assert workspace.run()[0] == 4, "the hold is on record"
    assert "held until" in _headway(workspace, "lanes")
    assert "(come back next month)" in _headway(workspace, "lanes", "--reopen", "work")
    assert "held until" not in _headway(workspace, "lanes")
    assert "no recorded hold" in _headway(workspace, "lanes", "--reopen", "work/work")
    code, err = workspace.run()
    assert code == 0, err


PING = """#!/bin/sh
echo ping >> log
if [ -e met ]; then {then}; fi
touch met
{first}
"""


@pytest.mark.parametrize(
    ("first", "pings"),
    [
        ("""echo "You've hit your limit" >&2; exit 1""", 2),
        (
            """echo '{"type": "result", "is_error": true, "result": "API Error: Request rejected (429)"}'; exit 1""",
            2,
        ),
        ("""echo "You've hit your limit" >&2; exit 0""", 2),
        ("""echo "You've hit your limit · resets in 1s"; exit 0""", 2),
        (
            """echo '{"type": "rate_limit_event", "rate_limit_info": {"status": "rejected"}}'; exit 0""",
            2,
        ),
        ("""echo "You've hit your limit, says the model"; exit 0""", 1),
        ("""echo OK; echo "rate limit exceeded, retrying" >&2; echo done >&2; exit 0""", 1),
        ("sleep 60", 1),
        ("exit 3", 1),
    ],
    ids=[
        "stderr",
        "stdout",
        "stderr and 0",
        "plain and 0",
        "an event and 0",
        "an answer",
        "a remark",
        "a timeout",
        "another failure",
    ],
)
def test_a_preflight_command_runs_first(workspace: Workspace, first: str, pings: int) -> None:
    ping = workspace.folder / "ping.sh"
    ping.write_text(PING.replace("{first}", first).replace("{then}", "exit 0"))
    ping.chmod(0o755)
    workspace.write("def work(payload): return payload\n")
    patience = "2s" if "sleep" in first else "30s"  # Long enough for a shell to start and write its line.
    workspace.configure(
        f'preflight = "command"\npreflight_command = ["{ping}"]\npreflight_timeout = "{patience}"'
    )
    workspace.rows(*({"id": str(n), "payload": n} for n in range(5)))
    code, err = workspace.run()
    assert code == 0, err
    assert workspace.log() == ["ping"] * pings
    assert [row["response"]["body"] for row in workspace.results()] == list(range(5))


def test_sigkill_of_the_run_ends_its_workers_and_nothing_is_lost(workspace: Workspace) -> None:
    workspace.write("""
import os, subprocess, time
from pathlib import Path
def work(unit):
    if unit < 5 or Path("again").exists():
        return unit
    child = subprocess.Popen(["sleep", "60"])
    Path(f"pids-{unit}").write_text(f"{os.getpid()} {child.pid}")
    time.sleep(60)
""")
    workspace.rows(*({"id": str(n), "payload": n} for n in range(10)))
    run = workspace.start()
    pids = _when(lambda: [path.read_text().split() for path in workspace.folder.glob("pids-*")], 2)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert all(gone_within(int(pid), 2.0) for pair in pids for pid in pair)
    (workspace.folder / "again").touch()
    code, err = workspace.run()
    assert code == 0, err
    assert [row["response"]["body"] for row in workspace.results()] == list(range(10))


def _when(look: Callable[[], list[list[str]]], count: int) -> list[list[str]]:
    """Wait until this many are complete."""
    until = time.monotonic() + 30.0
    while time.monotonic() < until:
        found = [each for each in look() if len(each) == 2]
        if len(found) == count:
            return found
        time.sleep(0.01)
    raise AssertionError(f"never {count}")


def test_units_behind_the_first_do_not_block_other_lanes(workspace: Workspace) -> None:
    """A slow first unit, and only two places for all lanes: the other lane gets the second place, not the waiting units.

    The slow units end after the fast ones, so that nothing ends at all if the fast ones cannot run.
    """
    workspace.write("""
import time
from pathlib import Path
def slow(unit):
    while len(list(Path(".").glob("done-*"))) < 4:
        time.sleep(0.01)
    return unit
def quick(unit):
    Path(f"done-{unit}").touch()
    return unit
""")
    quick = '[providers.quick]\nkind = "python"\ntarget = "deeds:quick"\nworkers = 2\n'
    workspace.configure(target="deeds:slow", rest=f"{quick}[run]\nconcurrency = 2\n")
    slow = [{"id": f"s{n}", "model": "work/slow", "payload": n} for n in range(4)]
    workspace.rows(*slow, *({"id": f"q{n}", "model": "quick/quick", "payload": n} for n in range(4)))
    began = time.monotonic()
    code, err = workspace.run("--timeout", "20s", "--max-attempts", "1")
    assert code == 0, err
    assert time.monotonic() - began < CANARY_S


def test_ctrl_c_while_the_function_is_imported_leaves_nothing(workspace: Workspace) -> None:
    workspace.write("""
import os, time
from pathlib import Path
Path("pids-0").write_text(f"{os.getpid()} {os.getppid()}")
time.sleep(60)
def work(unit): return unit
""")
    workspace.rows({"id": "a", "payload": 1})
    run = workspace.start()
    ((worker, _),) = _when(lambda: [path.read_text().split() for path in workspace.folder.glob("pids-*")], 1)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=30)
    assert (run.returncode, err.strip()) == (130, "headway: interrupted")
    assert gone_within(int(worker), 2.0)
    assert not (workspace.folder / "in.results.jsonl").exists()


def test_a_function_of_the_same_name_in_another_module_is_another_job(workspace: Workspace) -> None:
    for module in ("deeds", "others"):
        workspace.write(f"def work(payload):\n    return {module!r}\n", f"{module}.py")
    workspace.rows({"id": "a", "payload": 1})
    for module in ("deeds", "others"):
        workspace.configure(target=f"{module}:work")
        code, err = workspace.run("--force")
        assert code == 0, err
        assert [row["response"]["body"] for row in workspace.results()] == [module]
